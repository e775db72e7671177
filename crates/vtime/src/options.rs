//! How a simulation behaves, and why one cannot come to its end.

use std::fmt;
use std::time::Duration;

use mjolnir_units::Instant;

/// Which of several ready tasks runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was woken first.
    Woken,
    /// One that the seed draws.
    Drawn,
}

/// What jobs that are given to [`Runtime::parallel`](mjolnir_device::Runtime::parallel) cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jobs {
    /// Each takes the same time, and none waits for another. Job numbers are used in turn, so that
    /// what is kept for each number is put together again.
    Alike {
        /// Virtual time that a job takes. The processor is not charged.
        cost: Duration,
        /// Whether this thread does a part of the work
        /// ([`Runtime::own_job`](mjolnir_device::Runtime::own_job)).
        own_job: bool,
    },
    /// A job takes virtual time and processor time by its steps, and waits for a free core.
    BySteps {
        /// Nanoseconds of a step.
        step_ns: f64,
        /// Cores of a world; at least one counts.
        cores: usize,
    },
}

/// How a simulation behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which of several ready tasks runs next.
    pub order: Order,
    /// Virtual time that each poll of a task costs, on the clock and on the processor.
    pub poll_cost: Duration,
    /// What jobs cost in worlds that say nothing else.
    pub jobs: Jobs,
    /// Whether jobs take time from the beginning. Models of devices ask, too
    /// ([`SimRuntime::is_timed`](crate::SimRuntime::is_timed)).
    pub timed: bool,
    /// Whether every poll and event goes into a trace.
    pub traced: bool,
    /// Virtual time after which a simulation that is not done is called stuck.
    pub time_limit: Duration,
    /// Polls after which the same is said of it, for tasks that spin.
    pub poll_limit: u64,
    /// Polls without progress ([`SimRuntime::note_progress`](crate::SimRuntime::note_progress))
    /// after which the same is said of it. It is looked at now and then.
    pub idle_poll_limit: u64,
    /// Print every event.
    pub loud: bool,
}

impl Default for Options {
    /// For short runs whose every step is traced: polls and jobs take time.
    fn default() -> Self {
        Options {
            order: Order::Woken,
            poll_cost: Duration::from_nanos(300),
            jobs: Jobs::Alike { cost: Duration::from_micros(20), own_job: false },
            timed: true,
            traced: true,
            time_limit: Duration::from_secs(600),
            poll_limit: 5_000_000,
            idle_poll_limit: u64::MAX,
            loud: false,
        }
    }
}

impl Options {
    /// For long runs of modelled hardware: nothing takes time before
    /// [`SimRuntime::set_timed`](crate::SimRuntime::set_timed), polls never do, and nothing is traced, so
    /// that an event costs little.
    pub fn untraced(jobs: Jobs) -> Self {
        Options {
            order: Order::Woken,
            poll_cost: Duration::ZERO,
            jobs,
            timed: false,
            traced: false,
            time_limit: Duration::MAX,
            poll_limit: u64::MAX,
            idle_poll_limit: u64::MAX,
            loud: false,
        }
    }
}

/// Why a simulation cannot come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// No task is ready and no timer is set, but the main future waits.
    Deadlock(Instant),
    /// The time limit or the poll limit has passed.
    TooLong(Instant),
    /// So many polls brought no progress.
    Idle(u64),
    /// Whoever watched the run said no.
    Interrupted,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stuck::Deadlock(at) => {
                write!(f, "deadlock at {} ns: nothing is ready, no timer is set", at.0)
            }
            Stuck::TooLong(at) => write!(f, "not done at {} ns of virtual time", at.0),
            Stuck::Idle(polls) => write!(f, "no progress in {polls} polls"),
            Stuck::Interrupted => write!(f, "the run was interrupted"),
        }
    }
}
