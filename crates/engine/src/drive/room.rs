//! Room: who needs a segment waits until there is one, or until it is proven that none can be had.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::space::{Claim, SegmentState};

/// A client that waits to be admitted, or for space, counted until it ends or its future is dropped.
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

/// Checkpoints that are given the chance to compact the map before a store counts as full.
const COMPACTIONS: u64 = 4;

/// How far those have come who can win room.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Reclaim's cycles.
    cycles_begun: u64,
    /// For the last of them that won nothing: how many had begun before it.
    fruitless: Option<u64>,
    /// Blocks that reclaim has won.
    won: u64,
    checkpoints_begun: u64,
    checkpoints_ended: u64,
    /// Whether the next checkpoint can win room by compacting the map.
    compacting: bool,
}

/// What somebody who asked for room is to think of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is not known yet.
    Wait,
    /// Nor will it be before another checkpoint.
    WaitForCheckpoint,
    /// Something was won since, by which it is known no more: what was full has been trimmed.
    AskAgain,
    Full,
}

impl Progress {
    /// A cycle that began after the question has to win nothing, and so have checkpoints. `retiring`
    /// tells whether segments were given up that are not free yet, which takes a while to find out.
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
    /// Waits until `claim` may take a segment, or another client has taken one, in which there may be room;
    /// or until there is proof that reclaim cannot help.
    pub(crate) async fn wait_for_segment(&self, claim: Claim) -> Result<(), Error> {
        let opened = self.state().space.client_segments_opened;
        self.wait_for_reclaim(claim, |state| {
            let another = claim.is_client() && state.space.client_segments_opened != opened;
            another || state.space.can_open(claim) && !state.log.awaits_seal()
        })
        .await
    }

    /// Waits until there is `enough`, or there is proof that reclaim cannot help. What the device failed for is no
    /// such thing before it has been tried again.
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

    /// Waits until there is `enough`, or until a cycle and checkpoints have won nothing.
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
                return true; // Segments are being reset, or sealed.
            }
            let now = state.progress();
            let verdict = match asked.get() {
                // Reclaim and checkpoints do not wait for reclaim: they would wait for themselves.
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

    /// Waits for a checkpoint, and if that does not help, for reclaim.
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

    /// What is said where reclaim cannot help.
    fn no_space_error(&self) -> Error {
        const ADVICE: &str = "trim or delete something, or grow the store";
        let why = match (&self.reclaim.failure, self.space.lost_to_damage()) {
            (Some(error), _) => format!("no space is left, and reclaim fails to win any: {error}"),
            (None, Some(error)) => format!(
                "no space is left, and reclaim cannot win what lies beside damage: {error}; {ADVICE}"
            ),
            (None, None) => {
                format!("no space is left, and reclaim finds nothing to win; {ADVICE}")
            }
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

/// How long it is waited for that something is tried again, before anybody is refused.
const PATIENCE: Duration = Duration::from_secs(3);

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until something that the device failed for has been tried again since there had been `retries`, or it is
    /// `over` what that is waited for; for a while at most. Returns whether there is anything to wait for.
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

    /// A store in which somebody asked after 34 cycles and 91 checkpoints.
    const ASKED: Progress = Progress {
        cycles_begun: 34,
        fruitless: Some(33),
        won: 5000,
        checkpoints_begun: 91,
        checkpoints_ended: 90,
        compacting: false,
    };
    /// And what a fruitless cycle and a checkpoint after that make of it.
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
        // Whoever asked last still waits for a checkpoint, while later cycles win segments that others
        // take before it comes.
        let asked = Progress { cycles_begun: 34, checkpoints_begun: 92, ..ASKED };
        let full = Progress { checkpoints_ended: 92, ..FULL };
        assert_eq!(verdict(full, asked), Verdict::Wait);
        let trimmed = Progress { cycles_begun: 38, won: 5001, checkpoints_ended: 93, ..full };
        assert_eq!(verdict(trimmed, asked), Verdict::AskAgain);
        assert_eq!(verdict(trimmed, trimmed), Verdict::Wait);
    }
}
