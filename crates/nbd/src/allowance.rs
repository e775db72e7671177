//! Memory that all connections of a server share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use mjolnir_units::BLOCK_SIZE;

/// The least bytes that a connection may have at any time: more than the smallest piece of any
/// request takes.
const EACH_BYTES_MIN: u64 = 4 * BLOCK_SIZE;
/// An arriving piece of a write takes at most one in this many of the bytes left, so that clients
/// that stop in the middle leave most bytes to others.
const ARRIVING_SHARE: u64 = 16;

/// Bytes that the requests and replies of several connections may take together. Clones share them.
///
/// Each connection may have [`each`](Self::with_each) bytes at any time, whatever the others hold.
/// Beyond that it may hold as many bytes as then remain free (the dynamic threshold of Choudhury
/// and Hahne, 1998): alone half of all, beside another that took its half a quarter. A request that
/// does not fit is handled in pieces that do.
#[derive(Clone, Debug)]
pub struct Allowance {
    bytes_max: u64,
    bytes_each: u64,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Bytes of all connections beyond `each` of them.
    bytes: u64,
    /// Connections that had no room, by number.
    waiting: BTreeMap<u64, Waker>,
    /// The number of the next connection.
    next: u64,
}

impl Allowance {
    /// An allowance of `bytes_max` bytes for all connections, beyond the few that each may have.
    pub fn new(bytes_max: u64) -> Self {
        Allowance { bytes_max, bytes_each: EACH_BYTES_MIN, taken: Arc::default() }
    }

    /// Gives each connection this many bytes at any time; at least a few blocks.
    #[must_use]
    pub fn with_each(self, bytes: u64) -> Self {
        Allowance { bytes_each: bytes.max(EACH_BYTES_MIN), ..self }
    }

    /// Bytes taken now, beyond those that each connection may have at any time.
    pub fn taken(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // No code under the lock can panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Allowance {
    /// Unlimited.
    fn default() -> Self {
        Allowance::new(u64::MAX)
    }
}

/// One connection's share of an [`Allowance`]; returned when dropped.
pub(crate) struct Share {
    allowance: Allowance,
    /// Its number.
    number: u64,
    /// Bytes taken beyond those that each may have.
    bytes: u64,
}

/// The memory that a connection may take in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes for one more request.
    pub bytes: u64,
    /// The most bytes of an arriving piece of a write.
    pub arriving: u64,
    /// Whether it holds no bytes now: then there is room for a piece of any request.
    pub is_idle: bool,
    /// Whether requests are being handled.
    pub is_busy: bool,
}

impl Share {
    pub fn of(allowance: Allowance) -> Self {
        let number = {
            let mut taken = allowance.lock();
            taken.next += 1;
            taken.next
        };
        Share { allowance, number, bytes: 0 }
    }

    /// Sets the bytes that the connection holds.
    pub fn set(&mut self, bytes: u64) {
        let bytes = bytes.saturating_sub(self.allowance.bytes_each);
        if bytes == self.bytes {
            return;
        }
        let mut taken = self.allowance.lock();
        taken.bytes = taken.bytes - self.bytes + bytes;
        // A waiting connection has requests under way, and looks again whenever one ends. So small
        // returns need not wake it: with many connections, these wakes would cost more than all
        // other work.
        let waiting = if bytes < self.bytes && taken.bytes <= self.allowance.bytes_max / 2 {
            std::mem::take(&mut taken.waiting)
        } else {
            BTreeMap::new()
        };
        drop(taken);
        self.bytes = bytes;
        waiting.into_values().for_each(Waker::wake);
    }

    /// The room for a connection that holds `used` bytes besides its input, and may have `most`.
    pub fn room(&self, used: u64, most: u64) -> Room {
        let each = self.allowance.bytes_each;
        let left = self.allowance.bytes_max.saturating_sub(self.allowance.taken());
        let own = each.saturating_sub(used);
        let shared = left.saturating_sub(self.bytes).saturating_add(own);
        Room {
            bytes: own.max(shared.min(most.saturating_sub(used))),
            arriving: each.max(left / ARRIVING_SHARE),
            is_idle: used == 0,
            is_busy: false,
        }
    }

    /// Bytes of input that the connection may hold beyond the minimum.
    pub fn input_room(&self) -> u64 {
        let left = self.allowance.bytes_max.saturating_sub(self.allowance.taken());
        left.saturating_sub(self.bytes)
    }

    /// Has `waker` woken once many bytes are returned.
    pub fn wait(&self, waker: &Waker) {
        self.allowance.lock().waiting.insert(self.number, waker.clone());
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        self.allowance.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    const EACH: u64 = 32 << 10;
    const ALL: u64 = u64::MAX;

    #[test]
    fn each_may_have_as_much_as_the_others_leave_and_whoever_waits_is_woken() {
        let allowance = Allowance::new(1 << 20).with_each(EACH);
        let share = || Share::of(allowance.clone());
        let (mut one, mut two) = (share(), share());
        assert_eq!(one.room(0, ALL).bytes, (1 << 20) + EACH);
        assert_eq!(one.room(0, 4096).bytes, EACH, "whatever bound it has besides");
        one.set((512 << 10) + EACH);
        assert_eq!(one.room((512 << 10) + EACH, ALL).bytes, 0, "alone it has half");
        assert_eq!(two.room(0, ALL).bytes, (512 << 10) + EACH);
        two.set((256 << 10) + EACH);
        assert_eq!(two.room((256 << 10) + EACH, ALL).bytes, 0, "and the next half of the rest");

        let told = Arc::new(Told::default());
        two.wait(&Waker::from(told.clone()));
        two.wait(&Waker::from(told.clone()));
        one.set(600 << 10);
        assert_eq!(told.0.load(Ordering::Relaxed), 0);
        drop(one);
        assert_eq!(told.0.load(Ordering::Relaxed), 1);
        assert_eq!(two.room((256 << 10) + EACH, ALL).bytes, 512 << 10);
        drop(two);
        assert_eq!(allowance.taken(), 0);
    }

    #[test]
    fn each_has_a_few_bytes_though_nothing_is_left() {
        let allowance = Allowance::new(1 << 20).with_each(1);
        let mut greedy = Share::of(allowance.clone());
        greedy.set(2 << 20);
        for used in [0, 4096, EACH_BYTES_MIN, 1 << 20] {
            let mut other = Share::of(allowance.clone());
            other.set(used);
            let room = other.room(used, ALL);
            assert_eq!(room.bytes, EACH_BYTES_MIN.saturating_sub(used));
            assert_eq!((room.arriving, room.is_idle), (EACH_BYTES_MIN, used == 0));
        }
    }

    /// However many stop sending in the middle of a write, there is room for those that do not.
    #[test]
    fn writes_that_arrive_leave_room_to_others() {
        let allowance = Allowance::new(32 << 20).with_each(EACH);
        let mut stalled: Vec<Share> = Vec::new();
        for _ in 0..1024 {
            let mut share = Share::of(allowance.clone());
            share.set(share.room(0, ALL).arriving);
            stalled.push(share);
        }
        assert_eq!(stalled[0].bytes, (2 << 20) - EACH);
        assert!(Share::of(allowance).room(0, ALL).bytes >= 16 * EACH);
    }

    #[derive(Default)]
    struct Told(AtomicU32);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
