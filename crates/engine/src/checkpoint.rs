//! Checkpoints: the map's dirty nodes, the node table, and a manifest, written to the log; then
//! the root.
//!
//! A checkpoint holds the map as it was when frozen, at sequence number S. Clients go on
//! meanwhile. What it writes lies in the map's stream; what it supersedes stays until its root is
//! durable. Segments that were retiring when the map was frozen become free with it.

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_map::{NodeAddress, NodeId};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::engine::{Engine, Hurdle, State};
use crate::fault;
use crate::format::manifest::{Manifest, SegmentEntry, TreeEntry};
use crate::format::root::{MANIFEST_CHUNKS_MAX, Root};
use crate::images::Images;
use crate::memory::{dirty_bytes_max, dirty_nodes_max};
use crate::node_io::{LOST, Place};
use crate::options::OpenOptions;
use crate::reclaim::yield_now;
use crate::space::{Claim, MAP_STREAM, SegmentState};

/// What the checkpoint task keeps between runs.
#[derive(Default)]
pub(crate) struct CheckpointState {
    /// Counts durable checkpoints of the store's life.
    pub number: u64,
    /// The random number of this opening of the store.
    pub opening: u64,
    /// Checkpoints begun and ended since opening; waiters compare them.
    pub begun: u64,
    pub ended: u64,
    pub running: bool,
    /// Bytes that the running one has still to write for the nodes that it has frozen, at most.
    pub pending_bytes: u64,
    /// Bytes that lie in sparse segments of the map, out of which the next ones will move them.
    sparse_bytes: u64,
    /// Someone wants one as soon as may be.
    pub wanted: bool,
    /// The root as it was written last, by this opening of the store.
    pub root: Option<Root>,
    /// The root is to be written again, with how much is durable.
    pub promise_wanted: bool,
    /// Whether the task that sees to that knows that more is durable than the root says.
    pub promise_watched: bool,
}

impl CheckpointState {
    /// Of an opening of the store with this random number.
    pub fn new(opening: u64) -> Self {
        CheckpointState { opening, ..CheckpointState::default() }
    }

    /// Whether the next checkpoint can win space by moving what lives in sparse map segments.
    pub fn is_compacting(&self) -> bool {
        self.sparse_bytes > 0
    }
}

/// What recovery takes for a record in memory at most, in bytes, and how many a log may have whatever
/// the budget.
const RECORD_BYTES: u64 = 256;
const RECORDS_LEAST: u64 = 256 << 10;
/// Bytes that a checkpoint should free for each that it writes, where there is no hurry.
const WON_FOR_WRITTEN: u64 = 16;
/// Nodes (and pages of the node table) per trip to the log: clients get their turn in between.
pub(crate) const NODES_A_STEP: usize = 128;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Takes a checkpoint now and waits until it is durable. Recovery begins from the newest.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        let begun = {
            let mut state = self.state();
            if state.stopping {
                return Err(Error::new(ErrorKind::Closed, "the store is shut down"));
            }
            state.checkpoint.wanted = true;
            state.checkpoint.begun
        };
        self.inner.checkpoint_wanted.notify(1);
        self.wait_while(|state| state.failed.is_none() && state.checkpoint.ended <= begun).await;
        self.state().failed.clone().map_or(Ok(()), Err)
    }

    /// The task that takes checkpoints when they are due.
    pub(crate) async fn checkpoint_task(self) {
        loop {
            let listener = self.inner.checkpoint_wanted.listen();
            let (ends, due, promise) = {
                let mut state = self.state();
                let due = state.checkpoint_due(&self.inner.options);
                let ends = state.failed.is_some() || (state.stopping && !due);
                (ends, due, state.checkpoint.promise_wanted)
            };
            if ends {
                return;
            }
            let written = match (due, promise) {
                (true, _) => self.write_checkpoint().await,
                (false, true) => self.write_promise().await,
                (false, false) => {
                    listener.await;
                    continue;
                }
            };
            if let Err(error) = written {
                self.fail(error);
            }
        }
    }

    /// The whole of one checkpoint. On an error the store must fail: the map was frozen.
    pub(crate) async fn write_checkpoint(&self) -> Result<(), Error> {
        self.redirty_sparse_segments().await?;
        self.sweep().await; // Else freezing the map would do it in one step.
        let (frozen, sequence, mut scan, retiring, trees, prepared, next_tree, closed) = {
            let mut guard = self.state();
            let state = &mut *guard;
            state.checkpoint.begun += 1;
            state.checkpoint.wanted = false;
            state.checkpoint.running = true;
            state.checkpoint.pending_bytes = state.map.unwritten_bytes() as u64;
            let frozen = state.map.freeze();
            state.log.since_checkpoint = 0;
            state.log.records_since_checkpoint = 0;
            state.space.opened.clear();
            let trees: Vec<TreeEntry> = frozen
                .roots
                .iter()
                .filter_map(|(tree, root)| {
                    let entry = state.catalog.get(*tree)?;
                    Some(TreeEntry {
                        tree: *tree,
                        kind: entry.kind.clone(),
                        created: entry.created,
                        short: entry.short,
                        root: mjolnir_map::root_encode(root).to_vec(),
                    })
                })
                .collect();
            assert_eq!(trees.len(), frozen.roots.len(), "a tree of the map is in no catalog");
            let retiring: Vec<ZoneId> = state
                .space
                .zones()
                .filter(|(_, segment)| segment.state == SegmentState::Retiring)
                .map(|(zone, _)| zone)
                .collect();
            (
                frozen,
                state.log.sequence,
                state.log.open_zones(),
                retiring,
                trees,
                state.prepared.clone(),
                state.catalog.peek_next(),
                state.closing,
            )
        };
        // Addresses that this checkpoint supersedes; their bytes are live until it is durable.
        let mut superseded: Vec<u64> = frozen.released.iter().map(|address| address.0).collect();
        let mut left = frozen.nodes.into_iter();
        while left.len() > 0 {
            let nodes: Vec<_> = left.by_ref().take(NODES_A_STEP).collect();
            let images = Images::of_nodes(&self.state().buffers, &nodes);
            self.let_clients_in().await?;
            let placed = self.write_images(images).await?;
            let mut guard = self.state();
            let state = &mut *guard;
            let bytes = mjolnir_map::unwritten_bytes_of(&nodes, left.as_slice().first()) as u64;
            state.checkpoint.pending_bytes = state.checkpoint.pending_bytes.saturating_sub(bytes);
            for (id, place) in placed {
                state.space.add_map_bytes(place, 1);
                superseded.extend(state.map.placed(id, NodeAddress(place.pack())).map(|a| a.0));
            }
            // What was written may leave memory, and what of it was replaced meanwhile does.
            drop(nodes);
            state.keep_within(&self.inner.options);
        }
        // On to the last one and then all, with whoever else looks at some of them meanwhile.
        let begun = self.state().map.forget_superseded(0);
        while self.state().map.forget_superseded(NODES_A_STEP) < begun + 2 {
            self.let_clients_in().await?;
        }
        let pages: Vec<_> = {
            let mut state = self.state();
            let dirty = state.map.dirty_pages();
            dirty.into_iter().map(|page| (page, state.map.table_page(page))).collect()
        };
        for (index, (page, words)) in pages.into_iter().enumerate() {
            if index % NODES_A_STEP == 0 {
                self.let_clients_in().await?;
            }
            let bytes = size_of_val(&words);
            let mut images = Images::of(&self.state().buffers, [bytes].into_iter());
            images.add(NodeId(page), bytes, |out| {
                for (out, word) in out.chunks_exact_mut(8).zip(words) {
                    out.copy_from_slice(&word.to_le_bytes());
                }
            });
            let placed = self.write_images(images).await?;
            let mut state = self.state();
            for (_, place) in placed {
                state.space.add_map_bytes(place, 1);
                let slots = &mut state.table.pages;
                slots.resize(slots.len().max(page as usize + 1), 0);
                let old = std::mem::replace(&mut slots[page as usize], place.pack());
                superseded.extend((old != 0).then_some(old));
            }
        }
        // The manifest describes the segments as they are now, in one step: nothing is opened
        // out of order between this and the root, because only what it lists may be opened.
        let (manifest, freed, incarnation) = {
            let mut guard = self.state();
            let state = &mut *guard;
            scan.extend_from_slice(&state.space.opened);
            scan.sort();
            scan.dedup();
            for place in superseded.iter().filter(|place| **place != LOST) {
                state.space.add_map_bytes(Place::unpack(*place), -1);
            }
            let old_manifest = std::mem::take(&mut state.table.manifest);
            for (pba, blocks) in &old_manifest {
                let bytes = u64::from(*blocks) * BLOCK_SIZE;
                state.space.add_map_bytes(Place { pba: *pba, offset: 0, bytes }, -1);
            }
            let mut freed = retiring;
            freed.extend(state.space.empty_map_segments());
            freed.extend(state.space.take_grown());
            let mut manifest = state.manifest(&scan, &freed, trees, prepared, next_tree);
            manifest.closed = closed;
            (manifest, freed, state.space.incarnation)
        };
        let bytes = manifest.encode();
        let chunks = self.write_manifests(&bytes).await?;
        self.flush_for_root(sequence).await?;
        let root = {
            let mut state = self.state();
            state.checkpoint.promise_wanted = false;
            Root {
                uuid: state.info.uuid,
                zone_blocks: state.info.zone_blocks,
                checkpoint: state.checkpoint.number + 1,
                epoch: state.log.epoch,
                sequence,
                incarnation,
                manifest_bytes: bytes.len() as u64,
                manifest: chunks.clone(),
                durable: state.log.durable,
                opening: state.checkpoint.opening,
            }
        };
        self.device()
            .write_root(Bytes::from(root.encode()))
            .await
            .map_err(|error| fault::device("writing the store's root", error))?;
        {
            let mut guard = self.state();
            let state = &mut *guard;
            state.checkpoint.number += 1;
            state.checkpoint.root = Some(root);
            state.space.roots += 1;
            state.checkpoint.ended = state.checkpoint.begun;
            state.checkpoint.running = false;
            state.checkpoint.pending_bytes = 0;
            state.counters.checkpoints += 1;
            state.table.manifest = chunks;
            for zone in freed {
                // One that the device has grown by was never in use.
                let was_used = state.space.get(zone).used > 0;
                state.space.freed_total += u64::from(was_used);
                state.space.push_free(zone);
            }
            state.log.durable = state.log.durable.max(sequence);
            state.update_reserve();
            state.keep_within(&self.inner.options);
        }
        self.inner.release_wanted.notify(1);
        self.inner.reset_wanted.notify(1);
        self.notify();
        Ok(())
    }

    /// A pause in a long checkpoint: other tasks run, and what was written reaches the device.
    async fn let_clients_in(&self) -> Result<(), Error> {
        yield_now().await;
        {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.log.dirty_bytes > dirty_bytes_max(&self.inner.options) {
                // While a store is being opened, nobody else sends a group that is not full.
                state.log.close_group(&mut state.space, MAP_STREAM);
            }
        }
        self.submit();
        self.wait_while_dirty().await
    }

    /// Marks nodes and pages dirty that lie in map segments which are mostly dead, so that this
    /// checkpoint moves them and the segments empty: reclaim of the map's own space. As much as memory has
    /// room for, unless space is short; the next checkpoint goes on.
    async fn redirty_sparse_segments(&self) -> Result<(), Error> {
        let sparse = {
            let mut state = self.state();
            state.update_reserve();
            // Opening a store waits for its first checkpoint, which moves nothing while there is
            // room.
            let opening = state.checkpoint.begun == 0;
            match opening && state.space.free_count() > 2 * state.space.reserve() {
                true => Vec::new(),
                false => state.space.sparse_map_segments(state.space.compaction_bytes()),
            }
        };
        if sparse.is_empty() {
            return Ok(());
        }
        let zone_blocks = self.state().info.zone_blocks;
        let inside = |packed: u64| {
            packed != 0 && sparse.contains(&Place::unpack(packed).pba.zone(zone_blocks))
        };
        let mut nodes = self.state().map.nodes_at(|address| inside(address.0));
        // Leaves with words in common may take more to be moved than they have here: the sparsest
        // segment first, so that it empties before there is no room for more. And each segment in the
        // order that was written: what is in common stays so where leaves are moved together.
        let place_of = |state: &State, id: &NodeId| {
            let address = state.map.address(*id)?.0;
            let zone = Place::unpack(address).pba.zone(zone_blocks);
            Some((sparse.iter().position(|other| *other == zone), address))
        };
        let (room, most) = {
            let state = self.state();
            nodes.sort_by_cached_key(|id| place_of(&state, id));
            let room = state.map.unwritten_bytes() as u64 + state.space.moved_bytes_max();
            // They stay in memory until they are written. Where space is short it comes first.
            let is_short = state.space.free_count() <= 2 * state.space.reserve();
            (room, if is_short { u64::MAX } else { dirty_nodes_max(&self.inner.options) })
        };
        let mut marked = 0;
        for (index, id) in nodes.iter().copied().enumerate() {
            self.load_ahead(&nodes, index).await;
            let fits = self
                .step(|state| {
                    let before = state.map.unwritten_bytes() as u64;
                    if before >= room || marked >= most {
                        return Ok(false);
                    }
                    state.map.redirty(id)?;
                    marked += state.map.unwritten_bytes() as u64 - before;
                    Ok(true)
                })
                .await;
            match fits {
                Ok(true) => {}
                Ok(false) => break,
                // What cannot be read cannot be moved: it stays, and so does its segment.
                Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::Io) => {}
                Err(error) => return Err(error),
            }
        }
        let mut state = self.state();
        let pages: Vec<u32> =
            (0u32..).zip(&state.table.pages).filter(|(_, p)| inside(**p)).map(|(i, _)| i).collect();
        for page in pages {
            state.map.redirty_page(page);
        }
        Ok(())
    }

    /// Writes the manifest, and a copy where the root has room to name it: nothing else is as
    /// precious. Returns the chunks of the one and then of the other.
    async fn write_manifests(&self, bytes: &[u8]) -> Result<Vec<(Pba, u32)>, Error> {
        let mut chunks = self.write_manifest(bytes).await?;
        if 2 * chunks.len() > MANIFEST_CHUNKS_MAX / 2 {
            return Ok(chunks);
        }
        let copy = self.write_manifest(bytes).await?;
        if chunks.len() + copy.len() <= MANIFEST_CHUNKS_MAX {
            chunks.extend(copy);
        } else {
            let mut state = self.state();
            for (pba, blocks) in copy {
                let bytes = u64::from(blocks) * BLOCK_SIZE;
                state.space.add_map_bytes(Place { pba, offset: 0, bytes }, -1);
            }
        }
        Ok(chunks)
    }

    async fn write_manifest(&self, bytes: &[u8]) -> Result<Vec<(Pba, u32)>, Error> {
        let mut padded = AlignedBuf::zeroed(bytes.len().next_multiple_of(BLOCK_BYTES));
        padded.as_mut()[..bytes.len()].copy_from_slice(bytes);
        let mut rest = padded.freeze();
        let mut chunks: Vec<(Pba, u32)> = Vec::new();
        while !rest.is_empty() {
            let (at, fit) = self
                .step(|state| {
                    let wanted = (rest.len() / BLOCK_BYTES) as u32;
                    let (at, fit) = state
                        .log
                        .prepare(&mut state.space, MAP_STREAM, 0, wanted)
                        .map_err(|_| Hurdle::NoRoom(Claim::Map))?;
                    let bytes = u64::from(fit) * BLOCK_SIZE;
                    state.log.push_bare(MAP_STREAM, rest.slice(..bytes as usize));
                    state.space.add_map_bytes(Place { pba: at, offset: 0, bytes }, 1);
                    Ok((at, fit))
                })
                .await?;
            rest = rest.slice(fit as usize * BLOCK_BYTES..);
            chunks.push((at, fit));
        }
        if chunks.len() > MANIFEST_CHUNKS_MAX {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the store's manifest is too long for its root; use larger segments",
            ));
        }
        Ok(chunks)
    }

    /// Makes everything durable that the checkpoint stands on: its own blocks, and the groups
    /// whose records it contains.
    async fn flush_for_root(&self, sequence: u64) -> Result<(), Error> {
        let last = {
            let mut guard = self.state();
            let state = &mut *guard;
            state.log.close_groups(&mut state.space);
            state.log.last_group()
        };
        self.submit();
        self.wait_while(|state| state.failed.is_none() && state.log.waits_for_group(last)).await;
        let failed = self.state().failed.clone();
        if let Some(error) = failed {
            return Err(error);
        }
        self.device().flush().await.map_err(|error| fault::device("flushing the device", error))?;
        let mut state = self.state();
        state.counters.device_flushes += 1;
        state.log.durable = state.log.durable.max(sequence);
        Ok(())
    }
}

impl State {
    /// Whether a checkpoint should be taken: asked for, much log, much dirty map, or retiring
    /// segments that are worth it while free ones are few.
    fn checkpoint_due(&mut self, options: &OpenOptions) -> bool {
        self.update_reserve();
        let frees = self.space.count(SegmentState::Retiring);
        let few = self.space.free_count() < 2 * self.space.reserve() + frees;
        // What a checkpoint writes is the price of what it frees. Where clients leave time for it,
        // enough retires first to make the price small.
        let room = self.space.free_count().saturating_sub(self.space.reserve());
        let hurried = room < 2 + self.space.checkpoint_least();
        let cheap =
            frees as u64 * self.space.payload_bytes() >= WON_FOR_WRITTEN * self.checkpoint_bytes();
        let worth = frees > 0 && (hurried || cheap);
        // Reserving more than an eighth of the store for a checkpoint is a sign to take one.
        let dirty = self.space.checkpoint_reserve() > 2 + self.space.segments.len() / 8;
        // Dirty nodes cannot leave memory before they are written, whoever made them so: reclaim
        // logs nothing that would count.
        let heavy = self.map.unwritten_bytes() as u64 > dirty_nodes_max(options);
        let idle = self.log.sequence == self.log.durable && self.log.since_checkpoint == 0;
        self.checkpoint.wanted
            || heavy
            || self.is_log_long(options)
            || (dirty && !idle)
            || (few && worth)
            || (self.is_squeezed() && !idle)
    }

    /// Whether replaying the log would take as long as it may, or as much memory: recovery holds all of
    /// its records, and those of small trims are many.
    pub fn is_log_long(&self, options: &OpenOptions) -> bool {
        let records_max = (options.memory_bytes / 4 / RECORD_BYTES).max(RECORDS_LEAST);
        self.log.since_checkpoint >= options.checkpoint_bytes
            || self.log.records_since_checkpoint >= records_max
    }

    /// Looks at the map's segments anew, and follows with the reserve.
    pub fn update_reserve(&mut self) {
        self.checkpoint.sparse_bytes = self.space.sparse_map_bytes();
        self.follow_reserve();
    }

    /// Follows the dirty part of the map with the segments kept for its checkpoint. Cheap: called
    /// after every step, since each may have made nodes dirty.
    pub fn follow_reserve(&mut self) {
        let bytes = self.checkpoint_bytes();
        self.space.reserve_for_checkpoint(bytes, self.checkpoint.sparse_bytes);
    }

    /// Bytes that a checkpoint has to write at most, but for what it moves to save space.
    fn checkpoint_bytes(&self) -> u64 {
        let (segments, trees) = (self.space.segments.len(), self.catalog.len());
        let pages = self.map.pages() as usize;
        // A prepared vector is at most a block, a tree's entry with its names some 200 bytes.
        let manifest = 40 * segments + 200 * trees + 8 * pages + 4096 * (1 + self.prepared.len());
        // Any page of the node table may have to be written again for one node.
        let tables = pages * mjolnir_map::TABLE_PAGE * 8;
        self.undurable_map_bytes() + (tables + 2 * manifest) as u64
    }

    /// Bytes of nodes that a checkpoint, running or next, has to write.
    pub fn undurable_map_bytes(&self) -> u64 {
        self.map.unwritten_bytes() as u64 + self.checkpoint.pending_bytes
    }

    /// Whether room is short, and a good part of it is kept for what is dirty.
    pub fn is_squeezed(&self) -> bool {
        self.space.free_count() <= self.space.reserve() + 1
            && self.map.unwritten_bytes() as u64 > self.space.payload_bytes() / 2
    }

    fn manifest(
        &self,
        scan: &[ZoneId],
        freed: &[ZoneId],
        trees: Vec<TreeEntry>,
        prepared: Vec<(mjolnir_units::TreeId, Vec<crate::format::record::Remap>)>,
        next_tree: u32,
    ) -> Manifest {
        let segments = self
            .space
            .zones()
            .filter(|(zone, segment)| segment.state != SegmentState::Free && !freed.contains(zone))
            .map(|(zone, segment)| SegmentEntry {
                zone,
                stream: segment.stream,
                incarnation: segment.incarnation,
                used: segment.used,
                payload: segment.payload,
                footer: segment.footer,
                sealed: segment.sealed,
            })
            .collect();
        let mut free = self.space.free_order();
        free.extend_from_slice(freed);
        Manifest {
            zones: self.space.segments.len() as u32,
            next_tree,
            closed: false,
            segments,
            free,
            scan: scan.to_vec(),
            trees,
            prepared,
            pages: self.table.pages.clone(),
        }
    }
}
