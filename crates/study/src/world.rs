//! The virtual time of a study: what takes how long in it, and why a run cannot go on, in words.
//!
//! Tasks run in the order in which they are woken, and nothing is traced, so that an event costs
//! little. The clock moves only when no task can run, to the next timer. Processor work takes virtual
//! time where its price was stated, and none otherwise.

use mjolnir_vtime::{Jobs, Options, Sim, Stuck};

/// Polls without any sign of life after which a run is called stuck: far more than any request
/// takes, and a minute at most.
const IDLE_POLLS_MAX: u64 = 400_000_000;

/// A simulation at instant 0, in which nothing takes time yet. `seed` decides identities alone: worlds draw
/// by the complement of a simulation's seed, and so by `seed` itself.
pub(super) fn simulation(seed: u64, jobs: Jobs) -> Sim {
    Sim::new(!seed, Options { idle_poll_limit: IDLE_POLLS_MAX, ..Options::untraced(jobs) })
}

/// Why a run cannot go on, in a sentence.
pub(super) fn explain(stuck: Stuck) -> String {
    match stuck {
        Stuck::Interrupted => "the run was interrupted".to_owned(),
        Stuck::Idle(polls) => format!(
            "no request completed in {polls} steps of the simulation: the drive works, but gets \
             nowhere (too little spare space?)"
        ),
        Stuck::Deadlock(at) | Stuck::TooLong(at) => format!(
            "the simulation stands still at {} ns: nothing is under way and nothing is due",
            at.0
        ),
    }
}
