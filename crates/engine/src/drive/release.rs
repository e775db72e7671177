//! Returns free segments to the host: as holes in a sparse file, or discards on a block device.
//!
//! Only segments that both copies of the root list as free are returned. So whichever copy is read
//! after a crash, it names no returned segment; segments that a checkpoint frees wait for the next
//! checkpoint. The segments to be opened next are kept. In the background, release is slow and
//! leaves the device to clients; a collection returns all free segments at once.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_SIZE, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::state::State;

/// How long free segments wait before a check: a segment that is soon used again is not worth
/// returning.
const LOOK: Duration = Duration::from_secs(10);

/// Approximate time in which all free segments are returned.
const SPREAD: Duration = Duration::from_secs(20);

/// The longest pause between two segments, on a device that is not slow.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// While clients are active, the task rests 9 times as long as the last release took.
const REST_FOR_WORK: u32 = 9;

/// The most checkpoints that a collection takes to release segments that the last one freed: each
/// may compact the map and free one segment more.
const CHECKPOINTS: usize = 2;

/// A segment that is being returned; it is not reset meanwhile.
struct Releasing<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    zone: ZoneId,
}

impl<D: Device, R: Runtime> Drop for Releasing<D, R> {
    fn drop(&mut self) {
        self.engine.state().space.releasing.remove(&self.zone);
        self.engine.inner.reset_wanted.notify(1);
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that returns free segments to the host.
    pub(crate) async fn release_task(self) {
        loop {
            let listener = self.inner.release_wanted.listen();
            if self.state().releases_nothing() {
                return;
            }
            let idle = {
                let state = self.state();
                state.closing || !state.space.has_unreleased()
            };
            if idle || !self.device().abilities().gives_back() {
                listener.await;
                continue;
            }
            drop(listener);
            self.wait_at_most(LOOK).await;
            // Without writes, segments that wait for a root would wait forever.
            let waits = {
                let state = self.state();
                state.space.awaits_root() && !state.closing && !state.releases_nothing()
            };
            if waits && self.checkpoint().await.is_err() {
                return;
            }
            let segments = self.state().space.unreleased();
            let pause = (SPREAD / segments.max(1) as u32).min(PAUSE_MAX);
            let mut requests = self.state().counters.client_requests();
            loop {
                let begun = self.runtime().now();
                if self.state().closing || !self.release_next().await {
                    break;
                }
                let took = self.runtime().now().since(begun);
                let now = self.state().counters.client_requests();
                let busy = std::mem::replace(&mut requests, now) != now;
                self.wait_at_most(pause.max(took * if busy { REST_FOR_WORK } else { 1 })).await;
            }
        }
    }

    /// Returns all free segments at once. Gives the number of segments, and the bytes that the host
    /// got back.
    pub(crate) async fn release_all(&self) -> Result<(u64, u64), Error> {
        if !self.device().abilities().gives_back() {
            return Ok((0, 0));
        }
        for _ in 0..CHECKPOINTS {
            if self.state().space.awaits_root() {
                self.checkpoint().await?;
            }
        }
        let released = || {
            let counters = &self.state().counters;
            (counters.segments_released, counters.released_bytes)
        };
        let before = released();
        while self.release_next().await {}
        let after = released();
        Ok((after.0 - before.0, after.1 - before.1))
    }

    /// Returns the next segment to the host, if one is due. Gives whether there was one.
    pub(crate) async fn release_next(&self) -> bool {
        if !self.device().abilities().gives_back() {
            return false;
        }
        let zone = {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.releases_nothing() {
                return false;
            }
            let log = &state.log;
            state.space.next_to_release(|zone| log.zone_busy(zone))
        };
        let Some(zone) = zone else { return false };
        let releasing = Releasing { engine: self.clone(), zone };
        let held = self.device().abilities().held_bytes();
        let released = self.device().release(zone).await;
        {
            // If the host does not report held bytes, the whole segment counts.
            let held_now = self.device().abilities().held_bytes();
            let came_back = held.zip(held_now).map(|(b, a)| b.saturating_sub(a));
            // Nothing depends on a release: a failed one is not retried until the segment has been
            // in use again.
            let mut state = self.state();
            state.space.get_mut(zone).released = true;
            if released.is_ok() && self.device().abilities().gives_back() {
                let segment_bytes = state.info.zone_blocks * BLOCK_SIZE;
                state.counters.segments_released += 1;
                state.counters.released_bytes +=
                    came_back.unwrap_or(segment_bytes).min(segment_bytes);
            }
        }
        drop(releasing);
        true
    }

    /// Sleeps, but ends early if the engine stops.
    async fn wait_at_most(&self, time: Duration) {
        let stops = self.wait_while(|state| !state.releases_nothing() && !state.closing);
        select(pin!(stops), pin!(self.runtime().sleep(time))).await;
    }
}

impl State {
    /// Whether releasing has stopped.
    fn releases_nothing(&self) -> bool {
        self.stopping || self.failed.is_some()
    }
}
