//! Segments: their states (free, open, sealed, retiring), and the claims on the last free ones.

mod bad;
mod births;
mod free;
mod hurdle;
mod limits;
mod map_segments;
mod node_table;
mod reserve;
mod retry;
mod streams;

pub(crate) use bad::PASSED_OVER_MAX;
pub(crate) use free::ORDER_SLACK;
pub(crate) use hurdle::Hurdle;
pub use limits::SEGMENTS_MIN;
pub(crate) use limits::{SEGMENT_BLOCKS_MIN, check_segments};
pub(crate) use node_table::NodeTableMedia;
pub(crate) use reserve::Claim;
pub use reserve::RESERVE_SEGMENTS_MIN;
pub(crate) use retry::{Retry, Stuck};
pub(crate) use streams::{CLIENT_STREAM, MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mjolnir_units::{Pba, ZoneId};

use crate::space::bad::Bad;
use crate::space::births::Births;

/// A segment's state, in the order of its life: free → open → sealed → retiring → free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Holds nothing that any durable checkpoint needs.
    Free,
    /// Being appended to.
    Open,
    /// Immutable.
    Sealed,
    /// The current map does not refer to it, but a durable checkpoint may.
    Retiring,
    /// Holds nothing, and is not used, because the device failed to write to it.
    Bad,
}

/// One segment's state and counts.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub state: SegmentState,
    pub stream: u8,
    pub incarnation: u64,
    /// Blocks in use: headers, payload and footer.
    pub used: u32,
    /// Of those, blocks of payload.
    pub payload: u32,
    /// Offset of the footer; 0 for none.
    pub footer: u32,
    /// Log sequence number at its opening; `None` if it was opened before the store was.
    pub opened: Option<u64>,
    /// Log sequence number at its sealing.
    pub sealed: u64,
    /// The age of its blocks, if a placement policy uses it.
    pub births: Births,
    /// Live blocks by the last mark; `None` if the segment was not sealed when that mark began.
    pub live: Option<u32>,
    /// Why reclaim could not empty the segment, if it failed to.
    pub stuck: Option<Stuck>,
    /// When reclaim retries the segment, if the device failed at the last attempt.
    pub retry: Option<Retry>,
    /// Live bytes of node images, table pages and manifests, for the map's stream.
    pub map_bytes: u64,
    /// Reads under way; the zone is not reset before they end.
    pub pins: u32,
    /// Of a free segment: the number of roots that were durable when it became free.
    pub freed: u64,
    /// Of a free segment: whether its bytes were returned to the host.
    pub released: bool,
}

impl Segment {
    fn free() -> Self {
        Segment {
            state: SegmentState::Free,
            stream: 0,
            incarnation: 0,
            used: 0,
            payload: 0,
            footer: 0,
            opened: None,
            sealed: 0,
            births: Births::default(),
            live: None,
            stuck: None,
            retry: None,
            map_bytes: 0,
            pins: 0,
            freed: 0,
            released: false,
        }
    }
}

/// All segments of a store.
pub(crate) struct Space {
    pub zone_blocks: u64,
    pub segments: Vec<Segment>,
    /// Free in the durable checkpoint, in the order of its list; not reset yet.
    free: VecDeque<ZoneId>,
    /// Taken from the front of `free`, and being reset. Still listed as free, and first in the
    /// order: a manifest without it would hide the records soon logged in it.
    resetting: Option<ZoneId>,
    /// Taken from the front of `free` and reset: can be opened at once.
    ready: VecDeque<ZoneId>,
    /// Free segments that are being returned to the host; they are not reset meanwhile.
    pub releasing: BTreeSet<ZoneId>,
    /// Roots made durable since the store was opened.
    pub roots: u64,
    /// The highest incarnation given out.
    pub incarnation: u64,
    /// Segments that the device failed to write to.
    bad: BTreeMap<ZoneId, Bad>,
    /// How often those failed that were taken back into use since.
    forgiven: BTreeMap<ZoneId, u8>,
    /// Free segments passed over since a root became durable.
    passed_over: usize,
    /// Added to the device, or taken back into use, and free in no durable checkpoint yet.
    grown: Vec<ZoneId>,
    /// Number of zones reported by the last completed growth, or by the checkpoint that the store
    /// was opened from. The device may have more, after an interrupted growth.
    pub told_zones: u32,
    /// Zones opened since the map was last frozen for a checkpoint.
    pub opened: Vec<ZoneId>,
    /// Segments reserved for a checkpoint; updated with the size of the map's dirty part.
    checkpoint_reserve: usize,
    /// Segments that clients also leave free, for checkpoints that compact the map.
    compaction_reserve: usize,
    /// Whether reclaim has a segment open, and whether relief has: that part of their reserve is in
    /// use.
    reclaim_open: bool,
    relief_open: bool,
    /// Whether reserves are ignored: the records being logged fitted when the server that died
    /// accepted them.
    rescuing: bool,
    pub allocated_total: u64,
    /// Segments that clients have opened.
    pub client_segments_opened: u64,
    pub freed_total: u64,
}

impl Space {
    pub fn new(zones: u32, zone_blocks: u64) -> Self {
        Space {
            zone_blocks,
            segments: vec![Segment::free(); zones as usize],
            free: VecDeque::new(),
            resetting: None,
            ready: VecDeque::new(),
            releasing: BTreeSet::new(),
            roots: 0,
            incarnation: 0,
            bad: BTreeMap::new(),
            forgiven: BTreeMap::new(),
            passed_over: 0,
            grown: Vec::new(),
            told_zones: zones,
            opened: Vec::new(),
            checkpoint_reserve: 2,
            compaction_reserve: 1,
            reclaim_open: false,
            relief_open: false,
            rescuing: false,
            allocated_total: 0,
            client_segments_opened: 0,
            freed_total: 0,
        }
    }

    pub fn get(&self, zone: ZoneId) -> &Segment {
        &self.segments[zone.0 as usize]
    }

    pub fn get_mut(&mut self, zone: ZoneId) -> &mut Segment {
        &mut self.segments[zone.0 as usize]
    }

    pub fn zone_of(&self, pba: Pba) -> ZoneId {
        pba.zone(self.zone_blocks)
    }

    pub fn zones(&self) -> impl Iterator<Item = (ZoneId, &Segment)> {
        self.segments.iter().enumerate().map(|(zone, segment)| (ZoneId(zone as u32), segment))
    }

    /// Sealed segments except the map's.
    pub fn sealed_data(&self) -> impl Iterator<Item = (ZoneId, &Segment)> {
        self.zones().filter(|(_, segment)| {
            segment.state == SegmentState::Sealed && segment.stream != MAP_STREAM
        })
    }

    /// Segments that some claim could open.
    pub fn free_count(&self) -> usize {
        self.free.len() + self.ready.len() + usize::from(self.resetting.is_some())
    }

    pub fn count(&self, state: SegmentState) -> usize {
        self.segments.iter().filter(|segment| segment.state == state).count()
    }

    /// Whether the records that a dead server had acknowledged are being logged again. Their
    /// numbers have gaps.
    pub fn is_rescuing(&self) -> bool {
        self.rescuing
    }

    /// Whether a segment's state is free (recovery has not listed it yet).
    pub fn is_untouched(&self, zone: ZoneId) -> bool {
        self.get(zone).state == SegmentState::Free
    }

    /// Opens a segment for `stream`, if `claim` allows and one is ready.
    pub fn open(&mut self, claim: Claim, stream: u8) -> Option<(ZoneId, u64)> {
        if !self.allows(claim) {
            return None;
        }
        let zone = self.ready.pop_front()?;
        self.incarnation += 1;
        let incarnation = self.incarnation;
        *self.get_mut(zone) =
            Segment { state: SegmentState::Open, stream, incarnation, used: 1, ..Segment::free() };
        self.opened.push(zone);
        self.allocated_total += 1;
        self.client_segments_opened += u64::from(claim.is_client());
        self.note_open(stream, true);
        Some((zone, incarnation))
    }

    /// Seals an open segment: its footer begins at block `footer`, and has `blocks` blocks.
    pub fn seal(&mut self, zone: ZoneId, footer: u32, blocks: u32, sequence: u64) {
        let segment = self.get_mut(zone);
        segment.state = SegmentState::Sealed;
        segment.footer = footer;
        segment.used = footer + blocks;
        segment.sealed = sequence;
        let stream = segment.stream;
        self.note_open(stream, false);
    }

    /// A stream has this segment open no more: an append to it failed.
    pub fn note_ended(&mut self, zone: ZoneId) {
        let segment = self.get_mut(zone);
        segment.state = SegmentState::Sealed;
        let stream = segment.stream;
        self.note_open(stream, false);
    }

    /// An append to a segment failed: it ends ahead of block `from`. With it end groups of so many
    /// blocks of payload.
    pub fn break_off(&mut self, zone: ZoneId, from: u32, payload: u32, sequence: u64) {
        let segment = self.get_mut(zone);
        segment.used = segment.used.min(from.max(1));
        segment.payload -= payload;
        segment.footer = 0;
        segment.sealed = segment.sealed.max(sequence);
    }

    /// Gives up a segment that a failed append ended ahead of all groups: it holds nothing, and may
    /// not even have a header.
    pub fn give_up_empty(&mut self, zone: ZoneId) {
        let segment = self.get_mut(zone);
        if (segment.state, segment.used) == (SegmentState::Sealed, 1) {
            segment.state = SegmentState::Retiring;
        }
    }

    fn note_open(&mut self, stream: u8, open: bool) {
        match stream {
            RECLAIM_STREAM => self.reclaim_open = open,
            RELIEF_STREAM => self.relief_open = open,
            _ => {}
        }
    }

    /// Adds zones by which the device has grown. They wait for a checkpoint that lists them as
    /// free. In that checkpoint's order they follow the segments that it frees; in the order in
    /// memory they come first.
    pub fn grow(&mut self, zones: u32) {
        for zone in self.segments.len() as u32..zones {
            self.segments.push(Segment::free());
            self.grown.push(ZoneId(zone));
        }
    }

    /// The zones by which the device has grown since the last call: to be listed as free.
    pub fn take_grown(&mut self) -> Vec<ZoneId> {
        std::mem::take(&mut self.grown)
    }

    /// Undoes [`take_grown`](Self::take_grown).
    pub fn put_back_grown(&mut self, grown: Vec<ZoneId>) {
        self.grown.extend(grown);
    }

    /// The fraction of the segments that is not free.
    pub fn utilization(&self) -> f64 {
        1.0 - self.free_count() as f64 / self.segments.len() as f64
    }
}
