//! What a pacing policy may look at, and what it decides.

/// Space and work, as they stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacingView {
    /// Segments that could be opened now, the reserve among them.
    pub free_segments: u32,
    /// Segments that reclaim has emptied, and that the next checkpoint makes free.
    pub retiring_segments: u32,
    /// Unwritten blocks of the segment that clients append to. Less than a segment; it makes
    /// decisions glide from one segment to the next instead of stepping.
    pub open_room_blocks: u64,
    /// Segments that only reclaim and checkpoints may open. The allocator keeps it from clients;
    /// pacing sees to it that they rarely notice.
    pub reserve_segments: u32,
    /// Segments of the store.
    pub total_segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u64,
    /// Blocks of sealed segments that are not live: what reclaim could win at most.
    pub reclaimable_blocks: u64,
    /// Of these, about as many were left behind by deletions and trims, not by overwrites.
    pub released_blocks: u64,
    /// So much was deleted since the last mark that another is worth while.
    pub much_deleted: bool,
    /// Client requests wait, or something that was written is not on the medium yet, be it that it only
    /// waits for company.
    pub client_work_waiting: bool,
    /// Client requests wait, or something that was written is on its way to the medium.
    pub client_work_under_way: bool,
    /// Victims wait to be relocated. False while the first mark still looks for some.
    pub reclaim_work_waiting: bool,
    /// Reclaim rests while less than this share of the store is used; 0.5 in the paper (its
    /// section 5.1).
    pub start_utilization: f64,
}

impl PacingView {
    /// Free space above the reserve, in segments, with what is about to be free; never negative.
    pub fn slack_segments(&self) -> f64 {
        (self.free_space() - f64::from(self.reserve_segments)).max(0.0)
    }

    /// What reclaim could win at most, in segments.
    pub fn reclaimable_segments(&self) -> f64 {
        self.in_segments(self.reclaimable_blocks)
    }

    /// Used share of the store, 0 to 1.
    pub fn utilization(&self) -> f64 {
        (1.0 - self.free_space() / f64::from(self.total_segments.max(1))).clamp(0.0, 1.0)
    }

    /// Whether free space has fallen below the reserve while there is something to win.
    pub fn below_reserve(&self) -> bool {
        self.free_segments < self.reserve_segments && self.reclaimable_blocks > 0
    }

    fn free_space(&self) -> f64 {
        let segments = f64::from(self.free_segments) + f64::from(self.retiring_segments);
        segments + self.in_segments(self.open_room_blocks)
    }

    fn in_segments(&self, blocks: u64) -> f64 {
        blocks as f64 / self.segment_blocks.max(1) as f64
    }
}

/// When reclaim may use the whole device, until a client wants it. Where cleaning ahead is not worth while
/// it keeps to its share all the time, or a load that leaves time between its requests would have its
/// data moved round and round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// Never.
    #[default]
    No,
    /// While no client work waits: not under a load that goes on, which so pays for no more than it
    /// needs.
    AtRest,
    /// While none is under way: there is much to be won at once.
    Soon,
}

/// A decision on pacing; with its view, it is what telemetry shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pacing {
    /// Reclaim's share of the device's bandwidth, 0 to 1, while both it and clients have work.
    pub reclaim_share: f64,
    /// How scarce space is, 0 (plenty, or nothing to win) to 1 (only the reserve is left).
    pub pressure: f64,
    /// Reclaim cycles should run: marks, and moves as far as the share allows.
    pub active: bool,
    /// Whether reclaim may use the whole device when clients do not.
    pub ahead: Ahead,
    /// That is so, and no client waits now.
    pub idle: bool,
    /// Clients wait until reclaim has won space. The last resort; count it.
    pub panic: bool,
}
