//! Turns a trace's times into instants that never go back.

use mjolnir_units::Instant;

/// What a time turned out to be.
pub(crate) enum Tick {
    /// In order.
    At(Instant),
    /// Behind the time before it by so many nanoseconds; the time before it.
    Back { by_ns: u64, last: Instant },
    /// Too far from the first time to be counted in nanoseconds.
    OutOfRange,
}

/// The clock of one trace.
pub(crate) struct Clock {
    unit_ns: u64,
    /// Whether its times may be a counter of 32 bits that wraps around.
    wraps_at_32_bits: bool,
    first: Option<u64>,
    last_given: u64,
    last: u64,
    /// What was added for wraps so far.
    carried: u64,
    /// How often it wrapped around.
    pub wraps: u64,
}

impl Clock {
    /// A clock whose first time is the trace's start; with `origin`, that is the start.
    pub(crate) fn new(unit_ns: u64, wraps_at_32_bits: bool, origin: Option<u64>) -> Self {
        Clock {
            unit_ns,
            wraps_at_32_bits,
            first: origin,
            last_given: origin.unwrap_or(0),
            last: origin.unwrap_or(0),
            carried: 0,
            wraps: 0,
        }
    }

    /// The first time, in the trace's own unit.
    pub(crate) fn first(&self) -> Option<u64> {
        self.first
    }

    /// The last instant.
    pub(crate) fn now(&self) -> Instant {
        Instant((self.last - self.first.unwrap_or(self.last)) * self.unit_ns)
    }

    /// Takes the next time.
    #[inline]
    pub(crate) fn tick(&mut self, given: u64) -> Tick {
        let Some(first) = self.first else {
            (self.first, self.last_given, self.last) = (Some(given), given, given);
            return Tick::At(Instant(0));
        };
        let mut carried = self.carried;
        if self.wraps_at_32_bits && wrapped(self.last_given, given) {
            carried += 1 << 32;
        } else if self.wraps > 0 && wrapped(given, self.last_given) {
            // It comes late, from before the wrap: to take it for half a round more would count the
            // next one's time as a wrap again.
            carried -= 1 << 32;
        }
        let Some(time) = given.checked_add(carried) else { return Tick::OutOfRange };
        if time < self.last {
            let by_ns = (self.last - time).saturating_mul(self.unit_ns);
            return Tick::Back { by_ns, last: self.now() };
        }
        let Some(ns) = (time - first).checked_mul(self.unit_ns) else { return Tick::OutOfRange };
        if carried != self.carried {
            (self.carried, self.wraps) = (carried, self.wraps + 1);
        }
        (self.last_given, self.last) = (given, time);
        Tick::At(Instant(ns))
    }
}

/// Whether a counter went from the last quarter of 32 bits to the first.
fn wrapped(before: u64, after: u64) -> bool {
    before <= u64::from(u32::MAX) && before >= 3 << 30 && after < 1 << 30
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: Tick) -> u64 {
        match tick {
            Tick::At(instant) => instant.0,
            Tick::Back { by_ns, .. } => panic!("went back by {by_ns} ns"),
            Tick::OutOfRange => panic!("out of range"),
        }
    }

    #[test]
    fn the_first_time_is_the_start() {
        let mut clock = Clock::new(100, false, None);
        assert_eq!(at(clock.tick(128_166_372_003_061_629)), 0);
        assert_eq!(at(clock.tick(128_166_372_003_061_639)), 1_000);
    }

    #[test]
    fn a_counter_of_32_bits_wraps_around() {
        let mut clock = Clock::new(1_000, true, None);
        assert_eq!(at(clock.tick((1 << 32) - 10)), 0);
        assert_eq!(at(clock.tick(5)), 15_000);
        assert_eq!(at(clock.tick(6)), 16_000);
        assert_eq!(clock.wraps, 1);
    }

    #[test]
    fn what_comes_late_from_before_a_wrap_is_no_second_one() {
        let mut clock = Clock::new(1_000, true, None);
        assert_eq!(at(clock.tick((1 << 32) - 6)), 0);
        assert_eq!(at(clock.tick(3)), 9_000);
        let Tick::Back { by_ns, last } = clock.tick((1 << 32) - 1) else { panic!("not seen") };
        assert_eq!((by_ns, last.0), (4_000, 9_000));
        assert_eq!(at(clock.tick(8)), 14_000);
        assert_eq!(clock.wraps, 1);
        // Round once more, with no request for so long that a time may be of either side.
        assert_eq!(at(clock.tick(2 << 30)), ((2 << 30) + 6) * 1_000);
        assert_eq!(at(clock.tick((1 << 32) - 6)), 1_000 << 32);
        assert_eq!(at(clock.tick(3)), (1_000 << 32) + 9_000);
        assert_eq!(clock.wraps, 2);
    }

    #[test]
    fn going_back_is_told_and_changes_nothing() {
        let mut clock = Clock::new(1_000, true, None);
        at(clock.tick(100));
        at(clock.tick(150));
        let Tick::Back { by_ns, last } = clock.tick(90) else { panic!("not seen") };
        assert_eq!((by_ns, last.0), (60_000, 50_000));
        assert_eq!(at(clock.tick(151)), 51_000);
    }

    #[test]
    fn a_time_too_far_away_is_refused() {
        let mut clock = Clock::new(1_000_000_000, false, None);
        at(clock.tick(0));
        assert!(matches!(clock.tick(u64::MAX), Tick::OutOfRange));
        assert_eq!(at(clock.tick(1)), 1_000_000_000);
    }
}
