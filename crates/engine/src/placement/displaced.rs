//! The classes of relocated blocks that lie in reclaim's own stream for want of room.
//!
//! The log has no place for a block's class: a segment's stream tells it. Segments of reclaim's own
//! stream hold blocks of several classes, so their classes are kept in memory. After a restart they are
//! not known, and the policy is asked about these blocks as about any of which nothing is known.

use std::collections::BTreeMap;

use mjolnir_policy::placement::Stream;
use mjolnir_units::{Pba, ZoneId};

use crate::space::{SegmentState, Space};

/// Classes by segment. Where they exceed their share of memory, those of the segments that were opened
/// first are forgotten.
pub(super) struct Displaced {
    /// By the segment's incarnation, which no other one has.
    segments: BTreeMap<u64, Classes>,
    /// Runs of all of them.
    runs: usize,
    runs_max: usize,
}

/// The classes of a segment's blocks.
struct Classes {
    zone: ZoneId,
    /// Where each run of one class begins, in order. Headers between two runs belong to the first.
    runs: Vec<(u32, Stream)>,
    /// The block after the last one.
    end: u32,
}

/// Memory of a run, with what a vector has too much room for.
const RUN_BYTES: usize = 2 * size_of::<(u32, Stream)>();

/// Memory of a segment besides its runs, about.
const SEGMENT_BYTES: usize = 2 * size_of::<(u64, Classes)>();

impl Displaced {
    /// As many as fit so many bytes; those of the segment that was opened last in any case.
    pub fn within(bytes: u64) -> Self {
        let runs_max = usize::try_from(bytes).unwrap_or(usize::MAX) / RUN_BYTES;
        Displaced { segments: BTreeMap::new(), runs: 0, runs_max }
    }

    /// Memory that they take, about.
    pub fn bytes(&self) -> u64 {
        (self.runs * RUN_BYTES + self.segments.len() * SEGMENT_BYTES) as u64
    }

    /// Notes the class of blocks that were appended at `at`.
    pub fn note(&mut self, space: &Space, at: Pba, blocks: u32, class: Stream) {
        let zone = space.zone_of(at);
        let incarnation = space.get(zone).incarnation;
        let offset = at.offset(space.zone_blocks) as u32;
        if !self.segments.contains_key(&incarnation) {
            self.forget_gone(space);
        }
        let new = || Classes { zone, runs: Vec::new(), end: 0 };
        let classes = self.segments.entry(incarnation).or_insert_with(new);
        if classes.runs.last().is_none_or(|(_, last)| *last != class) {
            classes.runs.push((offset, class));
            self.runs += 1;
        }
        classes.end = offset + blocks;
        while self.runs > self.runs_max && self.segments.len() > 1 {
            let (_, oldest) = self.segments.pop_first().expect("there are several");
            self.runs -= oldest.runs.len();
        }
    }

    /// The class of the block at `offset` of a segment, if it is known.
    pub fn class_at(&self, incarnation: u64, offset: u64) -> Option<Stream> {
        let classes = self.segments.get(&incarnation)?;
        let before = classes.runs.partition_point(|(at, _)| u64::from(*at) <= offset);
        let (_, class) = classes.runs[before.checked_sub(1)?];
        (offset < u64::from(classes.end)).then_some(class)
    }

    /// Forgets segments that hold nothing any more.
    fn forget_gone(&mut self, space: &Space) {
        self.segments.retain(|incarnation, classes| {
            let segment = space.get(classes.zone);
            segment.incarnation == *incarnation && segment.state != SegmentState::Free
        });
        self.runs = self.segments.values().map(|classes| classes.runs.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Claim, RECLAIM_STREAM};

    const ZONE_BLOCKS: u64 = 64;

    fn space() -> Space {
        let mut space = Space::new(8, ZONE_BLOCKS);
        space.reserve_for_checkpoint(0, 0);
        for zone in (0..8).map(ZoneId) {
            space.push_free(zone);
            let next = space.next_to_reset(|_| false, |_| false);
            if let Some(next) = next {
                space.push_ready(next);
            }
        }
        space
    }

    fn open(space: &mut Space) -> (Pba, u64) {
        let (zone, incarnation) = space.open(Claim::Map, RECLAIM_STREAM).expect("one is ready");
        (zone.start(ZONE_BLOCKS), incarnation)
    }

    #[test]
    fn each_block_has_the_class_of_its_run_and_none_beyond_the_last() {
        let mut space = space();
        let (start, incarnation) = open(&mut space);
        let mut displaced = Displaced::within(1 << 20);
        for (offset, blocks, class) in [(2, 4, 1), (6, 2, 1), (9, 3, 4), (12, 1, 1)] {
            displaced.note(&space, start.plus(offset), blocks, Stream(class));
        }
        let class = |offset| displaced.class_at(incarnation, offset).map(|class| class.0);
        assert_eq!(
            [1, 2, 7, 9, 11, 12, 13].map(class),
            [None, Some(1), Some(1), Some(4), Some(4), Some(1), None]
        );
        assert_eq!(displaced.runs, 3);
        assert_eq!(displaced.class_at(incarnation + 1, 2), None);
    }

    #[test]
    fn segments_that_are_free_again_take_no_memory() {
        let mut space = space();
        let mut displaced = Displaced::within(1 << 20);
        let (first, incarnation) = open(&mut space);
        displaced.note(&space, first, 1, Stream(1));
        space.push_free(space.zone_of(first));
        let (second, _) = open(&mut space);
        displaced.note(&space, second, 1, Stream(2));
        assert_eq!((displaced.segments.len(), displaced.runs), (1, 1));
        assert_eq!(displaced.class_at(incarnation, 0), None);
    }

    #[test]
    fn memory_has_its_bound_and_the_oldest_are_forgotten() {
        let mut space = space();
        let mut displaced = Displaced::within(16 * RUN_BYTES as u64);
        let segments = [open(&mut space), open(&mut space), open(&mut space)];
        for (start, _) in segments {
            (0..8).for_each(|at| displaced.note(&space, start.plus(at), 1, Stream(at as u8)));
        }
        assert_eq!(displaced.runs, 16);
        let known = segments.map(|(_, incarnation)| displaced.class_at(incarnation, 3));
        assert_eq!(known, [None, Some(Stream(3)), Some(Stream(3))]);
    }
}
