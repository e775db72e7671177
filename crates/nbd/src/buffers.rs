//! Memory for payloads, used again and again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mjolnir_device::AlignedBuf;
use mjolnir_units::BLOCK_BYTES;

/// How much memory is kept for reuse by default, in bytes.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// Block-aligned buffers that payloads are received into. A buffer comes back once the store
/// lets go of its last slice, and is handed out again as it is: neither zeroed nor given back to
/// the system, which would cost a page fault for each of its blocks.
///
/// Clones share their memory, so all connections with clones of one [`Options`](crate::Options)
/// do. Buffers may be dropped on any thread.
#[derive(Clone)]
pub struct Buffers {
    shared: Arc<Shared>,
}

struct Shared {
    kept_bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Free buffers by their size.
    by_size: BTreeMap<usize, Vec<AlignedBuf>>,
    bytes: usize,
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

    /// A buffer of `length` bytes, whose content is left over from earlier use.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let size = size_for(length);
        let mut kept = self.shared.kept();
        let free = kept.by_size.get_mut(&size).and_then(Vec::pop);
        if free.is_some() {
            kept.bytes -= size;
        }
        drop(kept);
        let memory = free.unwrap_or_else(|| AlignedBuf::zeroed(size));
        Buffer { memory, length, home: self.shared.clone() }
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
}

/// The size of the buffer for `length` bytes: at most a quarter more, so that few sizes serve
/// all lengths.
fn size_for(length: usize) -> usize {
    let blocks = length.div_ceil(BLOCK_BYTES).max(1);
    let step = (blocks.next_power_of_two() / 8).max(1);
    blocks.next_multiple_of(step) * BLOCK_BYTES
}

/// Memory to be filled, then frozen.
pub(crate) struct Buffer {
    memory: AlignedBuf,
    length: usize,
    home: Arc<Shared>,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Gives up the right to write, in exchange for cheap sharing.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory.as_ref()[..self.length]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory.as_mut()[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, AlignedBuf::zeroed(0));
        let size = memory.len();
        let mut kept = self.home.kept();
        if kept.bytes + size <= self.home.kept_bytes_max {
            kept.bytes += size;
            kept.by_size.entry(size).or_default().push(memory);
        }
    }
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
        assert_eq!(buffers.kept_bytes(), 0);
        drop(slice);
        assert_eq!(buffers.kept_bytes(), 8192);
        let again = buffers.clone().take(8000);
        assert_eq!((again.as_ref().as_ptr(), again.len()), (place, 8000));
        assert_eq!(buffers.kept_bytes(), 0);
    }

    #[test]
    fn no_more_is_kept_than_was_allowed() {
        let buffers = Buffers::keeping(10_000);
        let taken = [buffers.take(4096), buffers.take(4096), buffers.take(4096)];
        drop(taken);
        assert_eq!(buffers.kept_bytes(), 8192);
        assert_eq!(Buffers::keeping(0).take(1).len(), 1);
    }
}
