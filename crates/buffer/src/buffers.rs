//! Memory that is used again and again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mjolnir_units::BLOCK_BYTES;

use crate::AlignedBuf;
use crate::aligned::Block;

/// How much memory is kept for reuse by default, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Memory beyond what was in use at once: a quarter of it, and at least so many bytes, so that where
/// few buffers are in use a short one does not cost a long one its place.
const SLACK_BYTES_MIN: usize = 1 << 20;

/// Buffers for payloads and reads. A buffer comes back when it, or the last slice of what it was
/// frozen to, is dropped; it is handed out again as it is: neither zeroed nor given back to the
/// system, which would cost a page fault for each of its blocks. There is little more memory, kept or
/// in use, than was in use at once: lengths vary, and what was kept of every length would add up.
///
/// Clones share their memory. Buffers may be dropped on any thread.
#[derive(Clone)]
pub struct Buffers {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    kept_bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Free buffers by their size.
    by_size: BTreeMap<usize, Vec<Vec<Block>>>,
    bytes: usize,
    /// Bytes in use.
    lent: usize,
    /// The most that were in use at once since [`Buffers::shrink_to`].
    lent_most: usize,
}

impl Kept {
    /// Gives up buffers, the longest first, until at most `bytes` are left; returns them.
    #[must_use = "they are better dropped without the lock"]
    fn shrink_to(&mut self, bytes: usize) -> Vec<Vec<Block>> {
        let mut given_up = Vec::new();
        while self.bytes > bytes
            && let Some(mut longest) = self.by_size.last_entry()
        {
            let size = *longest.key();
            match longest.get_mut().pop() {
                Some(buffer) => {
                    self.bytes -= size;
                    given_up.push(buffer);
                }
                None => drop(longest.remove()),
            }
        }
        given_up
    }
}

impl Buffers {
    /// Buffers of which at most `bytes` are kept while nobody uses them.
    pub fn keeping(bytes: usize) -> Self {
        Buffers { shared: Arc::new(Shared { kept_bytes_max: bytes, kept: Mutex::default() }) }
    }

    /// Bytes that are kept and not in use.
    pub fn kept_bytes(&self) -> usize {
        self.shared.kept().bytes
    }

    /// Bytes that are kept or in use.
    pub fn bytes(&self) -> usize {
        let kept = self.shared.kept();
        kept.bytes + kept.lent
    }

    /// Lets go of kept buffers, the longest first, until at most `bytes` are left.
    pub fn shrink_to(&self, bytes: usize) {
        let mut kept = self.shared.kept();
        let given_up = kept.shrink_to(bytes);
        kept.lent_most = kept.lent + kept.bytes;
        drop(kept);
        drop(given_up);
    }

    /// A buffer of `length` bytes, whose content is left over from earlier use.
    pub fn take(&self, length: usize) -> AlignedBuf {
        let size = size_for(length);
        let mut kept = self.shared.kept();
        // Lengths of reads vary: one that is somewhat too long is better than a new one.
        let mut fitting = kept.by_size.range_mut(size..=2 * size);
        let free = fitting.find_map(|(_, free)| free.pop());
        let taken = free.as_ref().map(|free| free.len() * BLOCK_BYTES);
        kept.bytes -= taken.unwrap_or(0);
        kept.lent += taken.unwrap_or(size);
        kept.lent_most = kept.lent_most.max(kept.lent);
        let slack = (kept.lent_most / 4).max(SLACK_BYTES_MIN);
        let spare = kept.lent_most + slack - kept.lent;
        let given_up = kept.shrink_to(spare);
        drop(kept);
        drop(given_up);
        let blocks = free.unwrap_or_else(|| Block::zeroed(size));
        AlignedBuf::lent(blocks, length, self.shared.clone())
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers::keeping(KEPT_BYTES_MAX)
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({} bytes kept)", self.kept_bytes())
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that can panic happens under the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a buffer's memory back, or lets go of it if enough is kept.
    pub(crate) fn put(&self, blocks: Vec<Block>) {
        let size = blocks.len() * BLOCK_BYTES;
        let mut kept = self.kept();
        kept.lent -= size;
        if kept.bytes + size <= self.kept_bytes_max {
            kept.bytes += size;
            kept.by_size.entry(size).or_default().push(blocks);
        }
    }
}

/// The size of the buffer for `length` bytes: at most a quarter more, so that few sizes serve
/// all lengths.
fn size_for(length: usize) -> usize {
    let blocks = length.div_ceil(BLOCK_BYTES).max(1);
    let step = (blocks.next_power_of_two() / 8).max(1);
    blocks.next_multiple_of(step) * BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_few_and_little_is_wasted() {
        let mut sizes: Vec<usize> = (0..=32 << 20).step_by(512).map(size_for).collect();
        sizes.dedup();
        assert!(sizes.is_sorted() && sizes.len() < 60, "{}", sizes.len());
        for length in (1..32 << 20).step_by(511) {
            let size = size_for(length);
            assert!(size >= length && size.is_multiple_of(BLOCK_BYTES));
            assert!(size <= length.next_multiple_of(BLOCK_BYTES) * 5 / 4, "{length}: {size}");
        }
        assert_eq!((size_for(1 << 20), size_for(4096)), (1 << 20, 4096));
    }

    #[test]
    fn a_buffer_comes_back_with_its_last_slice() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(5000);
        let place = buffer.as_ref().as_ptr();
        assert_eq!(place.addr() % BLOCK_BYTES, 0);
        buffer.as_mut().fill(7);
        let bytes = buffer.freeze();
        assert_eq!(&*bytes, &[7; 5000][..]);
        let slice = bytes.slice(4096..);
        drop(bytes);
        assert_eq!((buffers.kept_bytes(), buffers.bytes()), (0, 8192));
        drop(slice);
        assert_eq!((buffers.kept_bytes(), buffers.bytes()), (8192, 8192));
        let again = buffers.clone().take(8000);
        assert_eq!((again.as_ref().as_ptr(), again.len()), (place, 8000));
        assert_eq!(buffers.kept_bytes(), 0);
    }

    #[test]
    fn a_buffer_that_is_somewhat_too_long_serves_too() {
        let buffers = Buffers::default();
        drop([buffers.take(7 << 20), buffers.take(3 << 20)]);
        let somewhat = buffers.take(2 << 20);
        assert_eq!((buffers.kept_bytes(), somewhat.len()), (7 << 20, 2 << 20));
        drop(buffers.take(2 << 20));
        assert_eq!(buffers.kept_bytes(), 9 << 20, "7 MiB were far too many");
    }

    #[test]
    fn what_is_kept_shrinks_from_the_longest() {
        let buffers = Buffers::default();
        let taken = [buffers.take(4096), buffers.take(4096), buffers.take(1 << 20)];
        drop(taken);
        assert_eq!(buffers.kept_bytes(), 8192 + (1 << 20));
        buffers.shrink_to(10_000);
        assert_eq!(buffers.kept_bytes(), 8192);
        buffers.shrink_to(0);
        assert_eq!(buffers.kept_bytes(), 0);
    }

    #[test]
    fn there_is_little_more_than_was_in_use_at_once() {
        let buffers = Buffers::default();
        let two = [buffers.take(4 << 20), buffers.take(4 << 20)];
        drop(two);
        for blocks in (1..200).rev() {
            let buffer = buffers.take(blocks << 14);
            assert!(buffers.bytes() <= 10 << 20, "{blocks}");
            drop(buffer);
        }
        assert!((1 << 20..=10 << 20).contains(&buffers.kept_bytes()), "some are kept");
        buffers.shrink_to(1 << 20);
        for _ in 0..100 {
            drop([buffers.take(2 << 20), buffers.take(700 << 10)]);
            drop(buffers.take(1 << 20));
        }
        assert!(buffers.bytes() <= 4 << 20, "what was in use before it shrank does not count");
    }

    #[test]
    fn short_buffers_do_not_cost_long_ones_their_place() {
        let buffers = Buffers::default();
        for (short, long) in [(4096, 64 << 10), (4096, 1 << 20), (64 << 10, 256 << 10)] {
            drop(buffers.take(long));
            drop(buffers.take(short));
            let before = buffers.bytes();
            for _ in 0..10 {
                for length in [short, long] {
                    let buffer = buffers.take(length);
                    assert_eq!(buffers.bytes(), before, "{length} was not made anew");
                    drop(buffer);
                }
            }
        }
    }

    #[test]
    fn no_more_is_kept_than_was_allowed() {
        let buffers = Buffers::keeping(10_000);
        let taken = [buffers.take(4096), buffers.take(4096), buffers.take(4096)];
        drop(taken);
        assert_eq!(buffers.kept_bytes(), 8192);
        assert_eq!(Buffers::keeping(0).take(1).len(), 1);
        drop(buffers.take(0));
    }
}
