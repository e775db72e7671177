//! The leaves of a walk, cut into portions for the processors.

use crate::reclaim::mark::{JOBS_A_PROCESSOR, JOBS_BESIDE, LEAVES_A_JOB, LEAVES_IN_JOBS};

/// How a mark is divided.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Portions {
    /// Leaves of a job.
    pub leaves: usize,
    /// Jobs that run or wait.
    pub jobs: usize,
}

impl Portions {
    /// For `processors` processors, of which this thread's is one and scans, too. Else as [`of`](Self::of).
    pub(super) fn beside(processors: usize, held: usize) -> Self {
        let jobs = (processors - 1) * JOBS_BESIDE;
        // Less than two more are being gathered.
        let leaves = Self::of(processors, usize::MAX).leaves.min(held / (jobs + 2)).max(1);
        Portions { leaves, jobs }
    }

    /// For `processors` processors, where jobs may hold `held` leaves.
    pub(super) fn of(processors: usize, held: usize) -> Self {
        let leaves = LEAVES_IN_JOBS / (processors * JOBS_A_PROCESSOR);
        let leaves = leaves.clamp(*LEAVES_A_JOB.start(), *LEAVES_A_JOB.end());
        let few = processors + processors.div_ceil(4);
        let jobs = match processors {
            1 => few, // This thread has that one when it hands jobs out.
            _ => (LEAVES_IN_JOBS / leaves).max(processors + processors.div_ceil(2)),
        };
        // Less than one more is being gathered.
        let leaves = leaves.min(held / (few + 1)).max(1);
        Portions { leaves, jobs: jobs.min((held / leaves).saturating_sub(1)).max(few) }
    }
}

/// Takes a portion of `most` leaves out, or the rest if `all` leaves have been gathered.
pub(super) fn take_portion<T>(gathered: &mut Vec<T>, most: usize, all: bool) -> Option<Vec<T>> {
    match gathered.len() {
        more if more > most => Some(gathered.drain(..most).collect()),
        some if some == most || (all && some > 0) => Some(std::mem::take(gathered)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_within_what_jobs_may_hold_and_one_more_than_run_at_once() {
        for processors in 1..=200 {
            for held in [1, 7, 100, 700, 1_500, 5_000, 1 << 20] {
                let Portions { leaves, jobs } = Portions::of(processors, held);
                assert!(leaves >= 1 && jobs > processors, "{processors} {held}");
                // One for each job is the least, whatever may be held.
                assert!(leaves == 1 || leaves * (jobs + 1) <= held, "{processors} {held}");
                let most = LEAVES_IN_JOBS.max(LEAVES_A_JOB.start() * 3 * processors.div_ceil(2));
                assert!(leaves * jobs <= most, "{processors} {held}");
            }
        }
        for processors in 2..=200 {
            for held in [1, 7, 100, 700, 1_500, 5_000, 1 << 20] {
                let Portions { leaves, jobs } = Portions::beside(processors, held);
                assert!(leaves >= 1 && jobs >= processors, "{processors} {held}");
                assert!(leaves == 1 || leaves * (jobs + 2) <= held, "{processors} {held}");
            }
        }
        let beside = |processors| Portions::beside(processors, 1 << 20);
        assert_eq!(beside(2), Portions { leaves: 512, jobs: 2 });
        assert_eq!(beside(16), Portions { leaves: 256, jobs: 30 });
        let of = |processors| Portions::of(processors, 1 << 20);
        assert_eq!(of(1), Portions { leaves: 1024, jobs: 2 });
        assert_eq!(of(2), Portions { leaves: 512, jobs: 8 });
        assert_eq!(of(16), Portions { leaves: 256, jobs: 24 });
    }

    #[test]
    fn what_is_gathered_is_handed_out_in_portions_all_of_it_once() {
        for (steps, most) in [(vec![3, 0, 2, 5, 1], 4), (vec![256; 9], 512), (vec![7, 0], 7)] {
            let all: usize = steps.iter().sum();
            let (mut gathered, mut handed, mut next) = (Vec::new(), Vec::new(), 0);
            for (number, count) in steps.iter().enumerate() {
                gathered.extend(next..next + count);
                next += count;
                let last = number + 1 == steps.len();
                while let Some(portion) = take_portion(&mut gathered, most, last) {
                    assert!(portion.len() == most || (last && (1..most).contains(&portion.len())));
                    handed.extend(portion);
                }
                assert!(gathered.len() < most);
            }
            assert_eq!(handed, (0..all).collect::<Vec<_>>());
        }
    }
}
