//! Segments: which are free, open, sealed or retiring, and who may take the last ones.

use std::collections::{BTreeSet, VecDeque};

use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::placement::Births;
use crate::reclaim::{Retry, Stuck};

/// The stream of the map's own blocks.
pub(crate) const MAP_STREAM: u8 = 0;
/// The stream of relocated blocks.
pub(crate) const RECLAIM_STREAM: u8 = 1;
/// The stream of clients' records that free space, and of their small changes, when the store is too full
/// for others.
pub(crate) const RELIEF_STREAM: u8 = 2;
/// The first stream of client writes, and of what a placement policy puts beside them.
pub(crate) const CLIENT_STREAM: u8 = 3;

/// Where a segment is in its life: free → open → sealed → retiring → free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Holds nothing that any durable checkpoint needs.
    Free,
    /// Being appended to.
    Open,
    /// Immutable.
    Sealed,
    /// Nothing refers to it any more, but a durable checkpoint may.
    Retiring,
}

/// What is known of one segment.
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
    /// Log sequence number at its opening, if it was opened since the store was.
    pub opened: Option<u64>,
    /// Log sequence number at its sealing.
    pub sealed: u64,
    /// How old its blocks are, where a placement policy asks.
    pub births: Births,
    /// Live blocks as the last mark counted them; `None` if it was not sealed when that began.
    pub live: Option<u32>,
    /// Why the segment could not be emptied, if it could not.
    pub stuck: Option<Stuck>,
    /// Where the device failed for it, the last time.
    pub retry: Option<Retry>,
    /// Live bytes of node images, table pages and manifests, for the map's stream.
    pub map_bytes: u64,
    /// Reads under way; the zone is not reset before they end.
    pub pins: u32,
    /// Of a free segment: how many roots had been made durable when it became free.
    pub freed: u64,
    /// Of a free segment: its bytes were given back.
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

/// Who asks for a segment: the order of the last reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Client,
    /// A client's small change that frees nothing: a rename, or the rest of a block of which a part is
    /// zeroed. On a full store it is accepted while room beyond the last of relief's is left.
    Small,
    /// A client that frees space.
    Relief,
    Reclaim,
    Map,
}

impl Claim {
    /// Whether it waits for reclaim, rather than reclaim for it.
    pub fn is_client(self) -> bool {
        matches!(self, Claim::Client | Claim::Small | Claim::Relief)
    }

    pub fn of_stream(stream: u8) -> Self {
        match stream {
            MAP_STREAM => Claim::Map,
            RECLAIM_STREAM => Claim::Reclaim,
            RELIEF_STREAM => Claim::Relief,
            _ => Claim::Client,
        }
    }
}

/// Segments kept reset, so that opening one does not wait for the device.
const READY_WANTED: usize = 4;
/// Free segments that are kept as they are, besides the ready ones: they are opened next.
const KEPT_FREE: usize = 4;
/// Roots that must be durable before any segment is given back: both copies are of this opening then, and
/// neither leads to what recovery found.
const ROOTS_BEFORE_RELEASE: u64 = 2;
/// How far down the order a segment may be taken before those ahead of it.
pub(crate) const ORDER_SLACK: usize = 8;

/// All segments of a store.
pub(crate) struct Space {
    pub zone_blocks: u64,
    pub segments: Vec<Segment>,
    /// Free in the durable checkpoint, in the order of its list; not reset yet.
    free: VecDeque<ZoneId>,
    /// Taken from the front of `free`, and being reset. Still free, and next in the order: a
    /// manifest that left it out would hide the records that are soon logged in it.
    resetting: Option<ZoneId>,
    /// Taken from the front of `free` and reset: can be opened at once.
    ready: VecDeque<ZoneId>,
    /// Free segments that are being given back; they are not reset meanwhile.
    pub releasing: BTreeSet<ZoneId>,
    /// Roots made durable since the store was opened.
    pub roots: u64,
    /// The highest incarnation given out.
    pub incarnation: u64,
    /// Added to the device, and free in no durable checkpoint yet.
    grown: Vec<ZoneId>,
    /// How many zones there were as of the last growth that was answered, or of the checkpoint that the store
    /// was opened by: the device may have more, by a growth that was cut short.
    pub told_zones: u32,
    /// Zones opened since the map was last frozen for a checkpoint.
    pub opened: Vec<ZoneId>,
    /// Segments kept for a checkpoint; follows how much of the map is dirty.
    checkpoint_reserve: usize,
    /// Segments that clients leave besides, for checkpoints that compact the map.
    compaction_reserve: usize,
    /// Whether reclaim has a segment open, and relief: that much of their reserve is in use.
    reclaim_open: bool,
    relief_open: bool,
    /// No reserve counts: what is logged is what a server that died had room for.
    rescuing: bool,
    pub allocated_total: u64,
    /// Segments that clients have opened.
    pub client_segments_opened: u64,
    pub freed_total: u64,
}

/// Segments kept for a checkpoint beyond what it must write: room to compact the map, and to be
/// wrong by what does not fit at the end of a segment.
const CHECKPOINT_SLACK: usize = 2;
/// Segments kept for relocation beyond the checkpoint's reserve: one that is being filled while
/// another is emptied.
const RECLAIM_RESERVE: usize = 2;
/// Segments kept for records that free space, such as trims: they carry no payload, so that one
/// segment lasts until what they free is won. Small changes, which may carry some, leave room for another.
const RELIEF_RESERVE: usize = 1;
/// Segments that a store never fills with clients' data, at least: those for checkpoints and those
/// for relocation.
pub const RESERVE_SEGMENTS_MIN: u32 = (CHECKPOINT_SLACK + RECLAIM_RESERVE) as u32;

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

    /// Sealed segments, but for the map's.
    pub fn sealed_data(&self) -> impl Iterator<Item = (ZoneId, &Segment)> {
        self.zones().filter(|(_, segment)| {
            segment.state == SegmentState::Sealed && segment.stream != MAP_STREAM
        })
    }

    /// Segments that could be opened, by someone.
    pub fn free_count(&self) -> usize {
        self.free.len() + self.ready.len() + usize::from(self.resetting.is_some())
    }

    pub fn count(&self, state: SegmentState) -> usize {
        self.segments.iter().filter(|segment| segment.state == state).count()
    }

    /// Segments that a claim leaves when it changes the map: with fewer, a checkpoint has to come
    /// first. What reclaim and relief have open counts as part of their reserve, or their taking
    /// it would keep those out that still have theirs to take.
    pub fn kept(&self, claim: Claim) -> usize {
        if self.rescuing {
            return 0;
        }
        let reclaim = RECLAIM_RESERVE - usize::from(self.reclaim_open);
        let relief = RELIEF_RESERVE - usize::from(self.relief_open);
        match claim {
            // What a checkpoint supersedes comes back with later ones only, as the segments that
            // it lies in empty: the map's use of space swings by what is written each time.
            Claim::Client => self.checkpoint_reserve + self.checkpoint_least() + reclaim + relief,
            // It writes to relief's segment, and leaves what `Relief` needs to open another one: a
            // checkpoint writes a segment at least.
            Claim::Small => self.checkpoint_reserve + self.checkpoint_least() + reclaim,
            Claim::Relief => self.checkpoint_reserve + reclaim,
            Claim::Reclaim => self.checkpoint_reserve,
            Claim::Map => 0,
        }
    }

    /// Whether more dirty nodes might leave no room for their checkpoint, or take what others count
    /// on: a checkpoint has to be taken before `claim` changes anything. What frees space may go on
    /// to the last.
    pub fn is_crowded(&self, claim: Claim) -> bool {
        let least = match claim {
            Claim::Relief => self.checkpoint_least() + 1,
            _ => self.kept(claim),
        };
        self.free_count() < least
    }

    /// Segments that clients leave for relief, reclaim and checkpoints when they open one. One
    /// more than they leave when they write, so that there is something to write before the next
    /// checkpoint.
    pub fn reserve(&self) -> usize {
        self.kept(Claim::Client) + self.compaction_reserve
    }

    /// Segments kept for a checkpoint.
    pub fn checkpoint_reserve(&self) -> usize {
        self.checkpoint_reserve
    }

    /// Segments that a checkpoint has to write at least, a part counted as a whole.
    pub fn checkpoint_least(&self) -> usize {
        self.checkpoint_reserve - CHECKPOINT_SLACK
    }

    /// Bytes of the map that a checkpoint has room to move besides what it must write, as they lie: a
    /// segment at most. The tighter space is, the more it matters: moving wins more than it takes, but
    /// for leaves that lost the image with the words that they have in common.
    pub fn compaction_bytes(&self) -> u64 {
        self.moved_bytes_max().min(self.payload_bytes())
    }

    /// Bytes that a checkpoint has room to write, at most, for what it moves.
    pub fn moved_bytes_max(&self) -> u64 {
        let spare = self.free_count().saturating_sub(self.checkpoint_least()).min(2) as u64;
        spare * self.payload_bytes()
    }

    /// Sets the checkpoint's reserve to hold `bytes` of dirty map and manifest, and `sparse` bytes
    /// that it would like to move.
    pub fn reserve_for_checkpoint(&mut self, bytes: u64, sparse: u64) {
        let segments = |bytes: u64| bytes.div_ceil(self.payload_bytes()) as usize;
        let (least, whole) = (segments(bytes), segments(bytes + sparse));
        self.checkpoint_reserve = CHECKPOINT_SLACK + least;
        self.compaction_reserve = (whole - least).max(1);
    }

    /// Payload of a segment, less its header, footer and one group header in 16 blocks.
    pub fn payload_bytes(&self) -> u64 {
        (self.zone_blocks - self.zone_blocks / 8 - 2) * BLOCK_SIZE
    }

    /// Whether `claim` may take a segment now.
    pub fn allows(&self, claim: Claim) -> bool {
        let kept = if claim == Claim::Client { self.reserve() } else { self.kept(claim) };
        self.free_count() > kept
    }

    /// Adds a segment that a durable checkpoint lists as free, at the end of the order. What is
    /// known of it stays until it is reset: reads that pin it still need that.
    pub fn push_free(&mut self, zone: ZoneId) {
        let freed = self.roots.max(ROOTS_BEFORE_RELEASE - 1);
        let segment = self.get_mut(zone);
        segment.state = SegmentState::Free;
        segment.live = None;
        (segment.freed, segment.released) = (freed, false);
        self.free.push_back(zone);
    }

    /// Whether what a server that died had acknowledged is being logged again: numbers have gaps then.
    pub fn is_rescuing(&self) -> bool {
        self.rescuing
    }

    /// Whether a segment is free and not listed as such yet.
    pub fn is_untouched(&self, zone: ZoneId) -> bool {
        self.get(zone).state == SegmentState::Free
    }

    /// Lists these segments, and no others, as free, all of which may be taken.
    pub fn begin_rescue(&mut self, zones: &[ZoneId]) {
        self.rescuing = true;
        zones.iter().for_each(|zone| self.push_free(*zone));
    }

    /// Whether few segments are ready and more could be.
    pub fn next_reset_wanted(&self) -> bool {
        self.ready.len() < READY_WANTED && !self.free.is_empty()
    }

    /// The next segment to be reset, if few are ready. `busy` zones have I/O under way.
    pub fn next_to_reset(&mut self, busy: impl Fn(ZoneId) -> bool) -> Option<ZoneId> {
        if !self.next_reset_wanted() {
            return None;
        }
        // In order but for the rare one that a read still uses: recovery tolerates short gaps.
        let idle = |zone: &ZoneId| {
            self.get(*zone).pins == 0 && !busy(*zone) && !self.releasing.contains(zone)
        };
        let at = self.free.iter().take(ORDER_SLACK).position(idle)?;
        let zone = self.free.remove(at)?;
        *self.get_mut(zone) = Segment::free();
        assert!(self.resetting.replace(zone).is_none(), "two segments are reset at once");
        Some(zone)
    }

    /// Free segments that are not kept, and were not given back.
    fn to_release(&self) -> impl Iterator<Item = ZoneId> {
        self.free.iter().copied().skip(KEPT_FREE).filter(|zone| !self.get(*zone).released)
    }

    /// Whether there are any.
    pub fn has_unreleased(&self) -> bool {
        self.to_release().next().is_some()
    }

    /// How many there are.
    pub fn unreleased(&self) -> usize {
        self.to_release().count()
    }

    /// Whether some of them are not free yet by both copies of the root.
    pub fn awaits_root(&self) -> bool {
        self.to_release().any(|zone| self.get(zone).freed >= self.roots)
    }

    /// The next segment to be given back, which is under way from now on. `busy` zones have I/O under way.
    pub fn next_to_release(&mut self, busy: impl Fn(ZoneId) -> bool) -> Option<ZoneId> {
        let may_go = |zone: &ZoneId| {
            let segment = self.get(*zone);
            let idle = segment.pins == 0 && !busy(*zone) && !self.releasing.contains(zone);
            segment.freed < self.roots && idle
        };
        let zone = self.to_release().find(may_go)?;
        self.releasing.insert(zone);
        Some(zone)
    }

    /// Whether a segment could be opened for `claim` at once.
    pub fn can_open(&self, claim: Claim) -> bool {
        self.allows(claim) && !self.ready.is_empty()
    }

    /// The zone being reset is empty now.
    pub fn push_ready(&mut self, zone: ZoneId) {
        assert_eq!(self.resetting.take(), Some(zone), "a segment was reset unasked");
        self.ready.push_back(zone);
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

    fn note_open(&mut self, stream: u8, open: bool) {
        match stream {
            RECLAIM_STREAM => self.reclaim_open = open,
            RELIEF_STREAM => self.relief_open = open,
            _ => {}
        }
    }

    /// Free segments in the order in which they will be opened.
    pub fn free_order(&self) -> Vec<ZoneId> {
        self.ready.iter().chain(&self.resetting).chain(&self.free).copied().collect()
    }

    /// Adds zones that the device has grown by. They wait for a checkpoint that lists them as
    /// free: what a running one frees comes before them in its order, and after them in ours.
    pub fn grow(&mut self, zones: u32) {
        for zone in self.segments.len() as u32..zones {
            self.segments.push(Segment::free());
            self.grown.push(ZoneId(zone));
        }
    }

    /// The zones that the device has grown by since this was last asked: to be listed as free.
    pub fn take_grown(&mut self) -> Vec<ZoneId> {
        std::mem::take(&mut self.grown)
    }

    /// The part of the segments that is not free.
    pub fn utilization(&self) -> f64 {
        1.0 - self.free_count() as f64 / self.segments.len() as f64
    }
}

/// The map's own segments.
impl Space {
    /// Counts bytes of the map's stream as live (`sign` 1) or dead (-1).
    pub fn add_map_bytes(&mut self, place: crate::node_io::Place, sign: i64) {
        let zone = self.zone_of(place.pba);
        let segment = self.get_mut(zone);
        let bytes = segment.map_bytes as i64 + sign * place.bytes as i64;
        assert!(bytes >= 0, "live map bytes of {zone} below zero");
        segment.map_bytes = bytes as u64;
    }

    /// Sealed segments of the map's stream in which nothing is live.
    pub fn empty_map_segments(&self) -> Vec<ZoneId> {
        self.map_segments().filter(|(_, s)| s.map_bytes == 0).map(|(zone, _)| zone).collect()
    }

    /// The emptiest sealed segments of the map's stream, of those that waste more than they hold,
    /// with `budget` live bytes at most: each checkpoint moves what lives in a few of them.
    pub fn sparse_map_segments(&self, mut budget: u64) -> Vec<ZoneId> {
        let bytes = self.zone_blocks * BLOCK_SIZE;
        let mut sparse: Vec<(u64, ZoneId)> = self
            .map_segments()
            .filter(|(_, segment)| segment.map_bytes > 0 && segment.map_bytes * 2 < bytes)
            .map(|(zone, segment)| (segment.map_bytes, zone))
            .collect();
        sparse.sort();
        sparse
            .into_iter()
            .take_while(|(live, _)| {
                let fits = *live <= budget;
                budget = budget.saturating_sub(*live);
                fits
            })
            .map(|(_, zone)| zone)
            .collect()
    }

    /// Live bytes that [`sparse_map_segments`](Self::sparse_map_segments) would move where there is
    /// room.
    pub fn sparse_map_bytes(&self) -> u64 {
        self.sparse_map_segments(self.payload_bytes())
            .iter()
            .map(|zone| self.get(*zone).map_bytes)
            .sum()
    }

    fn map_segments(&self) -> impl Iterator<Item = (ZoneId, &Segment)> {
        self.zones().filter(|(_, segment)| {
            segment.stream == MAP_STREAM && segment.state == SegmentState::Sealed
        })
    }
}
