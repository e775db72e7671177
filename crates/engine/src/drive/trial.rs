//! Trials of bad segments: whether the device writes to them again.

use std::pin::pin;

use bytes::Bytes;
use futures_util::future::select;
use mjolnir_device::{AlignedBuf, Device, DeviceError, ErrorKind, Runtime};
use mjolnir_store::Error;
use mjolnir_store::report::BadTried;
use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::outage::Lack;
use crate::yielding::yield_now;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that tries empty bad segments when it is time to.
    pub(crate) async fn trial_task(self) {
        loop {
            if self.outlast(false).await.is_err() {
                return;
            }
            let listener = self.inner.bad_noticed.listen();
            let now = self.runtime().now();
            let next = {
                let mut state = self.state();
                if state.stopping || state.failed.is_some() {
                    return;
                }
                // Closing waits for no trial.
                state.space.next_trial(now).filter(|_| !state.closing)
            };
            match next {
                None => listener.await,
                Some((_, at)) if at > now => {
                    select(listener, pin!(self.runtime().sleep(at.since(now)))).await;
                }
                Some((zone, _)) => {
                    self.try_segment(zone).await;
                }
            }
        }
    }

    /// Tries all empty bad segments, and takes a checkpoint that lists those that work as free.
    pub(crate) async fn retry_bad_segments(&self) -> Result<BadTried, Error> {
        self.state().check_health()?;
        let zones: Vec<ZoneId> = self.state().space.triable().collect();
        let mut done = BadTried::default();
        for zone in zones {
            self.outlast(true).await?;
            if self.state().space.triable().any(|other| other == zone) {
                done.tried += 1;
                done.taken_back += u64::from(self.try_segment(zone).await);
            }
        }
        if done.taken_back > 0 {
            self.checkpoint().await?;
        }
        Ok(done)
    }

    /// Writes and reads a whole empty bad segment. If that works, the next checkpoint lists it as
    /// free. Returns whether it did.
    pub(crate) async fn try_segment(&self, zone: ZoneId) -> bool {
        if !self.state().log.begin_trial(zone) {
            // It is being tried or sealed, or the device has as many zones open as it can.
            self.wait_while(|state| {
                let is_busy = state.log.sealing.contains(&zone) || !state.log.can_open_zone();
                !state.stopping && state.failed.is_none() && is_busy
            })
            .await;
            yield_now().await;
            return false;
        }
        let tried = self.write_segment(zone).await;
        self.seal(zone).await;
        let mut state = self.state();
        state.log.sealing.remove(&zone);
        state.counters.trials += 1;
        let works = tried.is_ok();
        match tried {
            Ok(()) => {
                state.space.take_back(zone);
                state.checkpoint.wanted = true;
            }
            Err(error) if error.kind == ErrorKind::Gone => {
                drop(state);
                self.begin_outage(Lack::Everything, &error);
                return false;
            }
            Err(error) => state.note_bad(zone, &error),
        }
        drop(state);
        self.inner.checkpoint_wanted.notify(1);
        self.notify();
        works
    }

    async fn write_segment(&self, zone: ZoneId) -> Result<(), DeviceError> {
        let info = self.device().info();
        self.device().reset(zone).await?;
        let blank =
            AlignedBuf::zeroed(info.append_blocks_max.min(info.zone_blocks) as usize * BLOCK_BYTES)
                .freeze();
        let piece = |at: u64| {
            let blocks = (info.zone_blocks - at).min((blank.len() / BLOCK_BYTES) as u64);
            blank.slice(..blocks as usize * BLOCK_BYTES)
        };
        let start = zone.start(info.zone_blocks);
        let mut at = 0;
        while at < info.zone_blocks {
            let bytes: Bytes = piece(at);
            let blocks = (bytes.len() / BLOCK_BYTES) as u64;
            self.device().append(start.plus(at), vec![bytes.clone()]).await?;
            let read = self.device().read(start.plus(at), self.buffer(bytes.len())).await?;
            if read.as_ref() != &bytes[..] {
                let what = format!("{}: {zone} does not keep what is written", info.name);
                return Err(DeviceError::new(ErrorKind::Io, what));
            }
            at += blocks;
        }
        Ok(())
    }
}
