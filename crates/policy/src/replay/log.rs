//! The log of the replayer: where each block lies, which segments hold what.
//!
//! **Invariants**: a slot is live if the map names it; a segment's live count is the number of its
//! live slots; a stream has one open segment, from its first block on.

use mjolnir_units::{Lba, TreeId, ZoneId};

use super::{NEVER, Place, Replay, ReplayReport, StreamReport, Trigger};
use crate::placement::{BlockView, Previous, ReclaimedSegment, Source, Stream};
use crate::victim::{SegmentView, VictimPolicy, VictimView};

/// No slot, or no segment.
const NONE: u32 = u32::MAX;
/// The one volume of a replay.
const VOLUME: TreeId = TreeId(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Sealed,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    stream: u8,
    used: u32,
    live: u32,
    opened: u64,
    sealed: u64,
    youngest: u64,
}

pub(super) struct Log<P> {
    segment_blocks: u32,
    trigger: Trigger,
    place: P,
    /// Writes of clients so far; the number of the present one while it is under way.
    sequence: u64,
    /// By address: slot, and when a client wrote it.
    map: Vec<u32>,
    births: Vec<u64>,
    /// By address: when it is written next. Empty if nobody asks.
    next_writes: Vec<u64>,
    /// By slot: the address.
    owners: Vec<u32>,
    segments: Vec<Segment>,
    free: Vec<u32>,
    /// The open segment of each stream.
    open: Vec<u32>,
    live_blocks: u64,
    /// Blocks in segments, and those of them that died in sealed ones.
    held_blocks: u64,
    garbage_blocks: u64,
    candidates: Vec<SegmentView>,
    report: ReplayReport,
    segments_sum: f64,
    spare_sum: f64,
}

impl<P: Place> Log<P> {
    pub fn new(replay: &Replay, blocks: usize, place: P, offline: bool) -> Self {
        assert!(replay.segment_blocks > 0, "a segment has blocks");
        let streams = usize::from(place.streams());
        Log {
            segment_blocks: replay.segment_blocks,
            trigger: replay.trigger,
            sequence: 0,
            map: vec![NONE; blocks],
            births: vec![0; blocks],
            next_writes: vec![NEVER; if offline { blocks } else { 0 }],
            owners: Vec::new(),
            segments: Vec::new(),
            free: Vec::new(),
            open: vec![NONE; streams],
            live_blocks: 0,
            held_blocks: 0,
            garbage_blocks: 0,
            candidates: Vec::new(),
            report: Self::empty_report(streams),
            segments_sum: 0.0,
            spare_sum: 0.0,
            place,
        }
    }

    fn empty_report(streams: usize) -> ReplayReport {
        ReplayReport { streams: vec![StreamReport::default(); streams], ..ReplayReport::default() }
    }

    pub fn begin_to_count(&mut self) {
        self.report = Self::empty_report(self.open.len());
        (self.segments_sum, self.spare_sum) = (0.0, 0.0);
    }

    /// A client writes a block.
    pub fn write(&mut self, lba: u32, next_write: u64) {
        self.sequence += 1;
        let previous = self.kill(lba);
        self.births[lba as usize] = self.sequence;
        if let Some(next) = self.next_writes.get_mut(lba as usize) {
            *next = next_write;
        }
        let stream = self.append(Source::Client, lba, previous);
        self.report.client_blocks += 1;
        self.report.streams[stream].client_blocks += 1;
        let held = self.segments_in_use();
        self.segments_sum += held;
        self.spare_sum += 1.0 - self.live_blocks as f64 / (held * f64::from(self.segment_blocks));
    }

    /// A client gives a block up. Nothing happens to one that is not there.
    pub fn trim(&mut self, lba: u32) {
        // `kill` takes it that a write follows: whatever it found, one block less is live then.
        self.kill(lba);
        self.map[lba as usize] = NONE;
        self.live_blocks -= 1;
    }

    /// Half of what is counted has passed.
    pub fn note_middle(&mut self) {
        self.report.first_half_client_blocks = self.report.client_blocks;
        self.report.first_half_moved_blocks = self.report.moved_blocks;
    }

    fn segments_in_use(&self) -> f64 {
        (self.segments.len() - self.free.len()) as f64
    }

    /// The block's version, which is no more.
    fn kill(&mut self, lba: u32) -> Option<Previous> {
        let slot = self.map[lba as usize];
        if slot == NONE {
            self.live_blocks += 1;
            return None;
        }
        let segment = &mut self.segments[(slot / self.segment_blocks) as usize];
        segment.live -= 1;
        self.garbage_blocks += u64::from(segment.state == State::Sealed);
        let birth_sequence = self.births[lba as usize];
        Some(Previous { stream: Stream(segment.stream), birth_sequence })
    }

    /// Puts a block where the policy says.
    fn append(&mut self, source: Source, lba: u32, previous: Option<Previous>) -> usize {
        let block = BlockView {
            source,
            volume: VOLUME,
            lba: Lba(lba.into()),
            now_sequence: self.sequence,
            previous,
        };
        let next = self.next_writes.get(lba as usize).copied().unwrap_or(NEVER);
        let stream = usize::from(self.place.place(&block, next).0);
        if self.open[stream] == NONE {
            self.open[stream] = self.open_segment(stream as u8);
        }
        let number = self.open[stream];
        let segment = &mut self.segments[number as usize];
        let slot = number * self.segment_blocks + segment.used;
        segment.used += 1;
        segment.live += 1;
        segment.youngest = segment.youngest.max(self.births[lba as usize]);
        self.owners[slot as usize] = lba;
        self.map[lba as usize] = slot;
        self.held_blocks += 1;
        if segment.used == self.segment_blocks {
            segment.state = State::Sealed;
            segment.sealed = self.sequence;
            self.garbage_blocks += u64::from(segment.used - segment.live);
            self.open[stream] = NONE;
        }
        stream
    }

    fn open_segment(&mut self, stream: u8) -> u32 {
        let segment = Segment {
            state: State::Open,
            stream,
            used: 0,
            live: 0,
            opened: self.sequence,
            sealed: 0,
            youngest: 0,
        };
        match self.free.pop() {
            Some(number) => {
                self.segments[number as usize] = segment;
                number
            }
            None => {
                self.segments.push(segment);
                let slots = self.segments.len() * self.segment_blocks as usize;
                assert!(slots < NONE as usize, "the replay's log outgrew its addresses");
                self.owners.resize(slots, NONE);
                (self.segments.len() - 1) as u32
            }
        }
    }

    /// Reclaims as the trigger says. False if that cannot go on.
    pub fn reclaim(&mut self, victim: &mut dyn VictimPolicy) -> bool {
        match self.trigger {
            Trigger::Garbage(share) => {
                if self.garbage_blocks as f64 > share * self.held_blocks as f64 {
                    self.reclaim_one(victim, 1.0 - share);
                }
                true
            }
            Trigger::Segments(most) => {
                let mut victims = 0;
                while self.segments_in_use() > f64::from(most) {
                    victims += 1;
                    // More victims than there are segments win nothing.
                    if victims > 2 * self.segments.len() || !self.reclaim_one(victim, 1.0) {
                        return false;
                    }
                }
                true
            }
        }
    }

    /// Moves what is live in the victim, if there is one.
    fn reclaim_one(&mut self, victim: &mut dyn VictimPolicy, threshold: f64) -> bool {
        self.candidates.clear();
        for (number, segment) in (0u32..).zip(&self.segments) {
            if segment.state == State::Sealed && segment.live < segment.used {
                self.candidates.push(SegmentView {
                    zone: ZoneId(number),
                    live_blocks: segment.live.into(),
                    used_blocks: segment.used.into(),
                    capacity_blocks: self.segment_blocks.into(),
                    sealed_sequence: segment.sealed,
                    youngest_sequence: segment.youngest,
                });
            }
        }
        let view = VictimView {
            segments: &self.candidates,
            now_sequence: self.sequence,
            threshold,
            segments_max: 1,
            live_blocks_max: u64::MAX,
        };
        let Some(&ZoneId(number)) = victim.choose(&view).first() else { return false };
        let segment = self.segments[number as usize];
        self.place.reclaimed(&ReclaimedSegment {
            stream: Stream(segment.stream),
            opened_sequence: segment.opened,
            sealed_sequence: segment.sealed,
            now_sequence: self.sequence,
            used_blocks: segment.used.into(),
            live_blocks: segment.live.into(),
        });
        let from = &mut self.report.streams[usize::from(segment.stream)];
        from.victims += 1;
        from.victim_live_blocks += u64::from(segment.live);
        self.report.victims += 1;
        self.report.moved_blocks += u64::from(segment.live);
        let first = number * self.segment_blocks;
        for slot in first..first + segment.used {
            let lba = self.owners[slot as usize];
            if self.map[lba as usize] != slot {
                continue;
            }
            let birth_sequence = self.births[lba as usize];
            let previous = Previous { stream: Stream(segment.stream), birth_sequence };
            let stream = self.append(Source::Reclaim, lba, Some(previous));
            self.report.streams[stream].moved_blocks += 1;
        }
        self.held_blocks -= u64::from(segment.used);
        self.garbage_blocks -= u64::from(segment.used - segment.live);
        self.segments[number as usize].state = State::Free;
        self.free.push(number);
        true
    }

    pub fn report(mut self, stuck: bool) -> ReplayReport {
        let writes = (self.report.client_blocks as f64).max(1.0);
        self.report.segments_mean = self.segments_sum / writes;
        self.report.spare_mean = self.spare_sum / writes;
        self.report.placement_bytes = self.place.memory_bytes();
        self.report.stuck = stuck;
        self.report
    }
}
