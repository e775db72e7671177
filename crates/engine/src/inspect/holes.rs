//! Gaps in the log of a store that is open.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::Pba;

use crate::drive::{Engine, Hole};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The holes whose blocks are still referred to. The other holes are stale, and disappear with
    /// reclaim.
    pub(crate) async fn holes_in_force(&self, mut holes: Vec<Hole>) -> Result<Vec<Hole>, Error> {
        if holes.is_empty() {
            return Ok(holes);
        }
        let mut blocks: Vec<Pba> =
            holes.iter().flat_map(|hole| hole.blocks.clone()).map(Pba).collect();
        blocks.sort();
        let mut hit = vec![false; blocks.len()];
        let whole = self.losses(&blocks, &mut hit, &mut Vec::new()).await?;
        self.note_map_blocks(&blocks, &mut hit).await;
        // If part of the map cannot be read, its references are unknown.
        holes.retain(|hole| {
            let from = blocks.partition_point(|at| at.0 < hole.blocks.start);
            let to = blocks.partition_point(|at| at.0 < hole.blocks.end);
            !whole || hit[from..to].contains(&true)
        });
        Ok(holes)
    }
}
