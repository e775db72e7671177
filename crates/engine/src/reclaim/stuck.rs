//! Segments that could not be emptied, and when they are tried again.
//!
//! Where data or the map is damaged, a segment is tried again once something else is live in it. A device that
//! failed may be back any time, of which nobody tells: so all that it failed for is tried again after a second,
//! and ever less often as long as that fails, too. Before the first time nothing is proven, and nobody is refused.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::BLOCK_SIZE;

use crate::engine::{Engine, State};
use crate::space::Segment;

/// Why a segment could not be emptied.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    /// Its live blocks at the time.
    live: u32,
    why: Error,
}

impl Stuck {
    /// Whether the device failed, which may pass; else there is damage.
    fn passes(&self) -> bool {
        self.why.kind == ErrorKind::Io
    }
}

/// The device failed, and is not known to have recovered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    /// How long what it failed for is left alone.
    wait: Duration,
    /// Whether it failed since that was last tried again.
    fails: bool,
    /// Whether something could be moved since then: it is some places that fail.
    works: bool,
}

impl Outage {
    const WAIT_MIN: Duration = Duration::from_secs(1);
    /// So much longer than it lasts an outage may be felt.
    const WAIT_MAX: Duration = Duration::from_secs(64);
    /// So often is copied in vain what lies before a place that cannot be read.
    const WAIT_MAX_OF_PLACES: Duration = Duration::from_secs(1024);

    fn new() -> Self {
        Outage { wait: Self::WAIT_MIN, fails: true, works: false }
    }

    /// Whether nothing has been tried again yet.
    fn is_new(&self) -> bool {
        self.wait == Self::WAIT_MIN
    }

    /// All that failed is tried again. Whether there is anything.
    fn try_again(&mut self) -> bool {
        let most = if self.works { Self::WAIT_MAX_OF_PLACES } else { Self::WAIT_MAX };
        let wait = (2 * self.wait).min(most);
        let failed = self.fails;
        *self = Outage { wait, fails: false, works: false };
        failed
    }
}

impl Segment {
    /// Why it is not to be tried, if it is not.
    pub fn stuck(&self) -> Option<&Stuck> {
        self.stuck_with(self.live?)
    }

    /// The same if so many blocks are live in it.
    pub fn stuck_with(&self, live: u32) -> Option<&Stuck> {
        self.stuck.as_ref().filter(|stuck| stuck.live == live)
    }

    /// It could not be emptied.
    pub(super) fn note_stuck(&mut self, why: &Error) {
        self.stuck = self.live.map(|live| Stuck { live, why: why.clone() });
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Something of reclaim's failed for the device.
    pub(super) fn note_device_failed(&self) {
        let mut state = self.state();
        match &mut state.reclaim.outage {
            Some(outage) => outage.fails = true,
            none => {
                *none = Some(Outage::new());
                drop(state);
                self.spawn(self.clone().outage_task());
            }
        }
    }

    /// The task that has what the device failed for tried again, as long as it fails.
    async fn outage_task(self) {
        loop {
            let Some(outage) = self.state().reclaim.outage else { return };
            let ends = self.wait_while(|state| !state.stopping && state.failed.is_none());
            let waits = self.runtime().sleep(outage.wait);
            if let Either::Left(_) = select(pin!(ends), pin!(waits)).await {
                return;
            }
            self.state().end_wait();
            self.call_reclaim();
        }
    }
}

impl State {
    /// What the device failed for has been left alone long enough.
    fn end_wait(&mut self) {
        if self.reclaim.outage.as_mut().is_some_and(Outage::try_again) {
            self.retry_stuck();
            // Who waits for room is owed another cycle.
            self.reclaim.retries += 1;
            return;
        }
        // Nothing failed since, whether or not somebody tried.
        self.reclaim.outage = None;
        self.reclaim.failure.take_if(|error| error.kind == ErrorKind::Io);
    }

    /// Has those segments tried again that the device failed for.
    pub(super) fn retry_stuck(&mut self) {
        for segment in &mut self.space.segments {
            if segment.stuck.take_if(|stuck| stuck.passes()).is_some() {
                self.reclaim.fruitless_at = None; // There is something new to win.
            }
        }
    }

    /// Whether the device failed, and has not been given the time to recover.
    pub fn is_outage_new(&self) -> bool {
        self.reclaim.outage.is_some_and(|outage| outage.is_new())
    }

    /// Something was moved: it can be read, and it can be written.
    pub(super) fn note_moved(&mut self) {
        if let Some(outage) = &mut self.reclaim.outage {
            outage.works = true;
        }
    }

    /// What failure of the device keeps reclaim from winning a segment's worth, if any does.
    pub(super) fn lost_to_outage(&self) -> Option<&Error> {
        self.stuck_by(Stuck::passes)
    }

    /// The same of damage.
    pub fn lost_to_damage(&self) -> Option<&Error> {
        self.stuck_by(|stuck| !stuck.passes())
    }

    fn stuck_by(&self, are: impl Fn(&Stuck) -> bool) -> Option<&Error> {
        let (mut stale, mut why) = (0, None);
        for (_, segment) in self.space.sealed_data() {
            if let Some(stuck) = segment.stuck().filter(|stuck| are(stuck)) {
                stale += u64::from(segment.payload.saturating_sub(stuck.live)) * BLOCK_SIZE;
                why = Some(&stuck.why);
            }
        }
        why.filter(|_| stale >= self.space.payload_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds that an outage waits, in which something can be moved or not.
    fn waits(works: bool) -> Vec<u64> {
        let mut outage = Outage::new();
        let waits = (0..14).map(|nth| {
            assert_eq!(outage.is_new(), nth == 0);
            let wait = outage.wait.as_secs();
            outage.works |= works;
            assert!(outage.try_again());
            outage.fails = true;
            wait
        });
        waits.collect()
    }

    #[test]
    fn what_goes_on_failing_is_tried_ever_less_often() {
        let expected = |most: u64| (0..14).map(|nth| u64::min(1 << nth, most)).collect::<Vec<_>>();
        assert_eq!(waits(false), expected(64));
        assert_eq!(waits(true), expected(1024));
    }

    #[test]
    fn where_nothing_failed_since_it_is_over() {
        let mut outage = Outage::new();
        assert!(outage.try_again());
        assert!(!outage.try_again());
    }
}
