//! Memory that all connections of a server share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use mjolnir_units::BLOCK_SIZE;

/// The least that a connection may have at any time, in bytes: more than the smallest piece of any request
/// takes.
const EACH_BYTES_MIN: u64 = 4 * BLOCK_SIZE;
/// A piece of a write that is arriving takes at most one in so many bytes of those that are left, so that
/// clients that stop sending in the middle leave most of them to others.
const ARRIVING_SHARE: u64 = 16;

/// Bytes that the requests and replies of several connections may take together. Clones share them.
///
/// Each connection may have [`each`](Self::with_each) bytes at any time, whatever the others hold. Beyond that it
/// may have as much as the others leave free when it has it (the dynamic threshold of Choudhury and
/// Hahne, 1998): alone half of all, beside another that took its half a quarter. A request that
/// does not fit is handled in pieces that do.
#[derive(Clone, Debug)]
pub struct Allowance {
    bytes_max: u64,
    bytes_each: u64,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// What connections have beyond what each may have.
    bytes: u64,
    /// Connections that had no room, by number.
    waiting: BTreeMap<u64, Waker>,
    /// The number of the next connection.
    next: u64,
}

impl Allowance {
    /// So many bytes for all that share it, beyond the few that each may have.
    pub fn new(bytes_max: u64) -> Self {
        Allowance { bytes_max, bytes_each: EACH_BYTES_MIN, taken: Arc::default() }
    }

    /// With so many bytes for each connection at any time; a few blocks at least.
    #[must_use]
    pub fn with_each(self, bytes: u64) -> Self {
        Allowance { bytes_each: bytes.max(EACH_BYTES_MIN), ..self }
    }

    /// Bytes that are taken now, beyond what each connection may have at any time.
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
    /// Its number.
    number: u64,
    /// What it has beyond what each may have.
    bytes: u64,
}

/// What a connection may have besides what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes for one more request.
    pub bytes: u64,
    /// The most bytes of a write's piece that is arriving.
    pub arriving: u64,
    /// Whether it has nothing now: then there is room for some piece of any request.
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

    /// It has so many bytes now.
    pub fn set(&mut self, bytes: u64) {
        let bytes = bytes.saturating_sub(self.allowance.bytes_each);
        if bytes == self.bytes {
            return;
        }
        let mut taken = self.allowance.lock();
        taken.bytes = taken.bytes - self.bytes + bytes;
        // Who waits has something under way, and looks again whenever some of that ends. So it need not
        // be called each time that somebody gives back a little, which with many of them would cost more
        // than all else.
        let waiting = if bytes < self.bytes && taken.bytes <= self.allowance.bytes_max / 2 {
            std::mem::take(&mut taken.waiting)
        } else {
            BTreeMap::new()
        };
        drop(taken);
        self.bytes = bytes;
        waiting.into_values().for_each(Waker::wake);
    }

    /// The room there is for a connection that holds `used` bytes besides its input, and may have `most`.
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

    /// Bytes of input that it may hold beyond a little.
    pub fn input_room(&self) -> u64 {
        let left = self.allowance.bytes_max.saturating_sub(self.allowance.taken());
        left.saturating_sub(self.bytes)
    }

    /// Has `waker` woken once much is given back.
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
