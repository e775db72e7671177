//! Hands the log's outbox to the device after a step, and wakes the tasks that have work then.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use mjolnir_device::{Device, DeviceError, ErrorKind, Runtime};
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::outage::Lack;
use crate::fault;
use crate::log::Submission;
use crate::memory::dirty_nodes_max;

/// Dropped map nodes that each step frees: more than a step can drop, so none pile up.
const FREES_A_STEP: usize = 32;

/// Rests between attempts to seal a zone.
const SEAL_RESTS: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Hands the log's pending writes to the device, in order. Called after every step that may
    /// have added some, before any `.await`: the device fixes addresses in the order of calls.
    pub(crate) fn submit(&self) {
        let (submissions, begun) = {
            let mut state = self.state();
            state.map.free_some(FREES_A_STEP);
            state.follow_reserve();
            for (zone, checksums) in std::mem::take(&mut state.log.sealed) {
                state.checksums.insert(zone, checksums);
                state.keep_within(&self.inner.options);
            }
            state.follow_budget(&self.inner.options);
            (std::mem::take(&mut state.log.outbox), std::mem::take(&mut state.log.begun))
        };
        if begun {
            self.inner.group_begun.notify(1);
        }
        let submissions = self.state().hold(submissions);
        self.hand_over(submissions);
        let mut state = self.state();
        if state.space.next_reset_wanted() {
            self.inner.reset_wanted.notify(1);
        }
        // Pacing decides again whenever a segment was taken, and so do checkpoints.
        if state.reclaim.allocated_seen != state.space.allocated_total {
            state.reclaim.allocated_seen = state.space.allocated_total;
            self.call_reclaim();
            self.inner.checkpoint_wanted.notify(1);
        }
        let options = &self.inner.options;
        if state.is_squeezed()
            || state.is_log_long(options)
            || state.map.unwritten_bytes() as u64 > dirty_nodes_max(options)
        {
            self.inner.checkpoint_wanted.notify(1);
        }
        // Skip if a checkpoint already covered it or the store failed.
        let due = state.failed.is_none()
            && !state.space.is_rescuing()
            && state.log.durable < state.log.sequence
            && state.log.since_flush >= (options.unflushed_bytes_max / 8).max(1);
        drop(state);
        self.watch_buffers();
        if due {
            self.begin_flush();
        }
    }

    /// Hands requests to the device, in order.
    pub(crate) fn hand_over(&self, submissions: Vec<Submission>) {
        for submission in submissions {
            match submission {
                Submission::Append { id, at, data } => {
                    if !self.state().log.is_sent(id) {
                        // An append ahead of it failed meanwhile.
                        let zone = self.state().space.zone_of(at);
                        self.state().log.completed(zone);
                        continue;
                    }
                    let blocks = blocks_of(&data);
                    self.follow(id, at, blocks, self.device().append(at, data).boxed_local());
                }
                Submission::Again { id, at, data } => {
                    let blocks = blocks_of(&data);
                    let append = self.device().append_again(at, data).boxed_local();
                    self.follow(id, at, blocks, append);
                }
                Submission::Seal { zone } => {
                    // One more segment is in use: pacing may begin, or change its share.
                    self.state().update_pacing();
                    self.call_reclaim();
                    self.spawn_seal(zone);
                }
            }
        }
    }

    /// Follows an append to its end.
    fn follow(
        &self,
        id: u64,
        at: Pba,
        blocks: u64,
        mut append: LocalBoxFuture<'static, Result<Pba, DeviceError>>,
    ) {
        // On a device without latency the append is done by now: a task would only hold memory.
        if let Some(landed) = (&mut append).now_or_never() {
            return self.appended(id, at, blocks, landed);
        }
        let engine = self.clone();
        self.spawn(async move {
            let landed = append.await;
            engine.appended(id, at, blocks, landed);
        });
    }

    /// The append of a group, or of a segment's header or footer, has ended.
    pub(crate) fn appended(&self, id: u64, at: Pba, blocks: u64, landed: Result<Pba, DeviceError>) {
        {
            let mut state = self.state();
            let zone = state.space.zone_of(at);
            state.log.completed(zone);
        }
        match landed {
            Ok(landed) => {
                assert_eq!(landed, at, "the device landed an append elsewhere");
                let mut state = self.state();
                state.counters.device_write_blocks += blocks;
                if state.given_up > 0 || !state.failing.is_empty() || !state.repeated.is_empty() {
                    state.failing.clear();
                    state.given_up = 0;
                    state.repeated.remove(&id);
                }
                state.log.written(id);
                if state.space.next_reset_wanted() {
                    self.inner.reset_wanted.notify(1);
                }
            }
            // A request that the device takes for wrong is wrong at every place, unless it is one that
            // this device cannot make again. And a store that is being opened can be opened again:
            // nothing has been accepted.
            Err(error)
                if (error.kind == ErrorKind::Invalid && !self.is_again(id))
                    || self.state().space.is_rescuing()
                    || (!self.state().is_serving && is_away(&error)) =>
            {
                self.fail(fault::device("writing the log", error));
            }
            Err(error) => self.refused(id, at, error),
        }
        self.notify();
    }

    /// Whether the append was made again after it had failed.
    fn is_again(&self, id: u64) -> bool {
        self.state().repeated.contains(&id)
    }

    /// The device failed an append. If it is away, the append is made again once it is back.
    /// Otherwise the segment ends ahead of it.
    fn refused(&self, id: u64, at: Pba, error: DeviceError) {
        let lack = {
            let mut state = self.state();
            let zone = state.space.zone_of(at);
            let lack = match error.kind {
                ErrorKind::Gone => Some(Lack::Everything),
                ErrorKind::NoSpace => Some(Lack::Space),
                ErrorKind::Invalid => None,
                _ => state.fails_everywhere(zone).then_some(Lack::Writes),
            };
            lack.filter(|_| state.is_serving && state.log.is_sent(id))
        };
        if let Some(lack) = lack {
            self.state().note_write_error(&error);
            self.begin_outage(lack, &error);
            self.state().repeat_later(id, at);
            return;
        }
        {
            let mut guard = self.state();
            let state = &mut *guard;
            let zone = state.space.zone_of(at);
            if error.kind != ErrorKind::Invalid {
                state.note_bad(zone, &error);
            }
            state.doubts += 1;
            state.repeated.remove(&id);
            state.log.refuse(&mut state.space, id);
        }
        self.inner.refused.notify(1);
        self.call_reclaim();
        self.submit();
    }

    /// Seals a zone. What was appended can be read, sealed or not. But until the device has sealed
    /// the zone, it counts among those that may be open, so a seal that fails is tried again.
    pub(crate) async fn seal(&self, zone: ZoneId) {
        let mut rests = SEAL_RESTS.iter();
        while let Err(error) = self.device().seal(zone).await {
            if error.kind == ErrorKind::Gone && self.state().is_serving {
                self.begin_outage(Lack::Everything, &error);
                match self.outlast(false).await {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            }
            self.state().note_bad(zone, &error);
            let Some(rest) = rests.next().filter(|_| !self.state().stopping) else { return };
            self.runtime().sleep(*rest).await;
        }
    }

    fn spawn_seal(&self, zone: ZoneId) {
        let engine = self.clone();
        self.spawn(async move {
            engine
                .wait_while(|state| state.log.zone_in_flight(zone) && state.failed.is_none())
                .await;
            if engine.state().failed.is_some() {
                return;
            }
            engine.seal(zone).await;
            engine.state().log.sealing.remove(&zone);
            engine.inner.reset_wanted.notify(1);
            engine.notify();
        });
    }
}

/// Whether no other place would do.
fn is_away(error: &DeviceError) -> bool {
    matches!(error.kind, ErrorKind::Gone | ErrorKind::NoSpace)
}

/// The blocks of an append.
pub(crate) fn blocks_of(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum::<u64>() / BLOCK_SIZE
}
