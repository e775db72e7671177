//! An allocator that counts: the second opinion on what the store says of its memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, and a count of the bytes that it was asked for.
pub struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes in use now, as asked for: without the allocator's own overhead.
pub fn bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}

// SAFETY: every method passes its arguments on to `System` unchanged and returns what it returned,
// so `System`'s guarantees are ours. The count does not influence what is returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller got `pointer` from here, so from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        BYTES.fetch_add(size, Ordering::Relaxed);
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as in `dealloc`; `size` is the caller's, as `GlobalAlloc::realloc` wants it.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_allocated_is_counted() {
        // Other tests allocate meanwhile, but not as much.
        let before = super::bytes();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(super::bytes() >= before + (60 << 20));
        drop(held);
        assert!(super::bytes() < before + (60 << 20));
    }
}
