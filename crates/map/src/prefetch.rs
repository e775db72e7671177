//! Asking a processor for memory ahead of its use.

use std::sync::Arc;

use crate::{Map, Node, NodeId};

/// How many nodes ahead of the one that is worked on memory is asked for, where that is some work.
pub const PREFETCH_AHEAD: usize = 4;

/// Asks for the first of what is used of a node, its counts among it, so that it comes while others are
/// worked on: a walk of a large map spends most of its time waiting.
#[inline]
pub fn prefetch(node: &Arc<Node>) {
    // An `Arc` has its counts right before its content; were they elsewhere, this would only be of
    // less use.
    let content = Arc::as_ptr(node).cast::<u8>();
    ask_for(content.wrapping_sub(2 * size_of::<usize>()));
    ask_for(content.wrapping_add(size_of::<Node>() - 1));
}

impl Map {
    /// Asks for the words of the first of some leaves, and for where to find those of one further on:
    /// for who goes through them in order. Not for words that it has in common with others, which were
    /// asked for with the first of these; nor is anything done about what is gone or absent.
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

/// How many numbers there are in a line of a processor's cache.
pub const fn a_line<T>() -> usize {
    let fit = 64 / size_of::<T>();
    if fit == 0 { 1 } else { fit }
}

/// Asks for all of some numbers at once, which otherwise come one line after the other.
#[inline]
pub fn prefetch_slice<T>(numbers: &[T]) {
    numbers.chunks(a_line::<T>()).for_each(prefetch_line);
}

/// Asks for the line that the first of some numbers is in.
#[inline]
pub fn prefetch_line<T>(numbers: &[T]) {
    ask_for(numbers.as_ptr().cast());
}

/// Asks for the line that an address is in.
#[inline]
pub(crate) fn ask_for(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing and faults nowhere, whatever it is asked for, and it is a
        // part of SSE, which every x86-64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
