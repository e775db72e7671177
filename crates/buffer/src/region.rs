//! A piece of memory that lends runs of blocks.

use std::io;

use memmap2::{MmapOptions, MmapRaw};
use mjolnir_units::BLOCK_BYTES;

use crate::shared::Piece;

/// The size of a huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A piece of memory, with a record of the blocks lent.
///
/// Blocks lent in succession lie side by side. In a large region they do so in physical memory,
/// too, if the system has huge pages: a write of many blocks then has few pieces. With one piece
/// for each block, a virtual machine's disk wrote 128 KiB at a time at half the rate.
pub(crate) struct Region {
    memory: Memory,
    /// Bytes of the mapping before the first block.
    skipped: usize,
    blocks: usize,
    is_long: bool,
    /// A bit for each block: whether it is lent.
    lent: Vec<u64>,
    lent_count: usize,
    /// The search for the next run starts here. Blocks returned before this point wait, so that
    /// successive runs lie side by side.
    next: usize,
}

/// The memory of a region.
enum Memory {
    Own(MmapRaw),
    /// In memory that outlives the process.
    Shared(Piece),
}

impl Memory {
    fn start(&self) -> *mut u8 {
        match self {
            Memory::Own(memory) => memory.as_mut_ptr(),
            Memory::Shared(piece) => piece.start(),
        }
    }
}

impl Region {
    /// A region of `bytes` zero bytes (whole blocks), for a single buffer or for many.
    pub fn new(bytes: usize, is_long: bool) -> io::Result<Self> {
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES), "regions are whole blocks");
        let huge = bytes >= HUGE_PAGE_BYTES;
        // Older kernels put mappings anywhere. What is skipped is never touched, and so takes no memory.
        let mapped = bytes + if huge { HUGE_PAGE_BYTES } else { 0 };
        let memory = MmapRaw::from(MmapOptions::new().len(mapped).map_anon()?);
        let skipped = if huge { to_huge_page(memory.as_mut_ptr().addr()) } else { 0 };
        #[cfg(target_os = "linux")]
        if huge {
            // Where the kernel has no huge pages, or may not use them, small ones serve as well.
            let _ = memory.advise_range(memmap2::Advice::HugePage, skipped, bytes);
        }
        Ok(Region::on(Memory::Own(memory), skipped, bytes, is_long))
    }

    /// A region in a piece of an arena, with any content.
    pub fn in_piece(piece: Piece, bytes: usize, is_long: bool) -> Self {
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES), "regions are whole blocks");
        Region::on(Memory::Shared(piece), 0, bytes, is_long)
    }

    fn on(memory: Memory, skipped: usize, bytes: usize, is_long: bool) -> Self {
        let blocks = bytes / BLOCK_BYTES;
        let lent = vec![0; blocks.div_ceil(64)];
        Region { memory, skipped, blocks, is_long, lent, lent_count: 0, next: 0 }
    }

    /// Bytes that can be lent.
    pub fn bytes(&self) -> usize {
        self.blocks * BLOCK_BYTES
    }

    /// Whether the region was made for a single buffer.
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// Whether nothing is lent.
    pub fn is_idle(&self) -> bool {
        self.lent_count == 0
    }

    /// Whether at most half of it is lent.
    pub fn is_half_free(&self) -> bool {
        2 * self.lent_count <= self.blocks
    }

    /// Restarts the search for the next run at the first block.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Lends a run of `count` blocks: returns the index of the first, and its address. The `count *
    /// BLOCK_BYTES` bytes from there are the borrower's alone until [`give_back`](Self::give_back),
    /// as long as the region exists.
    pub fn lend(&mut self, count: usize) -> Option<(usize, *mut u8)> {
        let mut first = self.seek(self.next, false);
        loop {
            let end = self.seek(first, true);
            if end - first >= count {
                break;
            }
            if end == self.blocks {
                return None;
            }
            first = self.seek(end, false);
        }
        self.mark(first, count, true);
        self.next = first + count;
        let at = self.skipped + first * BLOCK_BYTES;
        Some((first, self.memory.start().wrapping_add(at)))
    }

    /// Takes back a lent run.
    pub fn give_back(&mut self, first: usize, count: usize) {
        self.mark(first, count, false);
        if self.is_idle() {
            self.rewind();
        }
    }

    /// The first block from `at` on that is lent, or is not; the number of blocks if there is none.
    fn seek(&self, at: usize, lent: bool) -> usize {
        let mut mask = !0 << (at % 64);
        for (index, word) in self.lent.iter().enumerate().skip(at / 64) {
            let found = if lent { *word } else { !word } & mask;
            if found != 0 {
                return (index * 64 + found.trailing_zeros() as usize).min(self.blocks);
            }
            mask = !0;
        }
        self.blocks
    }

    fn mark(&mut self, first: usize, count: usize, lent: bool) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let some = (64 - at % 64).min(end - at);
            let mask = !0 >> (64 - some) << (at % 64);
            let word = &mut self.lent[at / 64];
            let wrong = (*word ^ if lent { 0 } else { mask }) & mask;
            let block = at / 64 * 64 + wrong.trailing_zeros() as usize;
            assert_eq!(wrong, 0, "block {block} is lent twice, or was not");
            *word ^= mask;
            at += some;
        }
        self.lent_count = if lent { self.lent_count + count } else { self.lent_count - count };
    }
}

/// Bytes from an address to the next huge page that begins there or later.
fn to_huge_page(address: usize) -> usize {
    address.next_multiple_of(HUGE_PAGE_BYTES) - address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_lie_side_by_side_and_never_on_each_other() {
        let mut region = Region::new(100 * BLOCK_BYTES, false).expect("memory");
        let (first, start) = region.lend(3).expect("room");
        assert_eq!((first, start.addr() % BLOCK_BYTES), (0, 0));
        let (second, place) = region.lend(61).expect("room");
        assert_eq!((second, place.addr()), (3, start.addr() + 3 * BLOCK_BYTES));
        region.give_back(first, 3);
        assert_eq!(region.lend(36).map(|run| run.0), Some(64), "what came back is left for later");
        assert!(region.lend(1).is_none() && !region.is_half_free());
        region.rewind();
        assert!(region.lend(4).is_none(), "three are free");
        region.rewind();
        assert_eq!(region.lend(3).map(|run| run.0), Some(0));
    }

    #[test]
    fn an_idle_region_begins_anew() {
        let mut region = Region::new(10 * BLOCK_BYTES, false).expect("memory");
        let (first, _) = region.lend(7).expect("room");
        assert!(!region.is_idle());
        region.give_back(first, 7);
        assert!(region.is_idle() && region.is_half_free());
        assert_eq!(region.lend(10).map(|run| run.0), Some(0));
        assert!(region.lend(1).is_none());
    }

    #[test]
    fn a_large_region_begins_at_a_huge_page() {
        assert_eq!(to_huge_page(4096), HUGE_PAGE_BYTES - 4096);
        assert_eq!((to_huge_page(0), to_huge_page(3 * HUGE_PAGE_BYTES)), (0, 0));
        let mut region = Region::new(HUGE_PAGE_BYTES + BLOCK_BYTES, false).expect("memory");
        let (_, start) = region.lend(513).expect("room");
        assert_eq!(start.addr() % HUGE_PAGE_BYTES, 0);
        assert!(region.lend(1).is_none());
    }

    #[test]
    #[should_panic(expected = "block 5 is lent twice, or was not")]
    fn what_was_not_lent_is_not_taken_back() {
        let mut region = Region::new(10 * BLOCK_BYTES, false).expect("memory");
        region.lend(5);
        region.give_back(4, 2);
    }
}
