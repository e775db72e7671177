//! Asks the processor for memory ahead of its use.

use std::sync::Arc;

use crate::{Map, Node, NodeId};

/// Prefetch distance in nodes, for walks that do some work on each node.
pub const PREFETCH_AHEAD: usize = 4;

/// Prefetches the first lines of a node, its `Arc` counts included, while the walk works on other
/// nodes. A walk of a large map spends most of its time waiting for memory.
#[inline]
pub fn prefetch(node: &Arc<Node>) {
    // An `Arc` has its counts right before its content. If they lay elsewhere, this prefetch would
    // only help less.
    let content = Arc::as_ptr(node).cast::<u8>();
    ask_for(content.wrapping_sub(2 * size_of::<usize>()));
    ask_for(content.wrapping_add(size_of::<Node>() - 1));
}

impl Map {
    /// For a walk over leaves in order: prefetches the words of the first leaf, and the pointers to
    /// the words of a later one. Skips shared words, which came with the first leaf that has them,
    /// and leaves that are gone or absent.
    pub fn prefetch_leaves(&self, next: &[NodeId]) {
        let version =
            |id: &NodeId| self.table.is_used(*id).then(|| self.table.version(*id)).flatten();
        if let Some(first) = next.first().and_then(version)
            && first.patched().is_none()
        {
            first.entries().pieces().for_each(|(_, words)| prefetch_slice(words));
        }
        next.get(PREFETCH_AHEAD - 1).and_then(version).into_iter().for_each(prefetch);
    }
}

/// How many numbers of type `T` fit in one cache line.
pub const fn a_line<T>() -> usize {
    let fit = 64 / size_of::<T>();
    if fit == 0 { 1 } else { fit }
}

/// Prefetches a slice of numbers at once; otherwise they would come one line after the other.
#[inline]
pub fn prefetch_slice<T>(numbers: &[T]) {
    numbers.chunks(a_line::<T>()).for_each(prefetch_line);
}

/// Prefetches the cache line of the first number.
#[inline]
pub fn prefetch_line<T>(numbers: &[T]) {
    ask_for(numbers.as_ptr().cast());
}

/// Prefetches the cache line of an address.
#[inline]
pub(crate) fn ask_for(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing and never faults, whatever the address. It is part of
        // SSE, which every x86-64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
