//! Reuse of buffers' memory.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mjolnir_units::BLOCK_BYTES;
use slab::Slab;

use crate::AlignedBuf;
use crate::region::Region;
use crate::shared::Arena;

/// The memory kept for reuse by default, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// The size of a region where much memory may be kept, and its least size.
const REGION_BYTES: usize = 8 << 20;
const REGION_BYTES_MIN: usize = 64 << 10;
/// The largest size of the first region: enough for occasional reads and writes.
const FIRST_REGION_BYTES: usize = 256 << 10;
/// A region takes at most one in this many parts of the memory that may be kept.
const REGION_SHARE: usize = 8;

/// Buffers for payloads and reads. A buffer comes back when it, or the last slice of its frozen
/// bytes, is dropped. Its memory is handed out again unzeroed, and not returned to the system,
/// which would cost a page fault for each of its blocks.
///
/// Buffers are cut from large pieces of memory, *regions*, in order, so that successive buffers lie
/// side by side. When a region is used up, cutting continues in another region that is half free,
/// else in a new one. A buffer longer than half a usual region gets a region of about its own
/// length, which serves no short buffers. The first region for short buffers is small, and is freed
/// last. So for buffers of similar lengths, the regions take at most about twice the memory that
/// was in use at once. Gaps between buffers in use do not count as kept memory: they stay until the
/// buffers around them are dropped.
///
/// Clones share their memory. Buffers may be dropped on any thread.
#[derive(Clone)]
pub struct Buffers {
    shared: Arc<Shared>,
}

struct Shared {
    kept_bytes_max: usize,
    pool: Mutex<Pool>,
}

/// A run of blocks of a region.
struct Run {
    region: usize,
    first: usize,
    count: usize,
    start: *mut u8,
}

struct Pool {
    regions: Slab<Region>,
    /// Where regions are made, as long as there is room.
    arena: Option<Arc<Arena>>,
    /// The region that buffers are cut from.
    current: usize,
    /// Bytes of a region that serves buffers of many lengths.
    usual: usize,
    /// Bytes of all regions, and of those of which nothing is in use.
    bytes: usize,
    idle: usize,
    /// Bytes in use.
    lent: usize,
    /// The most that were in use at once since [`Buffers::rest`], and between that and the one before.
    lent_most: usize,
    lent_most_before: usize,
}

impl Pool {
    /// Whether so many blocks are too many for a region that serves others, too.
    fn is_long(&self, count: usize) -> bool {
        2 * count * BLOCK_BYTES > self.usual
    }

    /// Bytes of the first region for short buffers.
    fn first(&self) -> usize {
        self.usual.min(FIRST_REGION_BYTES)
    }

    fn lend(&mut self, count: usize) -> Option<Run> {
        let run = self.lend_from(self.current, count).or_else(|| {
            let keys = self.regions.iter().filter(|(_, region)| region.is_half_free());
            let keys: Vec<usize> = keys.map(|(key, _)| key).collect();
            keys.into_iter().find_map(|key| {
                self.regions[key].rewind();
                self.lend_from(key, count)
            })
        })?;
        self.lent += count * BLOCK_BYTES;
        self.lent_most = self.lent_most.max(self.lent);
        Some(run)
    }

    fn lend_from(&mut self, key: usize, count: usize) -> Option<Run> {
        let region = self.regions.get_mut(key)?;
        let (bytes, idle) = (region.bytes(), region.is_idle());
        // A short buffer must not hold on to what is there for a long one.
        if region.is_long() && 2 * count * BLOCK_BYTES < bytes {
            return None;
        }
        let (first, start) = region.lend(count)?;
        self.idle -= if idle { bytes } else { 0 };
        self.current = key;
        Some(Run { region: key, first, count, start })
    }

    fn give_back(&mut self, run: &Run) {
        self.lent -= run.count * BLOCK_BYTES;
        let region = &mut self.regions[run.region];
        region.give_back(run.first, run.count);
        if region.is_idle() {
            self.idle += region.bytes();
        }
    }

    /// Another region, for so many blocks that none has room for. Gives up idle ones, none of which
    /// serves, where there would be much more memory than was in use at once.
    fn add(&mut self, count: usize) -> io::Result<Vec<Region>> {
        let length = count * BLOCK_BYTES;
        let is_long = self.is_long(count);
        let is_first = self.regions.iter().all(|(_, region)| region.is_long());
        let bytes = if is_long {
            length
        } else if is_first && length <= self.first() {
            self.first()
        } else {
            self.usual
        };
        let piece = self.arena.as_ref().and_then(|arena| arena.lend(bytes));
        let region = match piece {
            Some(piece) => Region::in_piece(piece, bytes, is_long),
            None => Region::new(bytes, is_long)?,
        };
        let most = self.lent_most.max(self.lent_most_before).max(self.lent + length);
        let slack = (most / 4).max(self.usual);
        let given_up = self.shrink_to((most + slack).saturating_sub(self.lent + bytes));
        self.bytes += bytes;
        self.idle += bytes;
        self.current = self.regions.insert(region);
        Ok(given_up)
    }

    /// Gives up idle regions until they have at most `bytes`; returns them.
    #[must_use = "they are better dropped without the lock"]
    fn shrink_to(&mut self, bytes: usize) -> Vec<Region> {
        let mut given_up = Vec::new();
        while self.idle > bytes {
            let next = self.next_to_give_up().expect("what is idle has bytes");
            given_up.push(self.give_up(next));
        }
        given_up
    }

    /// Gives up idle regions that were not needed since the last time; where little was, down to as much as
    /// a first one.
    #[must_use = "they are better dropped without the lock"]
    fn rest(&mut self) -> Vec<Region> {
        let (needed, first) = (self.lent_most, self.first());
        (self.lent_most_before, self.lent_most) = (needed, self.lent);
        let mut given_up = Vec::new();
        while let Some(next) = self.next_to_give_up() {
            let is_spare = match needed > first {
                true => self.bytes - self.regions[next].bytes() >= needed,
                false => self.idle > first,
            };
            if !is_spare {
                break;
            }
            given_up.push(self.give_up(next));
        }
        given_up
    }

    /// The idle region that is missed the least: one for long buffers, which serves no others, and of
    /// those any but the one used last; else the largest.
    fn next_to_give_up(&self) -> Option<usize> {
        let idle = self.regions.iter().filter(|(_, region)| region.is_idle());
        let next = idle.max_by_key(|(key, region)| {
            let (is_long, is_current) = (region.is_long(), *key == self.current);
            (is_long, is_long && !is_current, region.bytes(), !is_current)
        });
        next.map(|(key, _)| key)
    }

    fn give_up(&mut self, key: usize) -> Region {
        let region = self.regions.remove(key);
        self.idle -= region.bytes();
        self.bytes -= region.bytes();
        region
    }
}

impl Buffers {
    /// Buffers of which at most `bytes` are kept where nobody uses any.
    pub fn keeping(bytes: usize) -> Self {
        Buffers::with(bytes, None)
    }

    /// The same, in memory that outlives the process as far as there is room.
    pub fn keeping_in(bytes: usize, arena: Arc<Arena>) -> Self {
        Buffers::with(bytes, Some(arena))
    }

    fn with(bytes: usize, arena: Option<Arc<Arena>>) -> Self {
        let pool = Pool {
            regions: Slab::new(),
            arena,
            current: 0,
            usual: (bytes / REGION_SHARE).clamp(REGION_BYTES_MIN, REGION_BYTES) / BLOCK_BYTES
                * BLOCK_BYTES,
            bytes: 0,
            idle: 0,
            lent: 0,
            lent_most: 0,
            lent_most_before: 0,
        };
        Buffers { shared: Arc::new(Shared { kept_bytes_max: bytes, pool: Mutex::new(pool) }) }
    }

    /// Bytes that are kept and not in use.
    pub fn kept_bytes(&self) -> usize {
        let pool = self.shared.pool();
        pool.bytes - pool.lent
    }

    /// Bytes that are kept or in use.
    pub fn bytes(&self) -> usize {
        self.shared.pool().bytes
    }

    /// Bytes of the arena that are neither kept nor in use: there all the same, and counted nowhere else.
    pub fn unused_arena_bytes(&self) -> usize {
        self.shared.pool().arena.as_ref().map_or(0, |arena| arena.free_bytes())
    }

    /// Lets go of memory that was not needed since this was last called, but for a little: called again
    /// and again while there is much to do it costs nothing, and whoever takes a buffer now and then need
    /// not ask the system for memory.
    pub fn rest(&self) {
        let given_up = self.shared.pool().rest();
        drop(given_up);
    }

    /// Whether [`rest`](Self::rest) will have something to let go of, once nobody uses it.
    pub fn can_rest(&self) -> bool {
        let pool = self.shared.pool();
        pool.bytes > pool.first()
    }

    /// A buffer of `length` bytes, whose content is left over from earlier use.
    pub fn take(&self, length: usize) -> AlignedBuf {
        let mut pool = self.shared.pool();
        let count = match length.div_ceil(BLOCK_BYTES).max(1) {
            long if pool.is_long(long) => rounded(long),
            short => short,
        };
        let found = pool.lend(count);
        let (run, given_up) = if let Some(run) = found {
            (run, Vec::new())
        } else {
            let Ok(given_up) = pool.add(count) else {
                // Too many pieces for the system, perhaps: what its allocator says decides.
                drop(pool);
                return AlignedBuf::zeroed(length);
            };
            (pool.lend(count).expect("a new region has room"), given_up)
        };
        drop(pool);
        drop(given_up);
        AlignedBuf::lent(Loan { home: self.shared.clone(), run }, length)
    }
}

/// The blocks of a long buffer's region: at most a quarter more than `blocks`, so that few sizes serve
/// all lengths.
fn rounded(blocks: usize) -> usize {
    blocks.next_multiple_of((blocks.next_power_of_two() / 8).max(1))
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
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // Nothing that can panic for a good reason happens under the lock.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run of a region's blocks, lent to whoever holds this, and given back when it is dropped.
pub(crate) struct Loan {
    home: Arc<Shared>,
    run: Run,
}

// SAFETY: the run's pointer is to bytes that are this loan's alone, and that live as long as it; threads
// may hand it on and read it together as they may a `Vec<u8>`.
unsafe impl Send for Loan {}
// SAFETY: as above; a shared reference gives nothing but reads.
unsafe impl Sync for Loan {}

impl Loan {
    pub fn len(&self) -> usize {
        self.run.count * BLOCK_BYTES
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Region::lend` gave so many bytes from there on to this loan alone; they were zero
        // once, so they are initialised. The region is not given up before all that is lent of it is
        // given back, which `drop` does, and `home` keeps it until then.
        unsafe { std::slice::from_raw_parts(self.run.start, self.len()) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.run.start, self.len()) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut pool = self.home.pool();
        pool.give_back(&self.run);
        let given_up = pool.shrink_to(self.home.kept_bytes_max);
        drop(pool);
        drop(given_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buffers whose regions are as small as they get.
    fn small() -> Buffers {
        Buffers::keeping(4 * REGION_BYTES_MIN)
    }

    fn at(buffer: &AlignedBuf) -> usize {
        buffer.as_ref().as_ptr().addr()
    }

    #[test]
    fn what_is_taken_in_turn_lies_side_by_side() {
        let buffers = small();
        let taken: Vec<_> = [1, 1, 3, 8, 1].map(|blocks| buffers.take(blocks * BLOCK_BYTES)).into();
        for pair in taken.windows(2) {
            assert_eq!(at(&pair[1]), at(&pair[0]) + pair[0].len());
        }
        assert_eq!(at(&taken[0]) % BLOCK_BYTES, 0);
        assert_eq!(buffers.kept_bytes(), REGION_BYTES_MIN - 14 * BLOCK_BYTES);
    }

    #[test]
    fn a_buffer_comes_back_with_its_last_slice() {
        let buffers = small();
        let mut buffer = buffers.take(5000);
        let place = at(&buffer);
        buffer.as_mut().fill(7);
        let bytes = buffer.freeze();
        assert_eq!(&*bytes, &[7; 5000][..]);
        let slice = bytes.slice(4096..);
        drop(bytes);
        assert_eq!(buffers.bytes() - buffers.kept_bytes(), 8192);
        drop(slice);
        assert_eq!(buffers.kept_bytes(), REGION_BYTES_MIN);
        let again = buffers.clone().take(8000);
        assert_eq!((at(&again), again.len()), (place, 8000));
    }

    #[test]
    fn lengths_of_regions_of_their_own_are_few_and_little_is_wasted() {
        let mut sizes: Vec<usize> = (1..8192).map(rounded).collect();
        sizes.dedup();
        assert!(sizes.is_sorted() && sizes.len() < 60, "{}", sizes.len());
        for blocks in 1..8192 {
            assert!((blocks..=blocks * 5 / 4).contains(&rounded(blocks)), "{blocks}");
        }
        let buffers = small();
        let long = buffers.take(17 * BLOCK_BYTES);
        assert_eq!((buffers.bytes(), long.len()), (20 * BLOCK_BYTES, 17 * BLOCK_BYTES));
    }

    #[test]
    fn memory_that_nobody_uses_is_let_go_the_longest_first() {
        let buffers = small();
        let long = 3 * REGION_BYTES_MIN;
        drop([buffers.take(long), buffers.take(4096), buffers.take(long)]);
        assert_eq!(buffers.bytes(), REGION_BYTES_MIN + long, "four regions may be kept");
        let held = buffers.take(4096);
        for (kept, rests) in [(REGION_BYTES_MIN + long, true), (REGION_BYTES_MIN, false)] {
            assert!(buffers.can_rest());
            buffers.rest();
            assert_eq!((buffers.bytes(), buffers.can_rest()), (kept, rests), "some is in use");
        }
        drop(held);
        for lengths in [[40 << 10; 3], [40 << 10, 3000, 40 << 10], [200 << 10, 60 << 10, 3000]] {
            drop(lengths.map(|length| buffers.take(length)));
            buffers.rest();
            buffers.rest();
            assert!(!buffers.can_rest(), "{lengths:?}: {} bytes", buffers.bytes());
            let short = buffers.take(4096);
            assert_eq!(buffers.bytes(), REGION_BYTES_MIN, "{lengths:?}");
            drop(short);
        }
        buffers.rest();
        assert_eq!(buffers.bytes(), REGION_BYTES_MIN, "the next buffer is cut from it");
        drop(buffers.shared.pool().shrink_to(0));
        assert_eq!((buffers.bytes(), buffers.kept_bytes()), (0, 0));
        let nothing_kept = Buffers::keeping(0);
        assert_eq!(nothing_kept.take(1).len(), 1);
        drop(nothing_kept.take(0));
        nothing_kept.rest();
        assert_eq!(nothing_kept.bytes(), 0);
    }

    #[test]
    fn what_is_needed_again_and_again_is_kept() {
        let buffers = Buffers::default();
        let long = 3 << 20;
        for most in [FIRST_REGION_BYTES, 100 << 10, 1 << 20, 20 << 20] {
            let mut kept = None;
            for _ in 0..10 {
                let mut held: Vec<_> = (0..most / 8192).map(|_| buffers.take(8192)).collect();
                if most > 2 * long {
                    held.push(buffers.take(long));
                }
                let before = *kept.get_or_insert(buffers.bytes());
                assert_eq!(buffers.bytes(), before, "{most}: nothing is made anew");
                drop(held);
                buffers.rest();
            }
            assert_eq!(buffers.can_rest(), most > FIRST_REGION_BYTES, "{most}");
            buffers.rest();
            assert!(!buffers.can_rest() && buffers.bytes() <= FIRST_REGION_BYTES, "{most}");
        }
    }

    #[test]
    fn a_region_that_is_half_free_is_used_before_another_is_made() {
        let buffers = small();
        let blocks = REGION_BYTES_MIN / BLOCK_BYTES;
        let mut first: Vec<_> = (0..blocks).map(|_| buffers.take(4096)).collect();
        let second: Vec<_> = (0..blocks).map(|_| buffers.take(4096)).collect();
        assert_eq!(buffers.bytes(), 2 * REGION_BYTES_MIN);
        first.truncate(blocks / 2);
        let third: Vec<_> = (0..blocks / 2).map(|_| buffers.take(4096)).collect();
        assert_eq!((buffers.bytes(), buffers.kept_bytes()), (2 * REGION_BYTES_MIN, 0));
        drop((first, second, third));
        assert_eq!(buffers.kept_bytes(), 2 * REGION_BYTES_MIN);
    }

    #[test]
    fn there_is_little_more_than_was_in_use_at_once() {
        for ascending in [true, false] {
            let buffers = Buffers::default();
            let usual = KEPT_BYTES_MAX / REGION_SHARE;
            drop([buffers.take(4 << 20), buffers.take(4 << 20)]);
            for step in 1..200 {
                let blocks = if ascending { step } else { 200 - step };
                drop(buffers.take(blocks << 16));
                let most = (8 << 20).max(blocks << 16);
                assert!(buffers.bytes() <= most * 5 / 4 + 2 * usual, "{blocks}");
            }
            buffers.rest();
            buffers.rest();
            for _ in 0..100 {
                drop([buffers.take(3 << 20), buffers.take(700 << 10)]);
                drop(buffers.take(1 << 20));
            }
            assert!(
                buffers.bytes() <= 2 * usual,
                "what was in use before it rested does not count"
            );
        }
    }

    #[test]
    fn short_buffers_do_not_cost_long_ones_their_place() {
        let buffers = small();
        for (short, long) in [(4096, 64 << 10), (4096, 100 << 10), (16 << 10, 200 << 10)] {
            let held = buffers.take(short);
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
            drop(held);
        }
    }

    #[test]
    fn short_buffers_that_are_held_pin_no_regions_of_long_ones() {
        for long in [48 << 10, REGION_BYTES_MIN, 2 * REGION_BYTES_MIN] {
            let buffers = small();
            let mut held = Vec::new();
            for _ in 0..10 {
                drop(buffers.take(long));
                held.push(buffers.take(4096));
            }
            assert!(buffers.bytes() <= 2 * REGION_BYTES_MIN + long, "{long}: {}", buffers.bytes());
        }
    }

    /// Buffers of all lengths, taken and dropped in a scattered order, keep what is written into them.
    #[test]
    fn no_buffer_lies_on_another() {
        let buffers = small();
        let mut held: Vec<(AlignedBuf, u8)> = Vec::new();
        let (mut chance, mut most) = (1_u64, 0);
        for round in 0..20_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = (chance >> 33) as usize;
            if held.len() > draw % 200 {
                let (buffer, mark) = held.swap_remove(draw % held.len());
                assert!(buffer.as_ref().iter().all(|&byte| byte == mark), "round {round}");
            } else {
                let length =
                    if draw.is_multiple_of(50) { 3 * REGION_BYTES_MIN } else { draw % 20_000 };
                let mut buffer = buffers.take(length);
                buffer.as_mut().fill(round as u8);
                held.push((buffer, round as u8));
            }
            most = most.max(buffers.bytes() - buffers.kept_bytes());
            assert!(buffers.bytes() <= 2 * most + 4 * REGION_BYTES_MIN, "round {round}: {most}");
        }
        drop(held);
        assert!(buffers.bytes() <= 4 * REGION_BYTES_MIN, "all is idle");
    }
}
