//! Formatting, opening and closing a store, and the small tasks that run while it is open.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use event_listener::{Event, EventListener};
use futures_util::future::{Either, select};
use mjolnir_device::{Buffers, Device, DeviceInfo, Opening, Runtime, Sealing, WarmLog};
use mjolnir_map::Map;
use mjolnir_policy::{UnknownPolicy, pacing, placement, read_plan, victim};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize};

use crate::admission::Line;
use crate::catalog::Catalog;
use crate::checkpoint::CheckpointState;
use crate::checksums::Checksums;
use crate::engine::{Engine, Inner, State};
use crate::fault;
use crate::format::manifest::Manifest;
use crate::format::root::{MANIFEST_CHUNKS_MAX, Root};
use crate::kept::WarmState;
use crate::log::{GROUP_BLOCKS_MAX, Log};
use crate::memory;
use crate::node_io::NodeTableMedia;
use crate::options::{FormatOptions, OpenOptions};
use crate::placement::Placement;
use crate::read_errors::ReadErrors;
use crate::reclaim::ReclaimState;
use crate::space::{CLIENT_STREAM, Space};
use crate::stats::Counters;

/// The fewest segments that a store can work with: the reserve, open streams, and some to win.
pub const SEGMENTS_MIN: u32 = 16;
/// The fewest blocks in a segment.
const SEGMENT_BLOCKS_MIN: u64 = 32;

/// The most segments that a store on such a device can have: half of the chunks of a manifest that a root
/// can name tell of all of them. The rest is for volumes and the node table, or a copy.
pub(crate) fn segments_max(info: &DeviceInfo) -> u64 {
    // What is left of a segment may be too short for a whole chunk.
    let chunk_blocks = (info.append_blocks_max - 1).min(GROUP_BLOCKS_MAX.into());
    let chunk_blocks = chunk_blocks.min(info.zone_blocks / 2);
    (MANIFEST_CHUNKS_MAX / 2) as u64 * chunk_blocks * BLOCK_SIZE / Manifest::SEGMENT_BYTES_MAX
}

/// Refuses more segments than a store can have.
pub(crate) fn check_segments(info: &DeviceInfo, segments: u64) -> Result<(), Error> {
    let most = segments_max(info);
    if segments <= most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{}: {segments} segments of {} are too many, a store of such has at most {most}; format one \
             with larger segments",
            info.name,
            ByteSize(info.zone_blocks * BLOCK_SIZE),
        ),
    ))
}

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
        let unknown = |error: UnknownPolicy| Error::new(ErrorKind::Invalid, error.to_string());
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
        if let Some(warm) = warm {
            engine.begin_warm(warm);
        }
        engine.spawn(engine.clone().linger_task());
        engine.spawn(engine.clone().checkpoint_task());
        engine.spawn(engine.clone().reclaim_task());
        engine.spawn(engine.clone().lead_task());
        engine.spawn(engine.clone().buffers_task());
        engine.spawn(engine.clone().promise_task());
        if engine.device().gives_back() {
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

    /// A log that holds nothing, as of the root.
    pub(crate) fn renew_log(&self, root: &Root) {
        let mut state = self.state();
        let streams = usize::from(CLIENT_STREAM + state.placement.streams());
        let sum = self.device().block_checksum();
        state.log = Log::new(&state.info, sum, root.epoch, streams, root.sequence);
        state.checksums = Checksums::default();
    }

    async fn stop_tasks(&self) {
        self.state().stopping = true;
        for event in [
            &self.inner.reclaim_wanted,
            &self.inner.checkpoint_wanted,
            &self.inner.reset_wanted,
            &self.inner.release_wanted,
            &self.inner.lead_wanted,
            &self.inner.group_begun,
            &self.inner.buffers_grown,
            &self.inner.promise_wanted,
        ] {
            event.notify(usize::MAX);
        }
        self.notify();
        self.wait_while(|state| state.tasks > 0).await;
    }

    pub(crate) fn assemble(
        device: D,
        runtime: R,
        options: OpenOptions,
        map: Map,
        epoch: u64,
        sequence: u64,
    ) -> Self {
        let info = device.info();
        let placement = Placement::new(&options, &info)
            .expect("the policy's name was checked when the store was opened");
        let streams = usize::from(CLIENT_STREAM + placement.streams());
        let state = State {
            map,
            catalog: Catalog::default(),
            prepared: Vec::new(),
            space: Space::new(info.zones, info.zone_blocks),
            log: Log::new(&info, device.block_checksum(), epoch, streams, sequence),
            placement,
            checksums: Checksums::default(),
            table: NodeTableMedia::default(),
            checkpoint: CheckpointState::new(runtime.random()),
            reclaim: ReclaimState::new(
                &options.reclaim,
                memory::index_bytes(&options),
                runtime.parallelism(),
            ),
            counters: Counters::default(),
            read_errors: ReadErrors::default(),
            buffers: Buffers::keeping(memory::buffer_bytes(&options)),
            client_buffers: Buffers::keeping(memory::client_buffer_bytes(&options)),
            client_inputs: Buffers::keeping(memory::client_input_bytes(&options)),
            buffers_watched: false,
            runs_room: Vec::new(),
            failed: None,
            log_loss: None,
            recovered: Default::default(),
            damaged_at: Vec::new(),
            warm_log: WarmState::Off,
            unsure: Default::default(),
            closing: false,
            stopping: false,
            flush_running: false,
            tasks: 0,
            clients_waiting: 0,
            kept_at: 0,
            info,
        };
        let opened_at = runtime.now();
        Engine {
            inner: Rc::new(Inner {
                device,
                runtime,
                options,
                state: RefCell::new(state),
                line: Line::default(),
                changed: Event::new(),
                reclaim_wanted: Event::new(),
                checkpoint_wanted: Event::new(),
                lead_wanted: Event::new(),
                reset_wanted: Event::new(),
                release_wanted: Event::new(),
                group_begun: Event::new(),
                buffers_grown: Event::new(),
                promise_wanted: Event::new(),
                opened_at,
            }),
        }
    }

    /// Keeps a few segments reset and ready to be opened.
    async fn reset_task(self) {
        loop {
            let listener = self.inner.reset_wanted.listen();
            let zone = {
                let mut guard = self.state();
                let state = &mut *guard;
                if state.stopping || state.failed.is_some() {
                    return;
                }
                let log = &state.log;
                let zone = state.space.next_to_reset(|zone| log.zone_busy(zone));
                zone.inspect(|zone| state.checksums.remove(*zone))
            };
            let Some(zone) = zone else {
                listener.await;
                continue;
            };
            if let Err(error) = self.device().reset(zone).await {
                self.fail(fault::device(&format!("resetting segment {}", zone.0), error));
                return;
            }
            let mut state = self.state();
            state.counters.zone_resets += 1;
            state.space.push_ready(zone);
            drop(state);
            self.notify();
        }
    }

    /// Sends groups that no flush asked for, after a short wait for company: the linger, and for those
    /// begun meanwhile up to another.
    async fn linger_task(self) {
        loop {
            let listener = self.inner.group_begun.listen();
            let newest = {
                let state = self.state();
                if state.stopping || state.failed.is_some() {
                    return;
                }
                state.log.is_building().then(|| state.log.last_group())
            };
            let Some(newest) = newest else {
                listener.await;
                continue;
            };
            self.linger(listener).await;
            {
                let mut guard = self.state();
                let state = &mut *guard;
                if state.failed.is_none() {
                    state.log.close_logged_groups_to(&mut state.space, newest);
                }
            }
            self.submit();
        }
    }

    /// Sleeps for the linger, or until the engine stops.
    async fn linger(&self, mut woken: EventListener) {
        let mut sleep = pin!(self.runtime().sleep(self.inner.options.linger));
        while let Either::Right(_) = select(&mut sleep, woken).await {
            woken = self.inner.group_begun.listen();
            if self.state().stopping {
                return;
            }
        }
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
