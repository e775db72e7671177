//! Room in the log for blocks of clients, of reclaim and of the map, in the stream that placement chose.

use mjolnir_map::Map;
use mjolnir_policy::placement::{BlockView, Previous, Source};
use mjolnir_units::{Lba, Pba, TreeId};

use crate::log::{Log, NoFreeSegment};
use crate::placement::Placement;
use crate::space::{CLIENT_STREAM, Claim, Hurdle, RELIEF_STREAM, Space};

/// Where a group has room for a client's blocks.
pub(crate) struct Room {
    pub stream: u8,
    pub at: Pba,
    pub blocks: u32,
}

impl Placement {
    /// The stream for the first blocks of a client's write, and for how many: as far as the policy
    /// has one answer for them.
    pub fn place_client(
        &mut self,
        (map, log, space): (&Map, &Log, &Space),
        tree: TreeId,
        lba: u64,
        blocks: u32,
    ) -> Result<(u8, u32), Hurdle> {
        if let Some(class) = self.client {
            return Ok((self.stream_of(class, Source::Client, tree, lba), blocks));
        }
        let blocks = blocks.min(log.group_blocks_max());
        self.views.clear();
        self.runs.clear();
        map.lookup(tree, Lba(lba), blocks.into(), &mut self.runs)?;
        let runs = std::mem::take(&mut self.runs);
        let mut view = BlockView {
            source: Source::Client,
            volume: tree,
            lba: Lba(lba),
            // What the record of this write will have.
            now_sequence: log.sequence + 1,
            previous: None,
        };
        let mut class = None;
        'blocks: for run in &runs {
            for index in 0..run.blocks {
                let replaced = run.pba.map(|first| first.plus(index));
                view.previous = replaced.and_then(|at| self.previous_of(log, space, at));
                let this = self.policy.place(&view);
                if *class.get_or_insert(this) != this {
                    break 'blocks;
                }
                self.views.push(view);
                view.lba = view.lba.plus(1);
            }
        }
        self.runs = runs;
        let count = self.views.len() as u32;
        let class = class.expect("a write has a block");
        Ok((CLIENT_STREAM + class.0, count))
    }

    /// What is left in the segments that clients append to, on average over them: pacing's
    /// measure glides with it.
    pub fn client_room_blocks(&self, log: &Log) -> u64 {
        if self.client.is_some() {
            return log.room_blocks(self.first_of_clients());
        }
        let streams = CLIENT_STREAM..CLIENT_STREAM + self.streams;
        let rooms = streams.map(|stream| log.room_blocks(stream)).sum::<u64>();
        rooms / u64::from(self.streams)
    }

    fn previous_of(&self, log: &Log, space: &Space, at: Pba) -> Option<Previous> {
        let segment = space.get(space.zone_of(at));
        let offset = at.offset(space.zone_blocks);
        let stream = self.class_at(segment, offset)?;
        let birth_sequence = segment.birth_near(offset, log.sequence);
        Some(Previous { stream, birth_sequence })
    }

    /// Room for a client's blocks: in `stream`, or where no more segments may be opened, wherever
    /// one is open.
    pub fn room_for_client(
        &self,
        log: &mut Log,
        space: &mut Space,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<Room, NoFreeSegment> {
        let mut room = |space: &mut Space, stream| {
            let (at, blocks) = log.allocate(space, stream, record_bytes, blocks)?;
            Ok(Room { stream, at, blocks })
        };
        let none = match room(space, stream) {
            Ok(room) => return Ok(room),
            Err(none) => none,
        };
        if space.allows(Claim::Client) {
            return Err(none);
        }
        let others = CLIENT_STREAM..CLIENT_STREAM + self.streams;
        let mut others = others.filter(|other| *other != stream);
        others.find_map(|other| room(space, other).ok()).ok_or(none)
    }

    /// As [`room_for_client`](Self::room_for_client); where clients have none, a small change has some in
    /// relief's stream, and what frees space has more.
    pub fn room_for(
        &self,
        log: &mut Log,
        space: &mut Space,
        claim: Claim,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<Room, NoFreeSegment> {
        let none = match self.room_for_client(log, space, stream, record_bytes, blocks) {
            Err(none) if claim != Claim::Client => none,
            found => return found,
        };
        log.allocate_as(claim, space, RELIEF_STREAM, record_bytes, blocks)
            .map(|(at, blocks)| Room { stream: RELIEF_STREAM, at, blocks })
            .map_err(|_| none)
    }

    /// Blocks that [`place_client`](Self::place_client) was asked about were appended.
    pub fn placed(&mut self, space: &mut Space, wanted: u8, room: &Room, sequence: u64) {
        let (stream, blocks) = (room.stream, room.blocks);
        if stream != wanted {
            self.displaced_blocks += u64::from(blocks);
        }
        if self.client.is_some() {
            return;
        }
        self.note_births(space, room.at, blocks, sequence, false);
        // None of them, if it is relief's.
        let Some(class) = self.class_of(stream) else { return };
        let Placement { policy, views, .. } = self;
        views[..blocks as usize].iter().for_each(|view| policy.wrote(view, class));
    }

    /// Notes how old the blocks are that were appended at `at`, if that is asked for.
    pub(super) fn note_births(
        &self,
        space: &mut Space,
        at: Pba,
        blocks: u32,
        birth: u64,
        moved: bool,
    ) {
        if self.client.is_none() {
            let zone = space.zone_of(at);
            space.get_mut(zone).births.add(blocks, birth, moved);
        }
    }
}
