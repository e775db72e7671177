//! Relocate: copy a candidate's live blocks forward, repoint the leaves, give the segment up.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_map::{NodeId, Relocations, RelocationsBuilder, word};
use mjolnir_policy::read_plan::{ReadPlanView, Span};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Pba, TreeId, ZoneId};

use crate::engine::{Engine, Hurdle, State};
use crate::fault;
use crate::format::record::Record;
use crate::memory::dirty_bytes_max;
use crate::placement::Moved;
use crate::read::Pin;
use crate::space::{Claim, RECLAIM_STREAM, SegmentState};

/// Blocks read from a victim in one go: a slice of 2 MiB.
const SLICE_BLOCKS: u64 = 512;
/// Leaves handled before clients get their turn.
const LEAVES_A_STEP: usize = 64;

/// A live run of a victim, with what its summary says of it.
#[derive(Clone, Copy, Debug)]
struct LiveRun {
    at: Pba,
    blocks: u64,
    owner: Owner,
}

/// Reads of a victim that are on their way. They hold its zone.
struct Reads<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    pin: Pin<D, R>,
    spans: Vec<(Pba, LocalBoxFuture<'static, Result<AlignedBuf, DeviceError>>)>,
}

impl<D: Device, R: Runtime> Reads<D, R> {
    /// All that could be read, in order. A stale block that fails takes its neighbours along, so
    /// what is missing is worth another try without it.
    async fn finish(self) -> Vec<(Pba, Bytes)> {
        let mut read = Vec::with_capacity(self.spans.len());
        for (at, reading) in self.spans {
            if let Ok(buffer) = reading.await {
                let blocks = buffer.len() as u64 / BLOCK_SIZE;
                self.engine.state().counters.device_read_blocks += blocks;
                read.push((at, buffer.freeze()));
            }
        }
        drop(self.pin);
        read
    }
}

/// What a block was first written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    tree: TreeId,
    lba: u64,
    birth: u64,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Empties one candidate. Returns whether it was given up. If the copy fails, the old data
    /// stays in force and nothing is lost but the effort.
    pub(super) async fn relocate(&self, zone: ZoneId) -> Result<bool, Error> {
        let (runs, opened) = self.live_runs(zone).await?;
        {
            let mut guard = self.state();
            let state = &mut *guard;
            let live = runs.iter().map(|run| run.blocks).sum();
            let now = state.log.sequence;
            state.placement.reclaimed(state.space.get(zone), live, opened, now);
        }
        let mut moves = Relocations::builder();
        let mut groups = BTreeSet::new();
        // The next slice is on its way while this one is copied.
        let mut rest = slices(&runs).map(|slice| (slice, self.start_reads(zone, slice)));
        let mut next = rest.next();
        while let Some((slice, reads)) = next {
            self.wait_for_share().await;
            if self.state().closing {
                return Ok(false);
            }
            next = rest.next();
            let read = reads.finish().await;
            let copied = async {
                for run in slice {
                    let (bytes, content) = self.verified(&read, run).await?;
                    self.copy_forward(zone, run, bytes, &content, &mut moves, &mut groups).await?;
                }
                Ok(())
            };
            let copied = copied.await;
            // Before any wait, and though the copy failed: clients may wait for what has not been
            // sent.
            self.send_relocated();
            copied?;
            self.wait_while_dirty().await?;
        }
        if let Some(last) = groups.last().copied() {
            self.wait_while(|state| {
                state.failed.is_none()
                    && (groups.iter().any(|group| state.log.is_in_flight(*group))
                        || state.log.waits_for_group(last))
            })
            .await;
        }
        let failed = self.state().failed.clone();
        if let Some(error) = failed {
            return Err(error);
        }
        self.repoint(zone, &moves.build()).await?;
        if self.inner.options.paranoid {
            self.prove_unreferenced(zone).await?;
        }
        let mut state = self.state();
        state.space.get_mut(zone).state = SegmentState::Retiring;
        state.reclaim.index.remove(zone);
        state.reclaim.counters.segments_relocated += 1;
        state.reclaim.counters.segments_retired += 1;
        drop(state);
        self.inner.checkpoint_wanted.notify(1);
        self.notify();
        Ok(true)
    }

    /// The candidate's live blocks as its referrers name them now, in order, each counted once; and
    /// about which sequence number the segment was opened at.
    async fn live_runs(&self, zone: ZoneId) -> Result<(Vec<LiveRun>, Option<u64>), Error> {
        let (segment, zone_blocks) = {
            let state = self.state();
            (state.space.get(zone).clone(), state.space.zone_blocks)
        };
        let start = zone.start(zone_blocks);
        let mut live = vec![false; zone_blocks as usize];
        let mut pending = self.referrers(zone);
        loop {
            let batch = self.next_referrers(zone, &mut pending);
            if batch.is_empty() {
                break;
            }
            for id in batch {
                self.step(|state| {
                    let leaf = state.map.leaf(id)?;
                    for entry in leaf.iter().flat_map(|leaf| leaf.entries()) {
                        let Some(from) = offset_within(*entry, start, zone_blocks) else {
                            continue;
                        };
                        live[from as usize..][..word::blocks(*entry) as usize].fill(true);
                    }
                    Ok(())
                })
                .await?;
            }
            yield_now().await;
        }
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        let groups = self.walk_groups(zone, segment.incarnation, u64::from(end)).await?;
        let opened = groups.first().map(|group| group.durable);
        let start = zone.start(zone_blocks);
        let mut runs: Vec<LiveRun> = Vec::new();
        for group in groups {
            let mut offset = u64::from(group.offset) + 1;
            for (sequence, record) in &group.records {
                let (tree, lba, birth) = match record {
                    Record::Write { tree, lba, .. } => (*tree, *lba, *sequence),
                    Record::Moved { tree, lba, birth, .. } => (*tree, *lba, *birth),
                    _ => continue,
                };
                for index in 0..record.payload_blocks() {
                    let at = offset + index;
                    if !std::mem::take(&mut live[at as usize]) {
                        continue;
                    }
                    let owner = Owner { tree, lba: lba + index, birth };
                    match runs.last_mut() {
                        Some(run)
                            if run.at.plus(run.blocks) == start.plus(at)
                                && run.owner.tree == tree
                                && run.owner.birth == birth
                                && run.owner.lba + run.blocks == owner.lba =>
                        {
                            run.blocks += 1;
                        }
                        _ => runs.push(LiveRun { at: start.plus(at), blocks: 1, owner }),
                    }
                }
                offset += record.payload_blocks();
            }
        }
        if let Some(at) = live.iter().position(|live| *live) {
            return Err(fault::damaged(format!(
                "block {at} of {zone} is referred to, but the segment's summary does not know it; \
                 the segment is left as it is; run `check`"
            )));
        }
        Ok((runs, opened))
    }

    /// Begins to read the live runs of a slice, as the read plan says.
    fn start_reads(&self, zone: ZoneId, slice: &[LiveRun]) -> Reads<D, R> {
        let mut guard = self.state();
        let state = &mut *guard;
        let start = zone.start(state.space.zone_blocks);
        let live: Vec<Span> =
            slice.iter().map(|run| Span { at: run.at.0 - start.0, blocks: run.blocks }).collect();
        let view = ReadPlanView { live: &live, read_blocks_max: SLICE_BLOCKS };
        let plan = state.reclaim.read_plan.plan(&view);
        let pin = Pin::new(self, state, zone);
        let read = |span: Span| {
            let buffer = state.buffers.take((span.blocks * BLOCK_SIZE) as usize);
            let at = start.plus(span.at);
            (at, self.device().read(at, buffer).boxed_local())
        };
        Reads { engine: self.clone(), pin, spans: plan.into_iter().map(read).collect() }
    }

    /// The bytes of a run out of what was read, each block verified; if it is not there in one
    /// piece, read by itself. With them the checksums of their content, as far as they are known.
    async fn verified(
        &self,
        read: &[(Pba, Bytes)],
        run: &LiveRun,
    ) -> Result<(Bytes, Vec<u32>), Error> {
        let length = (run.blocks * BLOCK_SIZE) as usize;
        let before = read.partition_point(|(at, _)| *at <= run.at);
        if let Some((at, bytes)) = before.checked_sub(1).map(|index| &read[index]) {
            let from = ((run.at.0 - at.0) * BLOCK_SIZE) as usize;
            if from + length <= bytes.len() {
                let bytes = bytes.slice(from..from + length);
                let content = self.verify(run.at, &bytes).await?;
                return Ok((bytes, content));
            }
        }
        Ok((self.read_verified(run.at, run.blocks).await?, Vec::new()))
    }

    /// Appends a run to the stream that placement names and notes where each part went.
    async fn copy_forward(
        &self,
        zone: ZoneId,
        run: &LiveRun,
        bytes: Bytes,
        content: &[u32],
        moves: &mut RelocationsBuilder,
        groups: &mut BTreeSet<u64>,
    ) -> Result<(), Error> {
        let mut done = 0;
        while done < run.blocks {
            let rest = bytes.slice((done * BLOCK_SIZE) as usize..);
            let record = |blocks: u32| Record::Moved {
                tree: run.owner.tree,
                lba: run.owner.lba + done,
                blocks,
                birth: run.owner.birth,
            };
            let record_bytes = record(1).encoded_bytes();
            let (at, fit, group) = self
                .step(|state| {
                    let block = Moved {
                        tree: run.owner.tree,
                        lba: run.owner.lba + done,
                        from: state.space.get(zone).stream,
                        birth: run.owner.birth,
                    };
                    let now = state.log.sequence;
                    let wanted = state.placement.of_moved(&block, now);
                    let (stream, at, fit) =
                        state.room_for_moved(wanted, record_bytes, (run.blocks - done) as u32)?;
                    state.placement.moved(&block, fit, wanted, stream, now);
                    state.note_births(at, fit, block.birth, true);
                    let payload = rest.slice(..(u64::from(fit) * BLOCK_SIZE) as usize);
                    let group = state.log.push_known(
                        stream,
                        record(fit),
                        &[payload],
                        content.get(done as usize..).unwrap_or(&[]),
                        record_bytes,
                        false,
                    );
                    state.reclaim.counters.blocks_moved += u64::from(fit);
                    state.reclaim.gate.reclaim_moved(u64::from(fit));
                    Ok((at, fit, group))
                })
                .await?;
            moves.add(run.at.plus(done), u64::from(fit), at);
            groups.insert(group);
            done += u64::from(fit);
        }
        self.notify();
        Ok(())
    }

    /// Replaces every reference into the candidate. Ends in a step in which no touched leaf is
    /// unchecked and every leaf of the index has been repointed.
    async fn repoint(&self, zone: ZoneId, moves: &Relocations) -> Result<(), Error> {
        let mut pending = self.referrers(zone);
        loop {
            let batch = self.next_referrers(zone, &mut pending);
            if batch.is_empty() {
                return Ok(());
            }
            for id in batch {
                self.make_room_for_leaves().await?;
                let left = self
                    .step(|state| {
                        let blocks = state.map.repoint(id, moves)?;
                        state.reclaim.counters.leaves_repointed += u64::from(blocks > 0);
                        let zone_blocks = state.space.zone_blocks;
                        let leaf = state.map.leaf(id)?;
                        let start = zone.start(zone_blocks);
                        let mut entries = leaf.iter().flat_map(|leaf| leaf.entries());
                        Ok(entries.any(|entry| offset_within(*entry, start, zone_blocks).is_some()))
                    })
                    .await?;
                if left {
                    return Err(fault::damaged(format!(
                        "leaf {} of the map refers to blocks of {zone} that were not copied; the \
                         segment is left as it is",
                        id.0
                    )));
                }
            }
            yield_now().await; // Clients get their turn between batches.
        }
    }

    /// Takes a checkpoint if more dirty leaves might leave no room for one: blocks that many
    /// diverged snapshots share are named by as many leaves. What is repointed so far may stay so.
    async fn make_room_for_leaves(&self) -> Result<(), Error> {
        self.admit_nodes().await;
        if !self.state().space.is_crowded(Claim::Reclaim) {
            return Ok(());
        }
        self.checkpoint_within_task().await?;
        if self.state().space.is_crowded(Claim::Reclaim) {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "there is no room to write all the leaves of the map that name the segment",
            ));
        }
        Ok(())
    }

    /// The leaves that may refer to the candidate: all are to be handled.
    fn referrers(&self, zone: ZoneId) -> BTreeSet<NodeId> {
        let state = self.state();
        // Without its index, nothing would seem to refer to it.
        let leaves = state.reclaim.index.leaves(zone);
        leaves.expect("a segment stays a candidate while it is relocated").clone()
    }

    /// Takes the next leaves out of `pending`, to which those are added that were touched since.
    /// Empty only if every leaf that may refer to the candidate was handled after its last change.
    fn next_referrers(&self, zone: ZoneId, pending: &mut BTreeSet<NodeId>) -> Vec<NodeId> {
        let mut state = self.state();
        let touched = state.index_touched();
        let leaves = state.reclaim.index.leaves(zone);
        let leaves = leaves.expect("a segment stays a candidate while it is relocated");
        pending.extend(touched.into_iter().filter(|id| leaves.contains(id)));
        std::iter::from_fn(|| pending.pop_first()).take(LEAVES_A_STEP).collect()
    }

    /// Sends the groups that hold what reclaim moved.
    fn send_relocated(&self) {
        {
            let mut guard = self.state();
            let state = &mut *guard;
            state.log.close_moved_groups(&mut state.space);
        }
        self.submit();
    }

    /// Waits until pacing lets reclaim move more.
    async fn wait_for_share(&self) {
        self.state().update_pacing();
        self.notify();
        self.wait_while(|state| {
            let reclaim = &state.reclaim;
            let forced = reclaim.forced > reclaim.forced_done;
            let idle = state.clients_waiting == 0 && state.log.dirty_bytes == 0;
            state.failed.is_none()
                && !state.closing
                && !forced
                && !reclaim.urgent
                && !idle
                && reclaim.gate.reclaim_may_move() == 0
                && reclaim.last_pacing.active
        })
        .await;
    }

    /// Keeps the engine's own unwritten data within the bound that clients keep to.
    pub(crate) async fn wait_while_dirty(&self) -> Result<(), Error> {
        let most = dirty_bytes_max(&self.inner.options);
        self.wait_while(|state| state.failed.is_none() && state.log.dirty_bytes > most).await;
        self.state().failed.clone().map_or(Ok(()), Err)
    }

    /// Walks the whole map and asserts that nothing refers to the zone.
    pub(super) async fn prove_unreferenced(&self, zone: ZoneId) -> Result<(), Error> {
        // A walk with client operations in between could miss a reference that moves behind it;
        // what is absent is loaded first, then one step without an `.await` sees everything.
        loop {
            let outcome = {
                let state = self.state();
                let blocks = state.space.zone_blocks;
                state.map.find_reference(|pba| pba.zone(blocks) == zone)
            };
            match outcome {
                Ok(None) => return Ok(()),
                Ok(Some((leaf, pba))) => {
                    panic!("{zone} is given up, but leaf {} refers to {pba}", leaf.0)
                }
                Err(absent) => self.load_node(absent.0).await?,
            }
        }
    }
}

/// Where in the zone that starts at `start` the extent of a leaf's word lies, if it does. It never
/// lies in two, since records lie between the payloads of any two zones.
#[inline]
fn offset_within(entry: u64, start: Pba, zone_blocks: u64) -> Option<u64> {
    let offset = word::pba(entry)?.0.wrapping_sub(start.0);
    (offset < zone_blocks).then_some(offset)
}

/// Lets other tasks run.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            std::task::Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Groups runs so that each group is moved in one go.
fn slices(runs: &[LiveRun]) -> impl Iterator<Item = &[LiveRun]> {
    let mut rest = runs;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut blocks = 0;
        let count = rest
            .iter()
            .take_while(|run| {
                let fits = blocks < SLICE_BLOCKS;
                blocks += run.blocks;
                fits
            })
            .count();
        let (slice, tail) = rest.split_at(count);
        rest = tail;
        Some(slice)
    })
}

impl State {
    /// Room for relocated blocks: in `wanted`, as long as clients might open a segment for it, or
    /// one is open; else in reclaim's own stream, which has a reserve.
    fn room_for_moved(
        &mut self,
        wanted: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(u8, Pba, u32), Hurdle> {
        for stream in [wanted, RECLAIM_STREAM] {
            if let Ok((at, fit)) = self.log.prepare(&mut self.space, stream, record_bytes, blocks) {
                return Ok((stream, at, fit));
            }
            if self.space.allows(Claim::Client) {
                break; // A segment is being reset or sealed: that is worth waiting for.
            }
        }
        Err(Hurdle::NoRoom(Claim::Reclaim))
    }

    /// Checks leaves that were created or gained references since last asked; those that refer to
    /// a candidate join its index. Returns them all.
    fn index_touched(&mut self) -> Vec<NodeId> {
        let touched = self.map.take_touched();
        let zone_blocks = self.space.zone_blocks;
        for id in &touched {
            match self.map.leaf(*id) {
                Ok(None) => {}
                Ok(Some(leaf)) => {
                    for pba in leaf.extents().filter_map(|(_, _, pba)| pba) {
                        let zone = pba.zone(zone_blocks);
                        self.reclaim.index.add(zone, *id);
                    }
                }
                // Dropped from memory since: it may refer to any, and is loaded when handled.
                Err(_) => self.reclaim.index.add_to_all(*id),
            }
        }
        touched
    }
}
