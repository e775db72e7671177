//! Writes a checkpoint: the map's dirty nodes, the node table and a manifest go to the log; then
//! the root is written.
//!
//! A checkpoint holds the map as frozen at sequence number S. Clients continue meanwhile. Its
//! blocks lie in the map's stream; the blocks that it supersedes stay until its root is durable.
//! Segments that were retiring when the map was frozen become free with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mjolnir_device::{Device, ErrorKind, Runtime};
use mjolnir_map::{Node, NodeAddress, NodeId};
use mjolnir_store::Error;

use crate::checkpoint::images::Images;
use crate::drive::{Engine, Lack};
use crate::fault;
use crate::format::place::NODES_A_STEP;
use crate::format::root::Root;
use crate::memory::dirty_bytes_max;
use crate::space::MAP_STREAM;
use crate::yielding::yield_now;

/// Rests between attempts to write the root.
const ROOT_RESTS: [Duration; 6] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Takes one checkpoint. On an error the store must fail: the map was frozen.
    ///
    /// If an append fails meanwhile, the frozen map may name addresses at which nothing lies. Then
    /// the map is frozen and written once more, as soon as it is repointed.
    pub(crate) async fn write_checkpoint(&self) -> Result<(), Error> {
        loop {
            self.wait_while(|state| state.failed.is_none() && state.log.is_any_record_refused())
                .await;
            self.state().failed.clone().map_or(Ok(()), Err)?;
            let breaks = self.state().log.breaks;
            let refused = self.redirty_refused().await?;
            self.redirty_sparse_segments().await?;
            self.sweep().await; // Otherwise, freezing the map would sweep it in one step.
            if self.state().log.breaks != breaks {
                continue; // The map names a place that was refused in the meantime.
            }
            let (frozen, moment) = self.state().freeze();
            let sequence = moment.sequence;
            // Addresses that this checkpoint supersedes; their bytes count as live until it is
            // durable.
            let mut superseded: Vec<u64> =
                frozen.released.iter().map(|address| address.0).collect();
            self.write_nodes(frozen.nodes, &mut superseded).await?;
            self.forget_superseded().await?;
            self.write_table_pages(&mut superseded).await?;
            self.state().forget_refused_of_map(&refused);
            let listed = self.state().list(moment, &superseded);
            let bytes = listed.manifest.encode();
            let chunks = self.write_manifests(&bytes).await?;
            if !self.flush_for_root(sequence, breaks).await? {
                self.state().take_back(listed, chunks);
                continue;
            }
            let root = self.state().next_root(sequence, listed.incarnation, bytes.len(), chunks);
            self.write_root(&root).await?;
            self.state().conclude_checkpoint(root, listed.freed, breaks, &self.inner.options);
            break;
        }
        self.inner.release_wanted.notify(1);
        self.inner.reset_wanted.notify(1);
        self.inner.bad_noticed.notify(1);
        self.notify();
        Ok(())
    }

    /// Writes the root. A device that fails is tried again: it may need time, or another place.
    pub(super) async fn write_root(&self, root: &Root) -> Result<(), Error> {
        let bytes = Bytes::from(root.encode());
        let mut rests = ROOT_RESTS.iter();
        loop {
            let Err(error) = self.device().write_root(bytes.clone()).await else { return Ok(()) };
            self.state().note_write_error(&error);
            self.state().doubts += 1;
            self.device().abilities().forgive_failed_flush();
            if error.kind == ErrorKind::Gone && self.state().is_serving {
                self.begin_outage(Lack::Everything, &error);
                self.outlast(false).await?;
                continue;
            }
            match rests.next() {
                Some(rest) => self.runtime().sleep(*rest).await,
                None => return Err(fault::device("writing the store's root", error)),
            }
        }
    }

    /// Writes the map's frozen nodes.
    async fn write_nodes(
        &self,
        nodes: Vec<(NodeId, Arc<Node>)>,
        superseded: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let mut left = nodes.into_iter();
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
            // Written nodes may be evicted now, and those replaced meanwhile are dropped.
            drop(nodes);
            state.keep_within(&self.inner.options);
        }
        Ok(())
    }

    /// Has the map drop nodes that were replaced while they were written: first up to the last one,
    /// then all again, since walkers may have held some.
    async fn forget_superseded(&self) -> Result<(), Error> {
        let begun = self.state().map.forget_superseded(0);
        while self.state().map.forget_superseded(NODES_A_STEP) < begun + 2 {
            self.let_clients_in().await?;
        }
        Ok(())
    }

    /// Writes the changed pages of the node table.
    async fn write_table_pages(&self, superseded: &mut Vec<u64>) -> Result<(), Error> {
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
        Ok(())
    }

    /// A pause in a long checkpoint: other tasks run, and written blocks reach the device.
    async fn let_clients_in(&self) -> Result<(), Error> {
        yield_now().await;
        {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.log.dirty_bytes > dirty_bytes_max(&self.inner.options) {
                // While a store is being opened, no other task sends a group that is not full.
                state.log.close_group(&mut state.space, MAP_STREAM);
            }
        }
        self.submit();
        self.wait_while_dirty().await
    }

    /// Makes everything durable that the checkpoint depends on: its own blocks, and the groups
    /// whose records it contains. Returns whether it did: not if an append failed since there were
    /// `breaks` breaks, of which one of these groups may have been.
    async fn flush_for_root(&self, sequence: u64, breaks: u64) -> Result<bool, Error> {
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
        if self.state().log.breaks != breaks {
            return Ok(false);
        }
        self.flush_device().await?;
        let mut state = self.state();
        state.log.durable = state.log.durable.max(sequence);
        Ok(true)
    }
}
