//! What simulated clients write: blocks of which 16 bytes mean something.
//!
//! A client's block begins with a magic number and a content tag; the drive keeps the tag and
//! forgets the rest, and checksums sum the tag alone. The log's headers and the map's nodes begin
//! otherwise, are kept whole, and are summed whole.

use std::sync::OnceLock;

use bytes::Bytes;
use mjolnir_device::Buffers;
use mjolnir_units::BLOCK_BYTES;

/// What a client's block begins with. No block of the log or the map does: they begin with magic
/// numbers of their own, or with a map node's small numbers.
const MAGIC: u64 = 0xe7a6_11ab_0b5e_c7ed;
/// The tag of every block where no oracle looks at it.
pub(crate) const PLAIN_TAG: u64 = 1;
/// Blocks of the payload that all share where no oracle looks.
pub(crate) const PLAIN_BLOCKS: usize = 256;
/// Bytes of buffers that are kept for payload while nobody uses them.
const KEPT_BYTES: usize = 64 << 20;

/// The tag of a client's block; `None` for any other block.
#[inline]
pub(crate) fn tag_of(block: &[u8]) -> Option<u64> {
    let (magic, rest) = block.split_first_chunk::<8>()?;
    let tag = rest.first_chunk::<8>()?;
    (u64::from_le_bytes(*magic) == MAGIC).then_some(u64::from_le_bytes(*tag))
}

/// Makes a block one with a tag. Its other bytes stay what they were.
#[inline]
pub(crate) fn put_tag(block: &mut [u8], tag: u64) {
    block[..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..16].copy_from_slice(&tag.to_le_bytes());
}

/// The checksum of a block with a tag.
pub(crate) fn checksum_of_tag(tag: u64) -> u32 {
    // The finalizer of SplitMix64: every bit of the tag reaches every bit of the sum.
    let mut x = tag.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as u32
}

/// The checksum of a block's content: of its tag, if it has one.
pub(crate) fn checksum(block: &[u8]) -> u32 {
    match tag_of(block) {
        Some(tag) => checksum_of_tag(tag),
        None => crc32c::crc32c(block),
    }
}

/// Up to [`PLAIN_BLOCKS`] blocks with the plain tag, from memory that is never given back.
pub(crate) fn plain(blocks: usize) -> Bytes {
    static PLAIN: OnceLock<&'static [u8]> = OnceLock::new();
    let all = PLAIN.get_or_init(|| {
        let mut bytes = vec![0; PLAIN_BLOCKS * BLOCK_BYTES];
        bytes.chunks_exact_mut(BLOCK_BYTES).for_each(|block| put_tag(block, PLAIN_TAG));
        Vec::leak(bytes)
    });
    Bytes::from_static(&all[..blocks * BLOCK_BYTES])
}

/// Payload with tags of its own for each block.
pub(crate) struct Tagged {
    buffers: Buffers,
}

impl Tagged {
    pub fn new() -> Self {
        Tagged { buffers: Buffers::keeping(KEPT_BYTES) }
    }

    /// Blocks with the tags `first`, `first + 1`, and so on.
    pub fn blocks(&self, first: u64, count: usize) -> Bytes {
        let mut buffer = self.buffers.take(count * BLOCK_BYTES);
        let blocks = buffer.as_mut().chunks_exact_mut(BLOCK_BYTES);
        blocks.zip(first..).for_each(|(block, tag)| put_tag(block, tag));
        buffer.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_and_is_all_that_is_summed() {
        let blocks = Tagged::new().blocks(7, 3);
        let tags: Vec<_> = blocks.chunks_exact(BLOCK_BYTES).map(tag_of).collect();
        assert_eq!(tags, [Some(7), Some(8), Some(9)]);
        let mut other = vec![0xff; BLOCK_BYTES];
        put_tag(&mut other, 8);
        assert_eq!(checksum(&other), checksum(&blocks[BLOCK_BYTES..2 * BLOCK_BYTES]));
        assert_ne!(checksum(&blocks[..BLOCK_BYTES]), checksum(&other));
        assert_eq!(tag_of(&[0; 4096]), None);
        assert_eq!(checksum(&[1; 4096]), crc32c::crc32c(&[1; 4096]));
        assert_eq!(tag_of(&plain(2)[4096..]), Some(PLAIN_TAG));
    }
}
