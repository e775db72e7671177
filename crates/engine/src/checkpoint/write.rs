//! Checkpoints: the map's dirty nodes, the node table, and a manifest, written to the log; then
//! the root.
//!
//! A checkpoint holds the map as it was when frozen, at sequence number S. Clients go on
//! meanwhile. What it writes lies in the map's stream; what it supersedes stays until its root is
//! durable. Segments that were retiring when the map was frozen become free with it.

use bytes::Bytes;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{NodeAddress, NodeId};
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_SIZE, ZoneId};

use crate::checkpoint::images::Images;
use crate::drive::Engine;
use crate::fault;
use crate::format::manifest::TreeEntry;
use crate::format::place::{LOST, NODES_A_STEP, Place};
use crate::format::root::Root;
use crate::memory::dirty_bytes_max;
use crate::space::{MAP_STREAM, SegmentState};
use crate::yielding::yield_now;

impl<D: Device, R: Runtime> Engine<D, R> {
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
