//! Free space: a step that needs a segment waits until one is free, or until it is proven that none
//! can be freed.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::space::{Claim, SegmentState};

/// A client that waits for admission or for space. It is counted until this is dropped.
pub(crate) struct Waiting<D: Device, R: Runtime>(Engine<D, R>);

impl<D: Device, R: Runtime> Waiting<D, R> {
    pub fn new(engine: &Engine<D, R>) -> Self {
        engine.state().clients_waiting += 1;
        Waiting(engine.clone())
    }
}

impl<D: Device, R: Runtime> Drop for Waiting<D, R> {
    fn drop(&mut self) {
        let last = {
            let mut state = self.0.state();
            state.clients_waiting -= 1;
            state.clients_waiting == 0
        };
        if last {
            self.0.notify();
        }
    }
}

/// Checkpoints that may compact the map before a store counts as full.
const COMPACTIONS: u64 = 4;

/// Progress of reclaim and checkpoints, which free space.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Reclaim cycles begun.
    cycles_begun: u64,
    /// The number of the last cycle that freed nothing: how many cycles had begun before it.
    fruitless: Option<u64>,
    /// Blocks that reclaim has freed.
    won: u64,
    checkpoints_begun: u64,
    checkpoints_ended: u64,
    /// Whether the next checkpoint can free space by compacting the map.
    compacting: bool,
}

/// The verdict on a request for free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Undecided.
    Wait,
    /// Undecided until another checkpoint.
    WaitForCheckpoint,
    /// Space was freed since the request, so the proof starts over: full segments have been
    /// trimmed.
    AskAgain,
    Full,
}

impl Progress {
    /// The store is full if a cycle that began after the request freed nothing, and checkpoints
    /// freed nothing. `retiring` says whether retiring segments remain; it is called last, since
    /// the answer takes a while.
    fn since(&self, asked: &Progress, retiring: impl FnOnce() -> bool) -> Verdict {
        let taken = self.checkpoints_ended.saturating_sub(asked.checkpoints_begun);
        if self.won > asked.won {
            Verdict::AskAgain
        } else if self.fruitless.is_none_or(|before| before < asked.cycles_begun)
            || taken == 0
            || retiring()
        {
            Verdict::Wait
        } else if taken < COMPACTIONS && self.compacting {
            Verdict::WaitForCheckpoint
        } else {
            Verdict::Full
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until `claim` may take a segment, until another client has taken one (which may have
    /// room), or until it is proven that reclaim cannot help.
    pub(crate) async fn wait_for_segment(&self, claim: Claim) -> Result<(), Error> {
        let opened = self.state().space.client_segments_opened;
        self.wait_for_reclaim(claim, |state| {
            let another = claim.is_client() && state.space.client_segments_opened != opened;
            another || state.space.can_open(claim) && !state.log.awaits_seal()
        })
        .await
    }

    /// Waits until `enough` is true, or until it is proven that reclaim cannot help. A device
    /// failure is proof only after one retry.
    async fn wait_for_reclaim(
        &self,
        claim: Claim,
        enough: impl Fn(&State) -> bool,
    ) -> Result<(), Error> {
        let _waiting = claim.is_client().then(|| Waiting::new(self));
        let retries = self.state().reclaim.retries;
        let mut outcome = self.prove_full(claim, &enough).await;
        if claim.is_client() && is_no_space(&outcome) {
            let over = |state: &State| state.closing || enough(state);
            if self.wait_for_retry(retries, over).await {
                outcome = self.prove_full(claim, &enough).await;
            }
            self.state().counters.room_refusals += u64::from(is_no_space(&outcome));
        }
        outcome
    }

    /// Waits until `enough` is true, or until a cycle and checkpoints have freed nothing.
    async fn prove_full(&self, claim: Claim, enough: impl Fn(&State) -> bool) -> Result<(), Error> {
        let asked = Cell::new(None);
        let refusal = Cell::new(None);
        self.inner.reset_wanted.notify(1);
        self.wait_while(|state| {
            if let Err(error) = state.check_health_for(claim) {
                refusal.set(Some(error));
                return false;
            }
            if enough(state) {
                return false; // The caller tries again.
            }
            if state.space.allows(claim) {
                return true; // Segments are still being reset or sealed.
            }
            let now = state.progress();
            let verdict = match asked.get() {
                // Reclaim and checkpoints never wait for reclaim: they would wait for themselves.
                None if !claim.is_client() => Verdict::Full,
                None => Verdict::AskAgain,
                Some(asked) => now.since(&asked, || state.space.count(SegmentState::Retiring) > 0),
            };
            match verdict {
                Verdict::Wait => {}
                Verdict::WaitForCheckpoint => state.checkpoint.wanted = true,
                Verdict::AskAgain => {
                    state.counters.room_waits += u64::from(asked.replace(Some(now)).is_none());
                    state.reclaim.urgent = true;
                    state.reclaim.urgent_from = now.cycles_begun;
                    state.checkpoint.wanted = true;
                    self.call_reclaim();
                }
                Verdict::Full => {
                    refusal.set(Some(state.no_space_error()));
                    return false;
                }
            }
            if state.checkpoint.wanted {
                self.inner.checkpoint_wanted.notify(1);
            }
            true
        })
        .await;
        refusal.take().map_or(Ok(()), Err)
    }

    /// Waits for a checkpoint; if that is not enough, waits for reclaim.
    pub(crate) async fn wait_for_checkpoint(&self, claim: Claim) -> Result<(), Error> {
        let _waiting = Waiting::new(self);
        self.checkpoint().await?;
        self.wait_for_reclaim(claim, |state| !state.space.needs_checkpoint(claim)).await
    }
}

fn is_no_space(outcome: &Result<(), Error>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::NoSpace)
}

impl State {
    /// Reclaim and checkpoints go on while the store closes; clients do not.
    fn check_health_for(&self, claim: Claim) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if claim.is_client() => self.check_health(),
            None => Ok(()),
        }
    }

    /// The error when reclaim cannot free space.
    fn no_space_error(&self) -> Error {
        const ADVICE: &str = "trim or delete something, or grow the store";
        let why = match (&self.reclaim.failure, self.space.lost_to_damage()) {
            (Some(error), _) => format!("no space is left, and reclaim fails to free any: {error}"),
            (None, Some(error)) => format!(
                "no space is left, and reclaim cannot free segments with damaged blocks: {error}; {ADVICE}"
            ),
            (None, None) => match self.space.bad().last() {
                Some((_, bad)) => format!(
                    "no space is left, since {} bad, and reclaim finds nothing to free: {}; {ADVICE}",
                    match self.space.bad().count() {
                        1 => "a segment is".to_owned(),
                        count => format!("{count} segments are"),
                    },
                    bad.why
                ),
                None => format!("no space is left, and reclaim finds nothing to free; {ADVICE}"),
            },
        };
        Error::new(ErrorKind::NoSpace, why)
    }

    fn progress(&self) -> Progress {
        Progress {
            cycles_begun: self.reclaim.cycles_begun,
            fruitless: self.reclaim.fruitless_from(),
            won: self.reclaim.counters.blocks_won,
            checkpoints_begun: self.checkpoint.begun,
            checkpoints_ended: self.checkpoint.ended,
            compacting: self.checkpoint.is_compacting(),
        }
    }
}

/// How long a refusal waits for a retry.
const PATIENCE: Duration = Duration::from_secs(3);

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until the retry count differs from `retries`, `over` is true, or `PATIENCE` elapses.
    /// Returns whether there was a retry to wait for.
    pub(crate) async fn wait_for_retry(&self, retries: u64, over: impl Fn(&State) -> bool) -> bool {
        let is_known =
            |state: &State| state.reclaim.retry_at.is_none() && state.reclaim.retries == retries;
        if is_known(&self.state()) {
            return false;
        }
        let waits = self.wait_while(|state| {
            let ends = state.stopping || state.failed.is_some() || over(state);
            !ends && state.reclaim.retries == retries
        });
        select(pin!(waits), pin!(self.runtime().sleep(PATIENCE))).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request made after 34 cycles and 91 checkpoints.
    const ASKED: Progress = Progress {
        cycles_begun: 34,
        fruitless: Some(33),
        won: 5000,
        checkpoints_begun: 91,
        checkpoints_ended: 90,
        compacting: false,
    };
    /// The same store after a fruitless cycle and a checkpoint.
    const FULL: Progress = Progress {
        cycles_begun: 35,
        fruitless: Some(34),
        checkpoints_begun: 92,
        checkpoints_ended: 92,
        ..ASKED
    };

    fn verdict(now: Progress, asked: Progress) -> Verdict {
        now.since(&asked, || false)
    }

    #[test]
    fn full_is_what_neither_a_cycle_nor_checkpoints_begun_since_could_win_from() {
        assert_eq!(verdict(ASKED, ASKED), Verdict::Wait);
        assert_eq!(verdict(FULL, ASKED), Verdict::Full);
        assert_eq!(FULL.since(&ASKED, || true), Verdict::Wait);
        for not_yet in [
            Progress { fruitless: Some(33), ..FULL },
            Progress { fruitless: None, ..FULL },
            Progress { checkpoints_ended: 91, ..FULL },
        ] {
            assert_eq!(verdict(not_yet, ASKED), Verdict::Wait, "{not_yet:?}");
        }
        let compacting = Progress { compacting: true, ..FULL };
        assert_eq!(verdict(compacting, ASKED), Verdict::WaitForCheckpoint);
        let often = Progress { checkpoints_ended: 91 + COMPACTIONS, ..compacting };
        assert_eq!(verdict(often, ASKED), Verdict::Full);
    }

    #[test]
    fn where_blocks_were_won_since_a_fruitless_cycle_it_proves_nothing() {
        // The last request still waits for a checkpoint, while later cycles free segments that
        // other clients take first.
        let asked = Progress { cycles_begun: 34, checkpoints_begun: 92, ..ASKED };
        let full = Progress { checkpoints_ended: 92, ..FULL };
        assert_eq!(verdict(full, asked), Verdict::Wait);
        let trimmed = Progress { cycles_begun: 38, won: 5001, checkpoints_ended: 93, ..full };
        assert_eq!(verdict(trimmed, asked), Verdict::AskAgain);
        assert_eq!(verdict(trimmed, trimmed), Verdict::Wait);
    }
}
