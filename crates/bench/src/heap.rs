//! An allocator that counts: the second opinion on what the store says of its memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, and an account of what it was asked for while somebody wants to know: it
/// takes longer than many an allocation does, so rows that measure time must not pay for it.
pub struct Counting;

/// How many want to know.
static COUNTS: AtomicUsize = AtomicUsize::new(0);
/// Bytes in use more than when the first of them began; less than 0 wraps round.
static BYTES: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    if COUNTS.load(Ordering::Relaxed) > 0 {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

fn given_back(bytes: usize) {
    if COUNTS.load(Ordering::Relaxed) > 0 {
        BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What the whole process allocates from its beginning on.
pub struct Count {
    bytes: usize,
    allocations: usize,
}

impl Count {
    /// Begins to count.
    pub fn begin() -> Self {
        COUNTS.fetch_add(1, Ordering::Relaxed);
        Count {
            bytes: BYTES.load(Ordering::Relaxed),
            allocations: ALLOCATIONS.load(Ordering::Relaxed),
        }
    }

    /// Bytes that are in use more than at the beginning, as asked for: without the allocator's own
    /// overhead. Less than 0 where more was given back.
    pub fn bytes(&self) -> isize {
        BYTES.load(Ordering::Relaxed).wrapping_sub(self.bytes) as isize
    }

    /// How often memory was asked for, or memory of another size instead of some.
    pub fn allocations(&self) -> usize {
        ALLOCATIONS.load(Ordering::Relaxed).wrapping_sub(self.allocations)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        COUNTS.fetch_sub(1, Ordering::Relaxed);
    }
}

// SAFETY: every method passes its arguments on to `System` unchanged and returns what it returned,
// so `System`'s guarantees are ours. The counts do not influence what is returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller got `pointer` from here, so from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        given_back(layout.size());
        // SAFETY: as in `dealloc`; `size` is the caller's, as `GlobalAlloc::realloc` wants it.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn what_is_allocated_is_counted() {
        // Other tests allocate meanwhile, but not as much.
        const MANY: isize = 32 << 20;
        let count = Count::begin();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(count.bytes() >= MANY && count.allocations() > 0);
        let later = Count::begin();
        drop(held);
        assert!(count.bytes() < MANY && later.bytes() <= -MANY);
    }
}
