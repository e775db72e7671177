//! What each block holds: a pure function of seed, block and version, so that any block read can be
//! judged without keeping what was written.
//!
//! Versions of a block count up from 0. Those divisible by [`HOLE_EVERY`] are holes (0: never
//! written; later ones: trimmed) and read as zeroes; all others carry their block and version in
//! the first 16 bytes and noise in the rest. So a block that is not what it should be tells what
//! it is: another block, an older version, or damaged.

use std::ops::RangeInclusive;

use mjolnir_units::BLOCK_BYTES;

use super::random::{Random, mix};

/// Each version divisible by it is a hole.
const HOLE_EVERY: u32 = 8;

/// Whether a block of this version reads as zeroes.
fn is_hole(version: u32) -> bool {
    version.is_multiple_of(HOLE_EVERY)
}

/// The version that a write gives a block.
pub fn after_write(version: u32) -> u32 {
    if is_hole(version + 1) { version + 2 } else { version + 1 }
}

/// The version that a trim gives a block.
pub fn after_trim(version: u32) -> u32 {
    (version / HOLE_EVERY + 1) * HOLE_EVERY
}

/// The content of all blocks.
#[derive(Clone, Copy)]
pub struct Content {
    /// Makes the noise of one demo differ from another's.
    pub seed: u64,
}

impl Content {
    /// Fills `bytes`, one block long, with what `block` holds in a written `version`.
    pub fn fill(&self, block: u64, version: u32, bytes: &mut [u8]) {
        assert!(!is_hole(version) && bytes.len() == BLOCK_BYTES);
        let mut noise = Random::new(self.seed ^ mix(block ^ (u64::from(version) << 40)));
        let (words, _) = bytes.as_chunks_mut::<8>();
        for word in words.iter_mut() {
            *word = noise.number().to_le_bytes();
        }
        words[0] = block.to_le_bytes();
        words[1] = u64::from(version).to_le_bytes();
    }

    /// Judges what was read as `block`, which may be of any of the `allowed` versions.
    ///
    /// # Errors
    ///
    /// What is there instead, in words.
    pub fn judge(
        &self,
        block: u64,
        allowed: RangeInclusive<u32>,
        found: &[u8],
    ) -> Result<(), String> {
        let wanted = if allowed.start() == allowed.end() {
            format!("version {}", allowed.start())
        } else {
            format!("one of versions {} to {}", allowed.start(), allowed.end())
        };
        if found.iter().all(|byte| *byte == 0) {
            let mut allowed = allowed;
            return match allowed.any(is_hole) {
                true => Ok(()),
                false => Err(format!("block {block} reads as zeroes; it should hold {wanted}")),
            };
        }
        let (words, _) = found.as_chunks::<8>();
        let (owner, version) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        let version = u32::try_from(version).ok().filter(|version| !is_hole(*version));
        let mut expected = [0; BLOCK_BYTES];
        if let Some(version) = version {
            self.fill(owner, version, &mut expected);
        }
        let Some(version) = version.filter(|_| expected == found) else {
            let from = match version {
                Some(_) => expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(0),
                None => 0,
            };
            return Err(format!("block {block} is damaged from its byte {from} on"));
        };
        if owner != block {
            return Err(format!("block {block} holds block {owner}, version {version}"));
        }
        if !allowed.contains(&version) {
            return Err(format!("block {block} holds version {version}; it should hold {wanted}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: Content = Content { seed: 7 };

    fn block(number: u64, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        CONTENT.fill(number, version, &mut bytes);
        bytes
    }

    #[test]
    fn what_was_written_is_accepted_in_its_versions_only() {
        let bytes = block(5, 9);
        CONTENT.judge(5, 9..=9, &bytes).unwrap();
        CONTENT.judge(5, 7..=12, &bytes).unwrap();
        let why = CONTENT.judge(5, 10..=11, &bytes).unwrap_err();
        assert_eq!(why, "block 5 holds version 9; it should hold one of versions 10 to 11");
        let why = CONTENT.judge(6, 9..=9, &bytes).unwrap_err();
        assert_eq!(why, "block 6 holds block 5, version 9");
    }

    #[test]
    fn every_single_damaged_byte_is_seen() {
        for at in 0..BLOCK_BYTES {
            let mut bytes = block(5, 9);
            bytes[at] ^= 0x10;
            assert!(CONTENT.judge(5, 9..=9, &bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn zeroes_are_accepted_where_a_hole_may_be() {
        let zeroes = vec![0; BLOCK_BYTES];
        CONTENT.judge(1, 0..=0, &zeroes).unwrap();
        CONTENT.judge(1, 5..=9, &zeroes).unwrap();
        assert!(CONTENT.judge(1, 9..=15, &zeroes).unwrap_err().contains("reads as zeroes"));
    }

    #[test]
    fn writes_and_trims_give_versions_of_their_kind() {
        let mut version = 0;
        for _ in 0..40 {
            let written = after_write(version);
            assert!(written > version && !is_hole(written));
            let trimmed = after_trim(version);
            assert!(trimmed > version && is_hole(trimmed));
            version = written;
        }
    }
}
