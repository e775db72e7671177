//! Formatting, opening and closing a store, and the small tasks that run while it is open.

use mjolnir_device::{Device, DeviceInfo, Opening, Runtime, Sealing, WarmLog};
use mjolnir_map::Map;
use mjolnir_policy::{PolicyError, pacing, placement, read_plan, victim};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize};

use crate::drive::Engine;
use crate::memory;
use crate::options::{FormatOptions, OpenOptions};
use crate::report::WarmState;
use crate::space::{CLIENT_STREAM, SEGMENT_BLOCKS_MIN, SEGMENTS_MIN, check_segments};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Makes an empty store on a device. Whatever was on it is lost.
    pub async fn format(device: D, runtime: R, _options: FormatOptions) -> Result<(), Error> {
        let info = device.info();
        check_abilities(&info)?;
        if info.zones < SEGMENTS_MIN || info.zone_blocks < SEGMENT_BLOCKS_MIN {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} has {} segments of {}; a store needs at least {SEGMENTS_MIN} segments of \
                     {}: make it larger, or its segments smaller",
                    info.name,
                    info.zones,
                    ByteSize(info.zone_blocks * BLOCK_SIZE),
                    ByteSize(SEGMENT_BLOCKS_MIN * BLOCK_SIZE),
                ),
            ));
        }
        check_segments(&info, info.zones.into())?;
        let options = OpenOptions { reclaim: Default::default(), ..OpenOptions::default() };
        let engine = Engine::assemble(device, runtime, options, Map::new(), 1, 0);
        {
            let mut state = engine.state();
            for zone in 0..info.zones {
                state.space.push_free(mjolnir_units::ZoneId(zone));
            }
        }
        engine.spawn(engine.clone().reset_task());
        let outcome = engine.write_checkpoint().await;
        engine.stop_tasks().await;
        outcome
    }

    /// Opens a store: reads its newest checkpoint, replays what was logged since, and takes a new
    /// checkpoint before it accepts changes.
    pub async fn open(device: D, runtime: R, options: OpenOptions) -> Result<Self, Error> {
        Engine::open_warm(device, runtime, options, None).await
    }

    /// As [`open`](Self::open), with what the last process left of acknowledged changes, which are logged again
    /// first; this one leaves its own there from then on.
    pub async fn open_warm(
        device: D,
        runtime: R,
        options: OpenOptions,
        mut warm: Option<Box<dyn WarmLog>>,
    ) -> Result<Self, Error> {
        let unknown = |error: PolicyError| Error::new(ErrorKind::Invalid, error.to_string());
        victim::by_name(&options.reclaim.policy).map_err(unknown)?;
        pacing::by_name(&options.reclaim.pacing).map_err(unknown)?;
        read_plan::by_name(&options.reclaim.read_plan).map_err(unknown)?;
        placement::by_name(&options.placement).map_err(unknown)?;
        check_abilities(&device.info())?;
        let engine = Engine::recover(device, runtime, options, warm.as_deref_mut()).await?;
        if engine.inner.options.read_only {
            engine.state().failed = Some(Error::new(
                ErrorKind::ReadOnly,
                "the store was opened for reading only (by its server, if it has one: `serve \
                 --read-only`); open it for writing to change it",
            ));
            return Ok(engine);
        }
        engine.spawn(engine.clone().reset_task());
        if let Err(error) = engine.write_checkpoint().await {
            engine.fail(error.clone());
            engine.stop_tasks().await;
            return Err(error);
        }
        engine.state().is_serving = true;
        if let Some(warm) = warm {
            engine.begin_warm(warm);
        }
        engine.spawn(engine.clone().log_again_task());
        engine.spawn(engine.clone().trial_task());
        engine.spawn(engine.clone().linger_task());
        engine.spawn(engine.clone().checkpoint_task());
        engine.spawn(engine.clone().reclaim_task());
        engine.spawn(engine.clone().lead_task());
        engine.spawn(engine.clone().buffers_task());
        engine.spawn(engine.clone().promise_task());
        if engine.device().abilities().gives_back() {
            engine.spawn(engine.clone().release_task());
        }
        Ok(engine)
    }

    /// Ends everything: refuses new work, makes what was acknowledged durable, takes a last
    /// checkpoint, and waits for every task. The device may be dropped afterwards.
    pub async fn close(&self) -> Result<(), Error> {
        self.state().closing = true;
        self.call_reclaim();
        let sequence = self.state().log.sequence;
        let (mut outcome, mut is_whole) = (Ok(()), false);
        // Closed before, or by someone else: what is left is to wait for its tasks.
        if !self.inner.options.read_only && !self.state().stopping {
            outcome = self.flush_to(sequence).await;
            let is_away = self.state().outage.is_some();
            if let Some(error) = outcome.as_ref().err().filter(|_| is_away) {
                // What waits for the device would wait for ever.
                self.fail(error.clone());
            }
            self.wait_while(|state| state.reclaim.running && state.failed.is_none()).await;
            if outcome.is_ok() && !self.state().stopping {
                outcome = self.checkpoint().await;
                is_whole = outcome.is_ok();
            }
        }
        self.stop_tasks().await;
        if is_whole {
            self.state().log.kept.end();
        }
        outcome
    }

    /// Notes what is acknowledged in the warm log from now on.
    fn begin_warm(&self, mut warm: Box<dyn WarmLog>) {
        let options = &self.inner.options;
        let kept_bytes = memory::client_buffer_bytes(options);
        let payload_bytes = memory::warm_bytes(options);
        let mut state = self.state();
        let opening = Opening { epoch: state.log.epoch, number: state.checkpoint.opening };
        let sequence = state.log.sequence;
        match warm.begin(opening, payload_bytes, kept_bytes) {
            Ok(buffers) => {
                state.client_buffers = buffers;
                state.log.kept.begin(warm, sequence);
                state.warm_log = WarmState::Kept;
            }
            Err(why) => state.warm_log = WarmState::Missing(why),
        }
    }

    async fn stop_tasks(&self) {
        self.state().stopping = true;
        for event in [
            &self.inner.reclaim_wanted,
            &self.inner.checkpoint_wanted,
            &self.inner.reset_wanted,
            &self.inner.release_wanted,
            &self.inner.lead_wanted,
            &self.inner.refused,
            &self.inner.bad_noticed,
            &self.inner.group_begun,
            &self.inner.buffers_grown,
            &self.inner.promise_wanted,
        ] {
            event.notify(usize::MAX);
        }
        self.notify();
        self.wait_while(|state| state.tasks > 0).await;
    }
}

/// Refuses devices on which a flush would promise more than it does, or that are too narrow.
fn check_abilities(info: &DeviceInfo) -> Result<(), Error> {
    let streams = u32::from(CLIENT_STREAM) + 1;
    if let Some(max) = info.open_zones_max
        && max < streams
    {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} can have {max} zones open at once; a store needs {streams}, one for each kind \
                 of data",
                info.name
            ),
        ));
    }
    if info.sealing == Sealing::Durable {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} makes data durable only when a zone is sealed; this version needs a device \
                 that can be flushed",
                info.name
            ),
        ));
    }
    Ok(())
}
