//! The step of a write: allocates space in a stream, maps the blocks, logs the record.

use bytes::Bytes;
use mjolnir_map::Run;
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_BYTES, Lba, Pba, TreeId};

use crate::drive::state::State;
use crate::format::record::Record;
use crate::space::{Claim, Hurdle};

/// Bytes of a write record in a group header: kind, tree, lba, blocks and sequence number.
const WRITE_RECORD_BYTES: usize = 1 + 4 + 8 + 4 + 4;

/// The version of a block: its address and its segment's incarnation. A later incarnation may hold
/// another version at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub pba: Pba,
    incarnation: u64,
}

pub(crate) fn shrunk() -> Error {
    Error::new(
        mjolnir_store::ErrorKind::Invalid,
        "the volume was shrunk during a write past its new end",
    )
}

impl State {
    /// The block's current version.
    pub fn version_of(&mut self, tree: TreeId, lba: u64) -> Result<Option<Version>, Hurdle> {
        if self.map.blocks(tree).is_none_or(|size| lba >= size) {
            return Err(shrunk().into());
        }
        let mut runs: Vec<Run> = Vec::new();
        self.map.lookup(tree, Lba(lba), 1, &mut runs)?;
        let version = |pba| {
            let incarnation = self.space.get(self.space.zone_of(pba)).incarnation;
            Version { pba, incarnation }
        };
        Ok(runs.first().and_then(|run| run.pba).map(version))
    }

    /// Accepts as many blocks of `data` as share a placement and fit the current group: record,
    /// payload and map, in one step. Returns the number of blocks, and the record's sequence
    /// number.
    pub fn write_step(
        &mut self,
        claim: Claim,
        tree: TreeId,
        lba: u64,
        data: &Bytes,
    ) -> Result<(u64, u64), Hurdle> {
        let blocks = (data.len() / BLOCK_BYTES) as u32;
        if self.space.needs_checkpoint(claim) {
            return Err(Hurdle::CheckpointFirst(claim));
        }
        let State { map, log, space, placement, .. } = self;
        let (stream, alike) = placement.place_client((map, log, space), tree, lba, blocks)?;
        let room = placement
            .room_for(log, space, claim, stream, WRITE_RECORD_BYTES, alike)
            .map_err(|_| Hurdle::NoFreeSegment(claim))?;
        let fit = room.blocks;
        map.write(tree, Lba(lba), room.at, u64::from(fit))?;
        log.push(
            room.stream,
            Record::Write { tree, lba, blocks: fit },
            data.slice(..fit as usize * BLOCK_BYTES),
            WRITE_RECORD_BYTES,
        );
        placement.placed(space, stream, &room, log.sequence);
        self.counters.client_write_blocks += u64::from(fit);
        Ok((u64::from(fit), self.log.sequence))
    }
}
