//! Memory that is used again and again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mjolnir_units::BLOCK_BYTES;
use slab::Slab;

use crate::AlignedBuf;
use crate::region::Region;

/// How much memory is kept for reuse by default, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// How large regions are where much may be kept, and at least; a longer buffer has one of its own size.
const REGION_BYTES: usize = 2 << 20;
const REGION_BYTES_MIN: usize = 64 << 10;
/// The part of what may be kept that a region is at most: one in so many.
const REGION_SHARE: usize = 8;

/// Buffers for payloads and reads. A buffer comes back when it, or the last slice of what it was
/// frozen to, is dropped; its memory is handed out again as it is: neither zeroed nor given back to the
/// system, which would cost a page fault for each of its blocks.
///
/// They are cut from large pieces of memory, one after another, so that what is taken one after another
/// lies side by side and goes to a device as one piece. There is about twice the memory that was in use
/// at once, at most: a piece that is less than half free is left alone.
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

#[derive(Default)]
struct Pool {
    regions: Slab<Region>,
    /// The region that buffers are cut from.
    current: usize,
    /// Bytes of all regions.
    bytes: usize,
    /// Bytes in use.
    lent: usize,
}

impl Pool {
    fn kept(&self) -> usize {
        self.bytes - self.lent
    }

    /// A run of blocks: its region, the first of them, and where they lie.
    fn lend(&mut self, count: usize) -> Option<(usize, usize, *mut u8)> {
        let found = self.lend_from(self.current, count).or_else(|| {
            let keys = self.regions.iter().filter(|(_, region)| region.is_half_free());
            let keys: Vec<usize> = keys.map(|(key, _)| key).collect();
            keys.into_iter().find_map(|key| {
                self.regions[key].rewind();
                self.lend_from(key, count)
            })
        })?;
        self.lent += count * BLOCK_BYTES;
        Some(found)
    }

    fn lend_from(&mut self, key: usize, count: usize) -> Option<(usize, usize, *mut u8)> {
        let (first, start) = self.regions.get_mut(key)?.lend(count)?;
        self.current = key;
        Some((key, first, start))
    }

    /// Another region to cut buffers from.
    fn add(&mut self, region: Region) {
        self.bytes += region.bytes();
        self.current = self.regions.insert(region);
    }

    /// Gives up regions of which nothing is in use until at most `bytes` are kept; returns them.
    #[must_use = "they are better dropped without the lock"]
    fn shrink_to(&mut self, bytes: usize) -> Vec<Region> {
        let mut given_up = Vec::new();
        while self.kept() > bytes
            && let Some(key) =
                self.regions.iter().find_map(|(key, region)| region.is_idle().then_some(key))
        {
            let region = self.regions.remove(key);
            self.bytes -= region.bytes();
            given_up.push(region);
        }
        given_up
    }
}

impl Buffers {
    /// Buffers of which at most `bytes` are kept while nobody uses them, but for what lies between
    /// those that somebody does.
    pub fn keeping(bytes: usize) -> Self {
        Buffers { shared: Arc::new(Shared { kept_bytes_max: bytes, pool: Mutex::default() }) }
    }

    /// Bytes that are kept and not in use.
    pub fn kept_bytes(&self) -> usize {
        self.shared.pool().kept()
    }

    /// Bytes that are kept or in use.
    pub fn bytes(&self) -> usize {
        self.shared.pool().bytes
    }

    /// Lets go of memory until at most `bytes` are kept, as far as nobody uses some of it.
    pub fn shrink_to(&self, bytes: usize) {
        let given_up = self.shared.pool().shrink_to(bytes);
        drop(given_up);
    }

    /// A buffer of `length` bytes, whose content is left over from earlier use.
    pub fn take(&self, length: usize) -> AlignedBuf {
        let count = length.div_ceil(BLOCK_BYTES).max(1);
        let mut pool = self.shared.pool();
        let mut lent = pool.lend(count);
        if lent.is_none() {
            let Ok(region) = Region::new(self.shared.region_bytes(count)) else {
                // Too many pieces for the system, perhaps: what its allocator says decides.
                return AlignedBuf::zeroed(length);
            };
            pool.add(region);
            lent = pool.lend(count);
        }
        drop(pool);
        let (region, first, start) = lent.expect("a new region has room");
        let home = self.shared.clone();
        AlignedBuf::lent(Loan { home, region, first, count, start }, length)
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
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // Nothing that can panic for a good reason happens under the lock.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of a new region that has room for so many blocks.
    fn region_bytes(&self, count: usize) -> usize {
        let usual = (self.kept_bytes_max / REGION_SHARE).clamp(REGION_BYTES_MIN, REGION_BYTES);
        usual.max(count * BLOCK_BYTES)
    }
}

/// A run of a region's blocks, lent to whoever holds this, and given back when it is dropped.
pub(crate) struct Loan {
    home: Arc<Shared>,
    region: usize,
    first: usize,
    count: usize,
    start: *mut u8,
}

// SAFETY: the pointer is to bytes that are this loan's alone, and that live as long as it; threads may
// hand it on and read it together as they may a `Vec<u8>`.
unsafe impl Send for Loan {}
// SAFETY: as above; a shared reference gives nothing but reads.
unsafe impl Sync for Loan {}

impl Loan {
    pub fn len(&self) -> usize {
        self.count * BLOCK_BYTES
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Region::lend` gave so many bytes from there on to this loan alone; they were zero
        // once, so they are initialised. The region is not given up before all that is lent of it is
        // given back, which `drop` does, and `home` keeps it until then.
        unsafe { std::slice::from_raw_parts(self.start, self.len()) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len()) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut pool = self.home.pool();
        pool.lent -= self.len();
        let region = &mut pool.regions[self.region];
        region.give_back(self.first, self.count);
        let given_up = match region.is_idle() {
            true => pool.shrink_to(self.home.kept_bytes_max),
            false => Vec::new(),
        };
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
        let buffers = Buffers::default();
        let taken: Vec<_> =
            [1, 1, 3, 32, 1].map(|blocks| buffers.take(blocks * BLOCK_BYTES)).into();
        for pair in taken.windows(2) {
            assert_eq!(at(&pair[1]), at(&pair[0]) + pair[0].len());
        }
        assert_eq!(at(&taken[0]) % BLOCK_BYTES, 0);
        assert_eq!(buffers.kept_bytes(), REGION_BYTES - 38 * BLOCK_BYTES);
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
    fn memory_that_nobody_uses_is_let_go() {
        let buffers = small();
        let long = 3 * REGION_BYTES_MIN;
        drop([buffers.take(long), buffers.take(long)]);
        assert_eq!(buffers.bytes(), long, "four regions may be kept");
        let held = buffers.take(4096);
        buffers.shrink_to(0);
        assert_eq!(buffers.bytes(), long, "some of it is in use");
        drop(held);
        buffers.shrink_to(0);
        assert_eq!((buffers.bytes(), buffers.kept_bytes()), (0, 0));
        let nothing_kept = Buffers::keeping(0);
        assert_eq!(nothing_kept.take(1).len(), 1);
        drop(nothing_kept.take(0));
        assert_eq!(nothing_kept.bytes(), 0);
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

    /// Buffers of all lengths, taken and dropped in a scattered order, keep what is written into them;
    /// there is not much more memory than is in use.
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
            let lent = buffers.bytes() - buffers.kept_bytes();
            most = most.max(lent);
            assert!(buffers.bytes() <= 3 * most + 4 * REGION_BYTES_MIN, "round {round}: {most}");
        }
        drop(held);
        assert!(buffers.bytes() <= 4 * REGION_BYTES_MIN, "all is idle");
    }
}
