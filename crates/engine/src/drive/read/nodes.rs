//! Loads map nodes from the medium.
//!
//! Node images lie packed in the payload of the map's groups, each at a multiple of 64 bytes. A
//! *node address* packs the first block, the offset within it, and the length.

use std::future::ready;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{BaseBefore, NodeAddress, NodeId};
use mjolnir_store::Error;
use mjolnir_store::report::ReadPurpose;

use crate::drive::engine::Engine;
use crate::drive::read::pins::Pin;
use crate::drive::state::State;
use crate::fault;
use crate::format::place::{LOST, Place};
use crate::memory::loads_at_once;

/// Keeps a node in memory, until this is dropped.
pub(crate) struct Keep<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    id: NodeId,
}

impl<D: Device, R: Runtime> Keep<D, R> {
    fn new(engine: &Engine<D, R>, state: &mut State, id: NodeId) -> Self {
        state.map.keep(id);
        Keep { engine: engine.clone(), id }
    }
}

impl<D: Device, R: Runtime> Drop for Keep<D, R> {
    fn drop(&mut self) {
        self.engine.state().map.unkeep(self.id);
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Loads the absent ones among the nodes, several at a time. Yields each with its [`Keep`], in
    /// the order of completion.
    pub(crate) fn load_nodes(
        &self,
        ids: impl IntoIterator<Item = NodeId>,
    ) -> impl Stream<Item = Result<Keep<D, R>, Error>> {
        let absent: Vec<NodeId> = {
            let state = self.state();
            ids.into_iter().filter(|id| state.map.is_absent(*id)).collect()
        };
        let most = loads_at_once(&self.inner.options);
        stream::iter(absent).map(|id| self.load_node(id)).buffer_unordered(most)
    }

    /// Called before the `index`-th of several nodes is visited in turn: loads it and the next ones
    /// together, instead of one read for each. Read errors are ignored here; the visitor finds
    /// them.
    pub(crate) async fn load_ahead(&self, ids: &[NodeId], index: usize) {
        let most = loads_at_once(&self.inner.options);
        if index.is_multiple_of(most) {
            let ahead = ids[index..].iter().copied().take(most);
            self.load_nodes(ahead).for_each(|_| ready(())).await;
        }
    }

    /// Loads a node, and keeps it in memory until the [`Keep`] is dropped. Does nothing if the node
    /// was loaded meanwhile, or is gone.
    pub(crate) async fn load_node(&self, id: NodeId) -> Result<Keep<D, R>, Error> {
        let (keep, address) = {
            let mut state = self.state();
            (Keep::new(self, &mut state, id), state.map.address(id).map(|a: NodeAddress| a.0))
        };
        let Some(address) = address else { return Ok(keep) };
        if address == LOST {
            return Err(fault::damaged(format!(
                "the place of node {} of the map is unknown: its page of the node table was lost",
                id.0
            )));
        }
        let place = Place::unpack(address);
        let zone_blocks = self.state().info.zone_blocks;
        // The pin also keeps the base image that this image refers to.
        let _pin = Pin::new(self, &mut self.state(), place.pba.zone(zone_blocks));
        let bytes = self.read_verified(ReadPurpose::Map, place.pba, place.blocks()).await?;
        self.state().keep_within(&self.inner.options);
        let image = &bytes[place.offset as usize..(place.offset + place.bytes) as usize];
        let base = match BaseBefore::of(image) {
            None => Bytes::new(),
            Some(base) => {
                let base = place.base(base, zone_blocks).map_err(|why| {
                    fault::damaged(format!("node {} of the map, at {}, {why}", id.0, place.pba))
                })?;
                let read = self.read_verified(ReadPurpose::Map, base.pba, base.blocks()).await?;
                read.slice(base.offset as usize..(base.offset + base.bytes) as usize)
            }
        };
        let mut state = self.state();
        state.counters.nodes_loaded += 1;
        if state.map.address(id).map(|a| Place::unpack(a.0)) != Some(place) {
            return Ok(keep); // Freed, or rewritten and in memory.
        }
        state.map.install_at(id, image, Some(place.byte()), &base).map_err(|why| {
            fault::damaged(format!(
                "node {} of the map, at {}, differs from what was written there: {why}",
                id.0, place.pba
            ))
        })?;
        Ok(keep)
    }
}

impl crate::drive::State {
    /// The packed address of every node in the durable node table.
    pub fn durable_table(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.map.pages())
            .flat_map(|page| self.map.table_page(page))
            .filter(|packed| *packed != 0 && *packed != LOST)
    }
}
