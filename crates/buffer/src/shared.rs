//! Memory that outlives the process: a file of a memory file system, mapped as a whole.
//!
//! The front is the *page*, which its one owner reads and writes by copying. The rest is the
//! *arena*, which lends pieces to [`Buffers`](crate::Buffers). The next process that maps the file
//! finds both unchanged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use mjolnir_units::BLOCK_BYTES;

use crate::region::HUGE_PAGE_BYTES;

/// The page of a mapped file, and its arena. The caller ensures that no other code, in this process
/// or another, changes the file while it is mapped.
pub struct SharedPage {
    arena: Arc<Arena>,
}

/// The rest of a mapped file.
pub struct Arena {
    /// The mapped file. Memory behind the file's end is never touched.
    memory: MmapRaw,
    /// Bytes of the file.
    bytes: usize,
    /// Bytes of the page, which lies before the arena.
    page_bytes: usize,
    /// Free pieces in order (first byte and length); no two touch.
    free: Mutex<Vec<(usize, usize)>>,
}

/// A piece of an arena, given back when it is dropped.
pub(crate) struct Piece {
    home: Arc<Arena>,
    at: usize,
    bytes: usize,
}

/// Maps a file, aligned such that huge pages of the file can usually be huge pages of the mapping.
fn map_aligned(file: &File, bytes: usize, populate: bool) -> io::Result<MmapRaw> {
    // Systems map below what is mapped already: what is longer by `skew` begins where a huge page does.
    let skew = MmapOptions::new().len(bytes).map_raw(file)?.as_mut_ptr().addr() % HUGE_PAGE_BYTES;
    let mut options = MmapOptions::new();
    options.len(bytes + if bytes < HUGE_PAGE_BYTES { 0 } else { skew });
    if populate { options.populate().map_raw(file) } else { options.map_raw(file) }
}

/// Puts an empty file of a memory file system, `bytes` long, in huge pages as far as the system has
/// them. A write of many of its blocks then has few pieces: with pages of 4 KiB, a virtual
/// machine's disk took 1 MiB at a time at 0.7 of the rate. Nothing else depends on huge pages.
///
/// The file system need not be mounted with `huge=`, nor `shmem_enabled` be set: `MADV_COLLAPSE`
/// (Linux 6.1) ignores both, except `deny`.
pub fn use_huge_pages(file: &File, bytes: usize) {
    let whole = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    // The system makes a huge page of what is there, even if that is one small page, and fills up the rest.
    let is_touched = |at: usize| file.write_all_at(&[0], at as u64).is_ok();
    if !(0..whole).step_by(HUGE_PAGE_BYTES).all(is_touched) {
        return;
    }
    #[cfg(target_os = "linux")]
    if let Ok(memory) = map_aligned(file, bytes, false) {
        // SAFETY: the range lies within the mapping, which lives on, and the advice changes no byte of it.
        // Where it is not aligned, or the system has no huge pages, that is an error without effect.
        unsafe { libc::madvise(memory.as_mut_ptr().cast(), whole, libc::MADV_COLLAPSE) };
    }
}

impl SharedPage {
    /// Maps a file that is and stays at least `bytes` long. Its first `page_bytes` (whole blocks)
    /// are the page. Brings the whole file into memory at once.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// If the page is not whole blocks, or longer than the file.
    pub fn map(file: &File, bytes: usize, page_bytes: usize) -> io::Result<Self> {
        assert!(page_bytes <= bytes && page_bytes.is_multiple_of(BLOCK_BYTES), "{page_bytes}");
        let memory = map_aligned(file, bytes, true)?;
        let arena = (bytes - page_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        let free = if arena > 0 { vec![(page_bytes, arena)] } else { Vec::new() };
        Ok(SharedPage {
            arena: Arc::new(Arena { memory, bytes, page_bytes, free: Mutex::new(free) }),
        })
    }

    /// The arena, whose pieces may be lent.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        let limit = self.arena.page_bytes;
        assert!(at.checked_add(bytes).is_some_and(|end| end <= limit), "{at}+{bytes} of {limit}");
        self.arena.memory.as_mut_ptr().wrapping_add(at)
    }

    /// Copies bytes of the page out.
    ///
    /// # Panics
    ///
    /// Past the page.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let from = self.at(at, out.len());
        // SAFETY: `at` checked that so many bytes of the mapping begin there, and they are the page's. No
        // reference to them exists, and whoever writes them has this page exclusively (`write`, `store`).
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes into the page.
    ///
    /// # Panics
    ///
    /// Past the page.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        // SAFETY: as in `read`; `&mut self` makes the access exclusive.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "{at}");
        let word = self.at(at, 8).cast::<u64>();
        // SAFETY: within the page, and aligned, since mappings begin at pages; any bits are a number. What
        // else reads and writes it is `read` and `write`, of which the latter is exclusive.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Sets a word of the page after all earlier writes: a process that finds the word finds these
    /// writes, too.
    ///
    /// # Panics
    ///
    /// If it is not aligned to 8 bytes, or past the page.
    pub fn store(&mut self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    /// A word of the page.
    ///
    /// # Panics
    ///
    /// If it is not aligned to 8 bytes, or past the page.
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Copies bytes of the arena out; `at` counts from the start of the file. False if the arena
    /// has no bytes there.
    ///
    /// # Panics
    ///
    /// If pieces of it may be lent.
    pub fn read_arena(&mut self, at: usize, out: &mut [u8]) -> bool {
        let arena = Arc::get_mut(&mut self.arena).expect("no piece of the arena is lent");
        let end = at.checked_add(out.len());
        if at < arena.page_bytes || end.is_none_or(|end| end > arena.bytes) {
            return false;
        }
        let from = arena.memory.as_mut_ptr().wrapping_add(at);
        // SAFETY: within the mapping, as was checked, and nobody else has a way to the arena.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
        true
    }
}

impl Arena {
    fn free(&self) -> MutexGuard<'_, Vec<(usize, usize)>> {
        // Nothing that can panic for a good reason happens under the lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The offset of these bytes in the file, if they belong to a piece of this arena.
    pub fn place_of(&self, bytes: &[u8]) -> Option<usize> {
        let at = bytes.as_ptr().addr().checked_sub(self.memory.as_ptr().addr())?;
        let end = at.checked_add(bytes.len())?;
        (at >= self.page_bytes && end <= self.bytes).then_some(at)
    }

    /// Bytes of free pieces.
    pub(crate) fn free_bytes(&self) -> usize {
        self.free().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Takes a piece of this length, if there is one.
    pub(crate) fn lend(self: &Arc<Self>, bytes: usize) -> Option<Piece> {
        let mut free = self.free();
        let index = free.iter().position(|(_, there)| *there >= bytes)?;
        let (at, there) = free[index];
        if there == bytes {
            free.remove(index);
        } else {
            free[index] = (at + bytes, there - bytes);
        }
        Some(Piece { home: self.clone(), at, bytes })
    }

    fn give_back(&self, at: usize, bytes: usize) {
        let mut free = self.free();
        let index = free.partition_point(|(other, _)| *other < at);
        free.insert(index, (at, bytes));
        // With the one behind it, then with the one before it.
        for first in [Some(index), index.checked_sub(1)].into_iter().flatten() {
            if let Some(&(next, more)) = free.get(first + 1)
                && free[first].0 + free[first].1 == next
            {
                free[first].1 += more;
                free.remove(first + 1);
            }
        }
    }
}

impl Piece {
    pub fn start(&self) -> *mut u8 {
        self.home.memory.as_mut_ptr().wrapping_add(self.at)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.home.give_back(self.at, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffers;

    fn mapped(blocks: usize) -> SharedPage {
        let file = tempfile::tempfile().unwrap();
        file.set_len((blocks * BLOCK_BYTES) as u64).unwrap();
        SharedPage::map(&file, blocks * BLOCK_BYTES, BLOCK_BYTES).unwrap()
    }

    #[test]
    fn pieces_that_came_back_are_one_again() {
        let page = mapped(11);
        let arena = page.arena();
        let [a, b, c] = [3, 4, 3].map(|blocks| arena.lend(blocks * BLOCK_BYTES).unwrap());
        assert!(arena.lend(BLOCK_BYTES).is_none());
        drop(a);
        drop(c);
        assert!(arena.lend(4 * BLOCK_BYTES).is_none(), "they do not touch");
        drop(b);
        assert!(arena.lend(10 * BLOCK_BYTES).is_some());
    }

    #[test]
    fn buffers_lie_in_the_arena_while_there_is_room_and_elsewhere_then() {
        let page = mapped(1 + 256);
        let buffers = Buffers::keeping_in(4 << 20, page.arena().clone());
        let mut first = buffers.take(BLOCK_BYTES);
        first.as_mut().fill(7);
        let at = page.arena().place_of(first.as_ref()).expect("there is room");
        assert!(at >= BLOCK_BYTES && at.is_multiple_of(BLOCK_BYTES));
        let first = first.freeze();
        assert_eq!(page.arena().place_of(&first[100..200]), Some(at + 100));
        let second = buffers.take(1 << 20);
        assert_eq!(page.arena().place_of(second.as_ref()), None, "the arena is too small");
        assert_eq!(page.arena().place_of(&[1, 2, 3]), None);
    }

    #[test]
    fn the_arena_knows_what_is_unused() {
        let page = mapped(1 + 2048);
        let buffers = Buffers::keeping_in(8 << 20, page.arena().clone());
        assert_eq!(buffers.unused_arena_bytes(), 8 << 20);
        let one = buffers.take(64 << 10);
        let unused = buffers.unused_arena_bytes();
        assert!(unused + one.as_ref().len() <= 8 << 20 && unused >= 4 << 20, "{unused}");
        assert_eq!(unused + buffers.bytes(), 8 << 20);
    }

    /// Whether the system has huge pages or not, what was written is there.
    #[test]
    fn a_file_is_the_same_in_huge_pages() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let bytes = 5 << 20;
        file.set_len(bytes as u64).unwrap();
        use_huge_pages(&file, bytes);
        assert_eq!(file.metadata().unwrap().len(), bytes as u64);
        let mut page = SharedPage::map(&file, bytes, BLOCK_BYTES).unwrap();
        page.write(10, b"abc");
        let mut ends = [0; 2];
        assert!(page.read_arena(bytes - 2, &mut ends) && ends == [0; 2]);
        assert!(!page.read_arena(bytes - 1, &mut ends), "past the file");
        let mut piece = Buffers::keeping_in(4 << 20, page.arena().clone()).take(BLOCK_BYTES);
        piece.as_mut().fill(3);
        let at = page.arena().place_of(piece.as_ref()).unwrap();
        drop((piece, page));
        let mut page = SharedPage::map(&file, bytes, BLOCK_BYTES).unwrap();
        let (mut out, mut block) = ([0; 3], [0; BLOCK_BYTES]);
        page.read(10, &mut out);
        assert!(page.read_arena(at, &mut block));
        assert_eq!((&out, block), (b"abc", [3; BLOCK_BYTES]));
    }

    #[test]
    fn what_was_left_is_found_by_whoever_maps_the_file_again() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100 * BLOCK_BYTES as u64).unwrap();
        let mut page = SharedPage::map(&file, 100 * BLOCK_BYTES, BLOCK_BYTES).unwrap();
        let buffers = Buffers::keeping_in(1 << 20, page.arena().clone());
        let mut buffer = buffers.take(BLOCK_BYTES);
        buffer.as_mut().fill(9);
        let at = page.arena().place_of(buffer.as_ref()).unwrap();
        page.write(100, b"abc");
        page.store(8, 77);
        drop((buffer, buffers, page));
        let mut page = SharedPage::map(&file, 100 * BLOCK_BYTES, BLOCK_BYTES).unwrap();
        let (mut out, mut block) = ([0; 3], [0; BLOCK_BYTES]);
        page.read(100, &mut out);
        assert_eq!((&out, page.load(8)), (b"abc", 77));
        assert!(page.read_arena(at, &mut block) && block == [9; BLOCK_BYTES]);
        assert!(!page.read_arena(BLOCK_BYTES - 1, &mut block), "that is the page's");
        assert!(!page.read_arena(99 * BLOCK_BYTES + 1, &mut block), "that is past the end");
    }

    #[test]
    #[should_panic(expected = "4096+1 of 4096")]
    fn a_page_has_an_end() {
        mapped(2).read(4096, &mut [0]);
    }
}
