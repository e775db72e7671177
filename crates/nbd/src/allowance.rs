//! Memory that all connections of a server have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the requests of several connections may take together. Clones share them.
///
/// A connection with nothing in flight may take one request whatever the others hold, so none of them
/// can keep it waiting for ever and none has to be woken by another: together they exceed this by a
/// request each at most.
#[derive(Clone, Debug)]
pub struct Allowance {
    bytes_max: u64,
    taken: Arc<AtomicU64>,
}

impl Allowance {
    /// So many bytes for all that share it.
    pub fn new(bytes_max: u64) -> Self {
        Allowance { bytes_max, taken: Arc::default() }
    }

    /// Bytes that are taken now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether so many more bytes are free.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes == 0 || self.taken().saturating_add(bytes) <= self.bytes_max
    }
}

impl Default for Allowance {
    /// As many as there are.
    fn default() -> Self {
        Allowance::new(u64::MAX)
    }
}

/// What one connection has of an [`Allowance`]; given back when dropped.
pub(crate) struct Share {
    allowance: Allowance,
    bytes: u64,
}

impl Share {
    pub fn of(allowance: Allowance) -> Self {
        Share { allowance, bytes: 0 }
    }

    /// It has so many bytes now.
    pub fn set(&mut self, bytes: u64) {
        let taken = &self.allowance.taken;
        if bytes >= self.bytes {
            taken.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            taken.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Whether it may have so many bytes more.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.allowance.has_room(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
