//! The engine's handle and state, and the small steps that everything else is made of.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use event_listener::Event;
use futures_util::FutureExt;
use mjolnir_device::{Buffers, Device, DeviceError, DeviceInfo, Runtime};
use mjolnir_map::{Absent, Map, Run};
use mjolnir_store::{Error, ErrorKind, TargetInfo};
use mjolnir_units::{BLOCK_SIZE, ByteSize, Instant, Pba, TreeId, ZoneId};

use crate::admission::Line;
use crate::catalog::Catalog;
use crate::checkpoint::CheckpointState;
use crate::checksums::Checksums;
use crate::fault;
use crate::format::manifest::TreeKind;
use crate::format::record::Remap;
use crate::kept::WarmState;
use crate::log::{Log, Submission};
use crate::loss::LogLoss;
use crate::memory::dirty_nodes_max;
use crate::node_io::NodeTableMedia;
use crate::options::OpenOptions;
use crate::placement::Placement;
use crate::read_errors::ReadErrors;
use crate::reclaim::ReclaimState;
use crate::recovered::RecoveryReport;
use crate::space::{Claim, Space};
use crate::stats::Counters;

/// An open store. Cloning it gives another handle to the same store.
pub struct Engine<D: Device, R: Runtime> {
    pub(crate) inner: Rc<Inner<D, R>>,
}

impl<D: Device, R: Runtime> Clone for Engine<D, R> {
    fn clone(&self) -> Self {
        Engine { inner: self.inner.clone() }
    }
}

pub(crate) struct Inner<D, R> {
    pub device: D,
    pub runtime: R,
    pub options: OpenOptions,
    /// No borrow of it crosses an `.await`.
    pub state: RefCell<State>,
    /// Clients whose writes wait to be accepted.
    pub line: Line,
    /// Something about space, the log or the store's health changed: whoever waits looks again.
    pub changed: Event,
    /// There is work for the reclaim task.
    pub reclaim_wanted: Event,
    /// There is work for the checkpoint task.
    pub checkpoint_wanted: Event,
    /// Clients wait for reclaim, or it has copied something.
    pub lead_wanted: Event,
    /// Few segments are ready to be opened: the reset task prepares some.
    pub reset_wanted: Event,
    /// A group was begun: the linger task looks at it.
    /// There may be free segments to give back.
    pub release_wanted: Event,
    pub group_begun: Event,
    /// More is durable than the root says, or the engine stops.
    pub promise_wanted: Event,
    /// There are more than few buffers: the task that lets go of them looks at them.
    pub buffers_grown: Event,
    pub opened_at: Instant,
}

pub(crate) struct State {
    pub map: Map,
    pub catalog: Catalog,
    pub prepared: Vec<(TreeId, Vec<Remap>)>,
    pub space: Space,
    pub log: Log,
    pub placement: Placement,
    pub checksums: Checksums,
    pub table: NodeTableMedia,
    pub checkpoint: CheckpointState,
    pub reclaim: ReclaimState,
    pub counters: Counters,
    pub read_errors: ReadErrors,
    /// Memory for reads.
    pub buffers: Buffers,
    /// Memory for what clients write, lent to whoever serves them.
    pub client_buffers: Buffers,
    /// Memory for what clients send until it is decoded.
    pub client_inputs: Buffers,
    /// Whether the task that lets go of buffers knows that there are more than few.
    pub buffers_watched: bool,
    /// Room for the runs that a read finds.
    pub runs_room: Vec<Run>,
    /// Why the store takes no more changes; reads go on.
    pub failed: Option<Error>,
    /// What this opening had to leave out.
    pub log_loss: Option<LogLoss>,
    /// What this opening left out though nothing is damaged, and what it found damaged and left as it is.
    pub recovered: RecoveryReport,
    /// Where that is.
    pub damaged_at: Vec<Pba>,
    pub warm_log: WarmState,
    /// Of a medium that has become shorter: segments that may hold more than is known.
    pub unsure: BTreeSet<ZoneId>,
    /// Clients are refused.
    pub closing: bool,
    /// Tasks end once they have nothing to do.
    pub stopping: bool,
    pub flush_running: bool,
    /// Tasks of the engine that have not ended.
    pub tasks: usize,
    /// Client requests that wait to be admitted, or for space.
    pub clients_waiting: usize,
    /// What [`follow_budget`](Self::follow_budget) measures growth from.
    pub kept_at: u64,
    pub info: DeviceInfo,
}

/// Dropped map nodes that each step works off: more than a step can drop, so none pile up.
const FREES_A_STEP: usize = 32;

impl State {
    /// What a client sees of a tree; an error if it is gone or internal.
    pub fn target(&self, tree: TreeId) -> Result<TargetInfo, Error> {
        let name = self.catalog.full_name(tree).ok_or_else(gone)?;
        let read_only = matches!(self.kind(tree)?, TreeKind::Snapshot(..));
        Ok(TargetInfo { name, id: tree, size: self.size(tree)?, read_only })
    }

    fn kind(&self, tree: TreeId) -> Result<&TreeKind, Error> {
        self.catalog.get(tree).map(|entry| &entry.kind).ok_or_else(gone)
    }

    /// Bytes of a tree that clients see; an error if it is gone or internal.
    pub fn size(&self, tree: TreeId) -> Result<u64, Error> {
        match self.kind(tree)? {
            TreeKind::Staging => Err(gone()),
            _ => self.bytes_of(tree),
        }
    }

    fn bytes_of(&self, tree: TreeId) -> Result<u64, Error> {
        Ok(self.catalog.size(tree, self.map.blocks(tree).ok_or_else(gone)?))
    }

    /// Bytes of a tree that may be changed.
    pub fn writable(&self, tree: TreeId) -> Result<u64, Error> {
        self.check_health()?;
        match self.kind(tree)? {
            TreeKind::Snapshot(..) => Err(Error::new(
                ErrorKind::ReadOnly,
                format!(
                    "{} is a snapshot and cannot be changed; clone it first",
                    self.target(tree)?.name
                ),
            )),
            TreeKind::Volume(_) | TreeKind::Staging => self.bytes_of(tree),
        }
    }

    pub fn check_health(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.closing => {
                Err(Error::new(ErrorKind::Closed, "the store is shutting down"))
            }
            None => Ok(()),
        }
    }

    /// Refuses a byte range that a tree does not have, to be read.
    pub fn check_read(&self, tree: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        self.check_range(tree, self.size(tree)?, offset, length)
    }

    /// The same, to be changed.
    pub fn check_write(&self, tree: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        self.check_range(tree, self.writable(tree)?, offset, length)
    }

    fn check_range(&self, tree: TreeId, size: u64, offset: u64, length: u64) -> Result<(), Error> {
        if offset.checked_add(length).is_none_or(|end| end > size) {
            let name = self.catalog.full_name(tree).unwrap_or_else(|| "(staged)".into());
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the range {offset}+{length} passes the end of {name}, which has {size} bytes \
                     ({})",
                    ByteSize(size)
                ),
            ));
        }
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the volume or snapshot was deleted")
}

/// Why a step could not be taken at once.
pub(crate) enum Hurdle {
    /// The map needs this node from media.
    Absent(Absent),
    /// No segment can be opened for this claim.
    NoRoom(Claim),
    /// A checkpoint has to come first.
    Crowded(Claim),
    Failed(Error),
}

impl From<Absent> for Hurdle {
    fn from(absent: Absent) -> Self {
        Hurdle::Absent(absent)
    }
}

impl From<Error> for Hurdle {
    fn from(error: Error) -> Self {
        Hurdle::Failed(error)
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) fn state(&self) -> std::cell::RefMut<'_, State> {
        self.inner.state.borrow_mut()
    }

    /// Memory for what clients write, which counts towards the budget: payloads that are read into it
    /// need no copy.
    pub fn client_buffers(&self) -> Buffers {
        self.state().client_buffers.clone()
    }

    /// Memory for what clients send until it is decoded, which counts towards the budget, too.
    pub fn client_inputs(&self) -> Buffers {
        self.state().client_inputs.clone()
    }

    pub(crate) fn runtime(&self) -> &R {
        &self.inner.runtime
    }

    pub(crate) fn device(&self) -> &D {
        &self.inner.device
    }

    /// Waits until something changed. Listen first, look then, so that nothing is missed: pass
    /// what was looked at as `still`.
    pub(crate) async fn wait_while(&self, mut still: impl FnMut(&mut State) -> bool) {
        loop {
            let listener = self.inner.changed.listen();
            if !still(&mut self.state()) {
                return;
            }
            listener.await;
        }
    }

    pub(crate) fn notify(&self) {
        self.inner.changed.notify(usize::MAX);
    }

    /// Has reclaim look again at what there is to do, whether it rests or waits within a cycle.
    pub(crate) fn call_reclaim(&self) {
        self.inner.reclaim_wanted.notify(1);
        self.notify();
    }

    /// The store takes no more changes. The first reason counts.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state();
        if state.failed.is_none() {
            state.failed = Some(Error::new(
                error.kind,
                format!("the store takes no more changes, to lose none: {}", error.message),
            ));
        }
        drop(state);
        self.call_reclaim();
        self.inner.checkpoint_wanted.notify(usize::MAX);
        self.inner.lead_wanted.notify(usize::MAX);
        self.inner.reset_wanted.notify(usize::MAX);
        self.inner.release_wanted.notify(usize::MAX);
        self.inner.group_begun.notify(usize::MAX);
        self.inner.promise_wanted.notify(usize::MAX);
    }

    /// Starts a task that [`close`](Self::close) waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.state().tasks += 1;
        let engine = self.clone();
        self.runtime().spawn(async move {
            task.await;
            engine.state().tasks -= 1;
            engine.notify();
        });
    }

    /// Hands what the log has to write to the device, in order. Called after every step that may
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
        for submission in submissions {
            match submission {
                Submission::Append { id, at, data } => {
                    let blocks =
                        data.iter().map(|piece| piece.len() as u64).sum::<u64>() / BLOCK_SIZE;
                    let mut append = self.device().append(at, data).boxed_local();
                    // Where nothing takes time it is done by now: a task would only hold memory.
                    if let Some(landed) = (&mut append).now_or_never() {
                        self.appended(id, at, blocks, landed);
                        continue;
                    }
                    let engine = self.clone();
                    self.spawn(async move {
                        let landed = append.await;
                        engine.appended(id, at, blocks, landed);
                    });
                }
                Submission::Seal { zone } => {
                    // A segment more is in use: pacing may want to begin, or to change its share.
                    self.state().update_pacing();
                    self.call_reclaim();
                    self.spawn_seal(zone);
                }
            }
        }
        let mut state = self.state();
        if state.space.next_reset_wanted() {
            self.inner.reset_wanted.notify(1);
        }
        // Pacing decides anew whenever a segment was taken, and so do checkpoints.
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
        // A checkpoint may have made all of it durable meanwhile; a store that failed never will.
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

    /// The append of a group, or of a segment's header or footer, has ended.
    fn appended(&self, id: u64, at: Pba, blocks: u64, landed: Result<Pba, DeviceError>) {
        match landed {
            Ok(landed) => {
                assert_eq!(landed, at, "the device landed an append elsewhere");
                let mut state = self.state();
                state.counters.device_write_blocks += blocks;
                state.log.written(id);
                if state.space.next_reset_wanted() {
                    self.inner.reset_wanted.notify(1);
                }
            }
            Err(error) => self.fail(fault::device("writing the log", error)),
        }
        self.notify();
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
            let sealed = engine.device().seal(zone).await;
            engine.state().log.sealing.remove(&zone);
            if let Err(error) = sealed {
                engine.fail(fault::device("sealing a segment", error));
            }
            engine.inner.reset_wanted.notify(1);
            engine.notify();
        });
    }

    /// Takes a step again and again, overcoming what stops it, until it is taken.
    pub(crate) async fn step<T>(
        &self,
        mut step: impl FnMut(&mut State) -> Result<T, Hurdle>,
    ) -> Result<T, Error> {
        // Else nodes that others bring could drive out one of those that it needs, again and again.
        let mut kept = Vec::new();
        loop {
            let outcome = step(&mut self.state());
            self.submit();
            match outcome {
                Ok(value) => return Ok(value),
                Err(Hurdle::Absent(absent)) => kept.push(self.load_node(absent.0).await?),
                Err(Hurdle::NoRoom(claim)) => self.wait_for_room(claim).await?,
                Err(Hurdle::Crowded(claim)) => self.wait_while_crowded(claim).await?,
                Err(Hurdle::Failed(error)) => return Err(error),
            }
        }
    }

    /// Makes every record up to `sequence` durable.
    pub(crate) async fn flush_to(&self, sequence: u64) -> Result<(), Error> {
        loop {
            let listener = self.inner.changed.listen();
            {
                let state = self.state();
                if state.log.durable >= sequence {
                    return Ok(());
                }
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
            }
            self.begin_flush();
            listener.await;
        }
    }

    /// Begins to flush the device, unless that is under way. It is a task's work: whoever wants a flush
    /// may leave before it ends, and what is counted on it to cover is covered all the same.
    fn begin_flush(&self) {
        if std::mem::replace(&mut self.state().flush_running, true) {
            return;
        }
        let engine = self.clone();
        self.spawn(async move {
            engine.flush_all().await;
            engine.state().flush_running = false;
            engine.submit(); // So much may have come meanwhile that the next flush is due.
        });
    }

    /// Makes all records that there are now durable. If that fails, so does the store.
    async fn flush_all(&self) {
        let target = {
            let mut guard = self.state();
            let state = &mut *guard;
            state.log.since_flush = 0;
            state.log.close_logged_groups(&mut state.space);
            state.log.sequence
        };
        self.submit();
        self.wait_while(|state| state.log.waits_for(target) && state.failed.is_none()).await;
        if self.state().failed.is_some() {
            return;
        }
        if let Err(error) = self.device().flush().await {
            return self.fail(fault::device("flushing the device", error));
        }
        let mut state = self.state();
        state.counters.device_flushes += 1;
        if state.failed.is_none() {
            state.log.durable = state.log.durable.max(target);
        }
        if !std::mem::replace(&mut state.checkpoint.promise_watched, true) {
            self.inner.promise_wanted.notify(1);
        }
    }
}
