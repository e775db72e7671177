//! A resource that serves one user at a time, in virtual time.

use std::collections::VecDeque;

/// Reservations of a bus or link. A reservation takes the first gap that is long enough, so a
/// transfer that will happen later does not hold up one that is ready now.
///
/// Reservations that ended before the present are forgotten: `now` never runs backwards.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Disjoint, in order, and all of them ending after the present as last told.
    taken: VecDeque<(u64, u64)>,
}

impl Timeline {
    /// Takes the resource for `length` nanoseconds, not before `earliest`, and answers when that
    /// begins. Nothing will be asked of it before `now` any more.
    pub fn take(&mut self, now: u64, earliest: u64, length: u64) -> u64 {
        while self.taken.front().is_some_and(|&(_, end)| end <= now) {
            self.taken.pop_front();
        }
        let earliest = earliest.max(now);
        if length == 0 {
            return earliest;
        }
        match self.taken.back() {
            Some(&(_, end)) if end > earliest => {}
            _ => {
                self.push_back(earliest, earliest + length);
                return earliest;
            }
        }
        // The first reservation that ends after `earliest`: gaps before it are of no use.
        let mut at = self.taken.partition_point(|&(_, end)| end <= earliest);
        let mut start = earliest;
        while let Some(&(begin, end)) = self.taken.get(at) {
            if start + length <= begin {
                break;
            }
            start = start.max(end);
            at += 1;
        }
        if at == self.taken.len() {
            self.push_back(start, start + length);
        } else {
            self.insert(at, start, start + length);
        }
        start
    }

    fn push_back(&mut self, start: u64, end: u64) {
        match self.taken.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.taken.push_back((start, end)),
        }
    }

    /// Touching reservations are kept as one, which keeps the list as short as its gaps are few.
    fn insert(&mut self, at: usize, start: u64, end: u64) {
        let joins_next = self.taken[at].0 == end;
        let joins_last = at > 0 && self.taken[at - 1].1 == start;
        match (joins_last, joins_next) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.remove(at);
            }
            (true, false) => self.taken[at - 1].1 = end,
            (false, true) => self.taken[at].0 = start,
            (false, false) => self.taken.insert(at, (start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn a_gap_before_a_later_reservation_is_used_if_it_is_long_enough() {
        let mut bus = Timeline::default();
        assert_eq!(bus.take(0, 100, 50), 100);
        assert_eq!(bus.take(0, 20, 80), 20, "fits exactly before 100");
        assert_eq!(bus.take(0, 0, 21), 150, "the gap of 20 is too short");
        assert_eq!(bus.take(0, 0, 20), 0);
        assert_eq!(bus.take(0, 0, 1), 171);
    }

    /// Against a table of nanoseconds: exclusive, never early, and never later than the first gap.
    #[test]
    fn it_is_the_first_gap_of_a_table_of_nanoseconds() {
        for seed in 0..50 {
            let mut chance = Chance(seed);
            let (mut bus, mut table, mut now) = (Timeline::default(), vec![false; 40_000], 0);
            for _ in 0..400 {
                now += chance.below(30);
                let (earliest, length) = (now + chance.below(200), 1 + chance.below(40));
                let expected = (earliest..)
                    .find(|&t| (t..t + length).all(|at| !table[at as usize]))
                    .expect("the table is long enough");
                let got = bus.take(now, earliest, length);
                assert_eq!(got, expected, "seed {seed}");
                (got..got + length).for_each(|at| table[at as usize] = true);
            }
        }
    }
}
