//! Who sleeps until when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use slab::Slab;

/// Sleepers given up that are kept in line before it is made anew without them.
const GIVEN_UP_MAX: usize = 64;

/// Names a sleeper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    number: u64,
    key: usize,
}

struct Sleeper {
    /// Tells it from those that had its key before.
    number: u64,
    waker: Waker,
}

/// Sleepers, in line by when their sleep ends, and of several at once by their numbers.
#[derive(Default)]
pub(crate) struct Timers {
    sleepers: Slab<Sleeper>,
    /// When it ends, the sleeper's number, and its key. Who was given up stays in line for a while.
    line: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

impl Timers {
    /// Has `waker` woken at `until`. No other sleeper has that number.
    pub fn set(&mut self, until: u64, number: u64, waker: Waker) -> Timer {
        let key = self.sleepers.insert(Sleeper { number, waker });
        self.line.push(Reverse((until, number, key)));
        Timer { number, key }
    }

    /// Has another one woken, in the same place in line.
    pub fn change(&mut self, timer: Timer, waker: Waker) {
        if let Some(sleeper) = self.sleeper(timer) {
            sleeper.waker = waker;
        }
    }

    /// Nobody sleeps there any more, if somebody did; returns who would have been woken.
    pub fn give_up(&mut self, timer: Timer) -> Option<Waker> {
        self.sleeper(timer)?;
        let waker = self.sleepers.remove(timer.key).waker;
        if self.line.len() > 2 * self.sleepers.len() + GIVEN_UP_MAX {
            let sleepers = &self.sleepers;
            let sleeps = |number, key| sleepers.get(key).is_some_and(|one| one.number == number);
            self.line.retain(|Reverse((_, number, key))| sleeps(*number, *key));
        }
        Some(waker)
    }

    /// When the first sleep ends.
    pub fn next(&mut self) -> Option<u64> {
        loop {
            let Reverse((until, number, key)) = *self.line.peek()?;
            if self.sleeper(Timer { number, key }).is_some() {
                return Some(until);
            }
            self.line.pop();
        }
    }

    /// The first in line, if its sleep ends by then.
    pub fn pop_due(&mut self, by: u64) -> Option<Waker> {
        while self.line.peek()?.0.0 <= by {
            let Reverse((_, number, key)) = self.line.pop()?;
            if let Some(waker) = self.give_up(Timer { number, key }) {
                return Some(waker);
            }
        }
        None
    }

    /// Whether nobody sleeps.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.sleepers.is_empty()
    }

    fn sleeper(&mut self, timer: Timer) -> Option<&mut Sleeper> {
        self.sleepers.get_mut(timer.key).filter(|sleeper| sleeper.number == timer.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Chance;

    /// Against an ordered map, with sleepers given up, changed and woken in any order. A waker is told
    /// by what it counts.
    #[test]
    fn sleepers_are_woken_in_order_and_those_given_up_are_not() {
        for seed in 0..20 {
            let mut chance = Chance::new(seed);
            let (mut timers, mut model) = (Timers::default(), BTreeMap::new());
            let (mut now, mut count) = (0, 0u64);
            for step in 0..5_000 {
                let told = std::sync::Arc::new(Told::default());
                match chance.bits() % 8 {
                    0..4 => {
                        let until = now + chance.bits() % 50;
                        count += 1;
                        let timer = timers.set(until, count, Waker::from(told.clone()));
                        model.insert((until, count), (timer, told));
                    }
                    4 | 5 if !model.is_empty() => {
                        let at = chance.bits() as usize % model.len();
                        let key = *model.keys().nth(at).expect("it is that long");
                        let (timer, told) = model.remove(&key).expect("it was there");
                        assert!(told.is(&timers.give_up(timer).expect("it sleeps")), "{step}");
                        assert!(timers.give_up(timer).is_none(), "only once");
                        timers.change(timer, Waker::noop().clone());
                    }
                    6 if !model.is_empty() => {
                        let at = chance.bits() as usize % model.len();
                        let entry = model.values_mut().nth(at).expect("it is that long");
                        timers.change(entry.0, Waker::from(told.clone()));
                        entry.1 = told;
                    }
                    _ => {
                        let Some(((until, _), (_, told))) = model.pop_first() else {
                            assert!(timers.next().is_none() && timers.pop_due(u64::MAX).is_none());
                            continue;
                        };
                        let at = timers.next().expect("somebody sleeps");
                        assert!(at == 0 || timers.pop_due(at - 1).is_none(), "{step}");
                        let waker = timers.pop_due(at).expect("it is due");
                        assert!(at == until && told.is(&waker), "seed {seed}, step {step}");
                        now = at;
                        while model.first_key_value().is_some_and(|(key, _)| key.0 <= now) {
                            let (_, (_, told)) = model.pop_first().expect("there is one");
                            assert!(told.is(&timers.pop_due(now).expect("it is due")), "{step}");
                        }
                        assert!(timers.pop_due(now).is_none());
                    }
                }
                assert_eq!(timers.sleepers.len(), model.len());
                assert!(timers.line.len() <= 2 * model.len() + GIVEN_UP_MAX + 1, "{step}");
            }
        }
    }

    #[derive(Default)]
    struct Told(std::sync::atomic::AtomicU32);

    impl Told {
        /// Whether it is this one that the waker wakes.
        fn is(&self, waker: &Waker) -> bool {
            let before = self.0.load(std::sync::atomic::Ordering::Relaxed);
            waker.wake_by_ref();
            self.0.load(std::sync::atomic::Ordering::Relaxed) == before + 1
        }
    }

    impl std::task::Wake for Told {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
