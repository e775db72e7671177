//! Appends moved blocks to the streams that placement chose for them.

use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::drive::State;
use crate::format::record::Record;
use crate::placement::Moved;
use crate::reclaim::relocate::copy::Verified;
use crate::reclaim::victim::LiveRun;
use crate::space::{Claim, Hurdle, RECLAIM_STREAM};

impl State {
    /// Appends as much as fits of a run of `zone`, from its block `done` on. Returns where it lies, how
    /// many blocks that are, and in which group.
    pub(super) fn append_moved(
        &mut self,
        zone: ZoneId,
        Verified { run, bytes, .. }: &Verified<'_>,
        done: u64,
        content: &[u32],
    ) -> Result<(Pba, u64, u64), Hurdle> {
        let LiveRun { at, blocks, owner } = **run;
        let (tree, lba, birth) = (owner.tree, owner.lba + done, owner.birth);
        let record = |blocks: u32| Record::Moved { tree, lba, blocks, birth };
        let record_bytes = record(1).encoded_bytes();
        let at = at.plus(done);
        let offset = at.offset(self.space.zone_blocks);
        let class = self.placement.class_at(self.space.get(zone), offset);
        let block = Moved { tree, lba, at, class, birth };
        let now = self.log.sequence;
        let wanted = self.placement.of_moved(&block, now);
        let (stream, at, fit) =
            self.room_for_moved(wanted, record_bytes, (blocks - done) as u32)?;
        self.placement.moved(&mut self.space, &block, (at, fit), (wanted, stream), now);
        let end = done + u64::from(fit);
        let payload = bytes.slice((done * BLOCK_SIZE) as usize..(end * BLOCK_SIZE) as usize);
        let group = self.log.push_known(stream, record(fit), payload, content, record_bytes);
        Ok((at, u64::from(fit), group))
    }

    /// Room for relocated blocks: in `wanted`, as long as clients might open a segment for it, or
    /// one is open; else in reclaim's own stream, which has a reserve.
    fn room_for_moved(
        &mut self,
        wanted: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(u8, Pba, u32), Hurdle> {
        for stream in [wanted, RECLAIM_STREAM] {
            if let Ok((at, fit)) = self.log.allocate(&mut self.space, stream, record_bytes, blocks)
            {
                return Ok((stream, at, fit));
            }
            if self.space.allows(Claim::Client) {
                break; // A segment is being reset or sealed: that is worth waiting for.
            }
        }
        Err(Hurdle::NoFreeSegment(Claim::Reclaim))
    }
}
