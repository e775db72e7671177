//! Read errors: every device read that fails, or returns other bytes than were written, is counted
//! by its purpose. The last errors are kept, with their places.

use std::collections::VecDeque;

use mjolnir_store::report::{ReadError, ReadErrorCounts, ReadErrorKind};

/// The number of errors kept.
const KEPT: usize = 256;

/// The most bytes of an error's message that are kept.
const MESSAGE_BYTES_MAX: usize = 512;

/// All read errors since the store was opened.
#[derive(Default)]
pub(crate) struct ReadErrors {
    /// Reads that failed.
    pub failed: ReadErrorCounts,
    /// Reads that returned blocks which do not match their checksums.
    pub mismatched: ReadErrorCounts,
    /// The last errors.
    recent: VecDeque<ReadError>,
}

impl ReadErrors {
    pub(crate) fn note(&mut self, mut error: ReadError) {
        let counts = match error.kind {
            ReadErrorKind::Failed => &mut self.failed,
            ReadErrorKind::Mismatch => &mut self.mismatched,
        };
        *counts.of_mut(error.purpose) += 1;
        let end = error.message.floor_char_boundary(MESSAGE_BYTES_MAX);
        error.message.truncate(end);
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(error);
    }

    pub fn total(&self) -> u64 {
        self.failed.total() + self.mismatched.total()
    }

    pub fn last(&self) -> Option<&ReadError> {
        self.recent.back()
    }

    /// The errors that came after the first `total`, as far as they are kept.
    pub fn since(&self, total: u64) -> impl Iterator<Item = &ReadError> {
        let new = usize::try_from(self.total() - total).unwrap_or(usize::MAX);
        self.recent.iter().skip(self.recent.len().saturating_sub(new))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_store::report::ReadPurpose;

    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_all_are_counted() {
        let mut errors = ReadErrors::default();
        let error = |block| ReadError {
            kind: if block % 2 == 0 { ReadErrorKind::Failed } else { ReadErrorKind::Mismatch },
            purpose: ReadPurpose::ALL[block as usize % 6],
            block,
            blocks: 1,
            segment: 0,
            at_ms: 0,
            message: "ü".repeat(MESSAGE_BYTES_MAX),
        };
        for block in 0..1000 {
            errors.note(error(block));
        }
        assert_eq!((errors.total(), errors.failed.total()), (1000, 500));
        assert_eq!((errors.failed.client, errors.mismatched.client), (167, 0));
        assert!(errors.recent.iter().all(|error| error.message.len() <= MESSAGE_BYTES_MAX));
        assert_eq!(errors.recent.len(), KEPT);
        assert_eq!(errors.last().unwrap().block, 999);
        let blocks = |since| errors.since(since).map(|error| error.block).collect::<Vec<u64>>();
        assert_eq!(blocks(997), [997, 998, 999]);
        assert_eq!(blocks(0).len(), KEPT);
        assert_eq!(blocks(1000), [0; 0]);
    }
}
