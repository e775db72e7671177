//! When a die works on what.

/// The time of one die, reserved operation by operation in order of arrival.
///
/// An erase that reads may suspend is not reserved but owed: it runs while the die would be idle,
/// reads go before what is left of it, and everything else waits for its end. So a read's end is
/// known when it arrives, although the erase's is not.
#[derive(Clone, Debug, Default)]
pub(crate) struct DieClock {
    /// The die is free from here on, but for an erase that is owed.
    free_ns: u64,
    /// What is left of an erase that began at the last `free_ns` or earlier; 0 for none.
    owed_ns: u64,
    /// Reads that went before it, or before what was left of it.
    suspends: u32,
}

/// A time in which a die or a bus was busy, for those who check that it is never so twice over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What was busy.
    pub part: Part,
    /// From here, in nanoseconds of virtual time.
    pub start_ns: u64,
    /// Until here, exclusively.
    pub end_ns: u64,
}

/// A part of a NAND array that serves one operation at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A die, by number.
    Die(u32),
    /// A channel's bus, by number.
    Bus(u32),
}

impl DieClock {
    /// When an operation that needs the whole die can begin: the end of everything before it, and
    /// of an erase that is owed. Worked-off pieces of that erase go to `worked`.
    pub(crate) fn start(&mut self, earliest: u64, worked: &mut impl FnMut(u64, u64)) -> u64 {
        if self.owed_ns > 0 {
            worked(self.free_ns, self.free_ns + self.owed_ns);
            self.free_ns += self.owed_ns;
            self.owed_ns = 0;
        }
        earliest.max(self.free_ns)
    }

    /// When a read can begin that may suspend an erase, at a cost of `suspend_ns` to it and
    /// `resume_ns` to the erase.
    pub(crate) fn start_read(
        &mut self,
        earliest: u64,
        (suspend_ns, resume_ns, suspends_max): (u64, u64, u32),
        worked: &mut impl FnMut(u64, u64),
    ) -> u64 {
        if self.owed_ns == 0 || self.suspends >= suspends_max {
            return self.start(earliest, worked);
        }
        let idle = earliest.saturating_sub(self.free_ns);
        if idle >= self.owed_ns {
            return self.start(earliest, worked);
        }
        self.suspends += 1;
        if idle > 0 {
            worked(self.free_ns, self.free_ns + idle);
            self.free_ns += idle;
            self.owed_ns -= idle;
            self.owed_ns += resume_ns;
            return self.free_ns + suspend_ns;
        }
        // The erase has not run since the operation before this one.
        self.free_ns
    }

    /// The die is busy until here.
    pub(crate) fn busy_until(&mut self, end: u64) {
        debug_assert!(end >= self.free_ns, "a die's time runs backwards");
        self.free_ns = end;
    }

    /// Owes an erase of this length, once everything before it is done.
    pub(crate) fn owe_erase(&mut self, start: u64, length: u64) {
        debug_assert_eq!(self.owed_ns, 0, "two erases owed at once");
        self.free_ns = start;
        self.owed_ns = length;
        self.suspends = 0;
    }

    /// When all that the die was given is done, if no further read comes between.
    pub(crate) fn idle_from(&self) -> u64 {
        self.free_ns + self.owed_ns
    }
}
