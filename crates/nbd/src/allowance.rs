//! Memory that all connections of a server have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Bytes that the requests of several connections may take together. Clones share them.
///
/// A connection may have as much as the others leave free when it has it (the dynamic threshold of
/// Choudhury and Hahne, 1998): alone half of all, beside another that took its half a quarter, so that
/// there is always room for one that comes. And it may have one request whatever the others hold, so
/// together they exceed this by a request each at most.
#[derive(Clone, Debug)]
pub struct Allowance {
    bytes_max: u64,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    /// Connections that had no room.
    waiting: Vec<Waker>,
}

impl Allowance {
    /// So many bytes for all that share it.
    pub fn new(bytes_max: u64) -> Self {
        Allowance { bytes_max, taken: Arc::default() }
    }

    /// Bytes that are taken now.
    pub fn taken(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Nothing that can panic happens under the lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
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
        if bytes == self.bytes {
            return;
        }
        let mut taken = self.allowance.lock();
        taken.bytes = taken.bytes - self.bytes + bytes;
        let waiting =
            if bytes < self.bytes { std::mem::take(&mut taken.waiting) } else { Vec::new() };
        drop(taken);
        self.bytes = bytes;
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it may have so many bytes more. If not, `waker` is woken once some are given back.
    pub fn has_room(&self, bytes: u64, waker: &Waker) -> bool {
        let mut taken = self.allowance.lock();
        let left = self.allowance.bytes_max.saturating_sub(taken.bytes);
        let fits = bytes == 0 || self.bytes + bytes <= left;
        if !fits && !taken.waiting.iter().any(|other| other.will_wake(waker)) {
            taken.waiting.push(waker.clone());
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[test]
    fn each_may_have_as_much_as_the_others_leave_and_whoever_waits_is_woken() {
        let allowance = Allowance::new(1 << 20);
        let share = || Share::of(allowance.clone());
        let (mut one, mut two) = (share(), share());
        let waker = Waker::noop();
        assert!(one.has_room(1 << 20, waker) && !one.has_room((1 << 20) + 1, waker));
        one.set(512 << 10);
        assert!(!one.has_room(1, waker), "alone it has half");
        assert!(two.has_room(512 << 10, waker) && two.has_room(0, waker));
        two.set(256 << 10);
        assert!(!two.has_room(1, waker), "and the next half of the rest");

        let told = Arc::new(Told::default());
        assert!(!two.has_room(64 << 10, &Waker::from(told.clone())));
        assert!(!two.has_room(64 << 10, &Waker::from(told.clone())));
        one.set(600 << 10);
        assert_eq!(told.0.load(Ordering::Relaxed), 0);
        drop(one);
        assert_eq!(told.0.load(Ordering::Relaxed), 1);
        assert!(two.has_room(64 << 10, waker));
        drop(two);
        assert_eq!(allowance.taken(), 0);
    }

    #[derive(Default)]
    struct Told(AtomicU32);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
