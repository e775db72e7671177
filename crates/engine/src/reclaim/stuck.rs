//! Segments that could not be emptied, and when they are tried again.
//!
//! Where data or the map is damaged, a segment is tried again once its live blocks have changed. A device that
//! failed may recover at any time, without notice: a segment that it failed for is tried again after a second, and
//! ever less often while it goes on failing. Writes are refused for lack of space only after one retry
//! (`drive/room.rs`).

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{Instant, ZoneId};

use crate::drive::{Engine, State};
use crate::space::{Retry, Segment, Stuck};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// A segment could not be emptied.
    pub(in crate::reclaim) fn note_stuck(&self, zone: ZoneId, why: &Error) {
        let now = self.runtime().now();
        let mut state = self.state();
        let segment = state.space.get_mut(zone);
        segment.stuck = segment.live.map(|live| Stuck { live, why: why.clone() });
        if why.kind == ErrorKind::Io {
            let retry = *segment.retry.insert(Retry::after(segment.retry, now));
            drop(state);
            self.expect(retry);
        }
    }

    /// The map could not be marked.
    pub(in crate::reclaim) fn note_mark_failed(&self, why: &Error) {
        if why.kind == ErrorKind::Io {
            let now = self.runtime().now();
            let retry = Retry::after(self.state().reclaim.mark_retry, now);
            self.state().reclaim.mark_retry = Some(retry);
            self.expect(retry);
        }
    }

    fn expect(&self, retry: Retry) {
        let next = self.state().reclaim.retry_at;
        if next.is_none_or(|next| retry.at < next) {
            self.state().reclaim.retry_at = Some(retry.at);
            self.notify();
        }
        if next.is_none() {
            self.spawn(self.clone().retry_task());
        }
    }

    /// The task that calls for retries as long as there is something that the device failed for.
    async fn retry_task(self) {
        loop {
            let Some(at) = self.state().reclaim.retry_at else { return };
            let changes = self.wait_while(|state| {
                !state.stopping && state.failed.is_none() && state.reclaim.retry_at == Some(at)
            });
            let wait = Duration::from_nanos(at.0.saturating_sub(self.runtime().now().0));
            let waits = self.runtime().sleep(wait);
            if let Either::Left(_) = select(pin!(changes), pin!(waits)).await {
                let mut state = self.state();
                if state.stopping || state.failed.is_some() {
                    state.reclaim.retry_at = None;
                }
                continue;
            }
            let now = self.runtime().now();
            self.state().retry_due(now);
            self.call_reclaim();
        }
    }
}

impl State {
    /// Has those segments tried again whose time has come.
    fn retry_due(&mut self, now: Instant) {
        let is_due = |retry: Retry| retry.at <= now;
        self.retry_where(is_due);
        if self.reclaim.mark_retry.is_some_and(is_due) {
            // Whether marks still fail is not known any more.
            self.reclaim.failure.take_if(|error| error.kind == ErrorKind::Io);
        }
        let of_mark = self.reclaim.mark_retry.filter(|retry| !is_due(*retry));
        let retries = self.space.segments.iter().filter_map(Segment::retry).chain(of_mark);
        self.reclaim.retry_at = retries.map(|retry| retry.at).min();
        self.reclaim.retries += 1;
    }

    /// Has those segments tried again that the device failed for.
    pub(in crate::reclaim) fn retry_all(&mut self) {
        self.retry_where(|_| true);
    }

    fn retry_where(&mut self, are_to: impl Fn(Retry) -> bool) {
        for segment in &mut self.space.segments {
            if segment.retry().is_some_and(&are_to) {
                segment.stuck = None;
                self.reclaim.fruitless_at = None; // There is something new to win.
            }
        }
        if self.space.lost_to_outage().is_none() {
            self.reclaim.failure.take_if(|error| error.kind == ErrorKind::Io);
        }
    }
}
