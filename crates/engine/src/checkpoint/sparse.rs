//! Empties sparse segments of the map: the next checkpoint rewrites their nodes.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::NodeId;
use mjolnir_store::{Error, ErrorKind};

use crate::drive::{Engine, State};
use crate::format::place::Place;
use crate::memory::dirty_nodes_max;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Marks nodes and pages dirty that lie in mostly dead map segments, so that this checkpoint
    /// moves them and the segments empty: this is how the map's own space is reclaimed. Unless
    /// space is short, it marks only as much as memory has room for; the next checkpoint goes on.
    pub(crate) async fn redirty_sparse_segments(&self) -> Result<(), Error> {
        let sparse = {
            let mut state = self.state();
            state.update_reserve();
            // Opening a store waits for its first checkpoint, which moves nothing while there is
            // free space.
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
        // Leaves with common words may need more space after the move than before. So the sparsest
        // segment goes first, and empties before space runs out. Within a segment, leaves keep
        // their written order: leaves moved together keep their common words.
        let place_of = |state: &State, id: &NodeId| {
            let address = state.map.address(*id)?.0;
            let zone = Place::unpack(address).pba.zone(zone_blocks);
            Some((sparse.iter().position(|other| *other == zone), address))
        };
        let (room, most) = {
            let state = self.state();
            nodes.sort_by_cached_key(|id| place_of(&state, id));
            let room = state.map.unwritten_bytes() as u64 + state.space.moved_bytes_max();
            // Marked nodes stay in memory until they are written. If space is short, freeing it
            // comes first.
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
                // An unreadable node cannot be moved: it stays, and so does its segment.
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
}
