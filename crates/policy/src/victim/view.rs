//! What a victim policy may look at.

use mjolnir_units::ZoneId;

/// A sealed segment, as the last mark found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentView {
    /// The segment's zone.
    pub zone: ZoneId,
    /// Blocks that some volume, snapshot or map still refers to.
    pub live_blocks: u64,
    /// Blocks that were ever live here, at most `capacity_blocks`: what the segment was filled
    /// with, without records and summaries (a relocation writes those anew).
    pub used_blocks: u64,
    /// Blocks of the whole zone: what reclaim wins, less the live ones that it moves.
    pub capacity_blocks: u64,
    /// Log sequence number at which the segment was sealed.
    pub sealed_sequence: u64,
    /// Highest birth sequence of its blocks: what was written last by a client, however often it
    /// was relocated since.
    pub youngest_sequence: u64,
}

impl SegmentView {
    /// Share of the zone that is live, 0 to 1. A segment that was sealed early counts its unused
    /// tail as won space, because reclaim wins it.
    pub fn utilization(&self) -> f64 {
        if self.capacity_blocks == 0 {
            return 1.0;
        }
        (self.live_blocks as f64 / self.capacity_blocks as f64).min(1.0)
    }

    /// Blocks that died since they were written.
    pub fn stale_blocks(&self) -> u64 {
        self.used_blocks.saturating_sub(self.live_blocks)
    }

    /// How old the segment's youngest data is, in log sequence numbers.
    pub fn age(&self, now_sequence: u64) -> u64 {
        now_sequence.saturating_sub(self.youngest_sequence)
    }
}

/// Every sealed segment, and how much may be chosen of them.
#[derive(Clone, Copy, Debug)]
pub struct VictimView<'a> {
    /// The sealed segments, in any order. None of them is being relocated already.
    pub segments: &'a [SegmentView],
    /// The log's present sequence number, against which ages are counted.
    pub now_sequence: u64,
    /// Segments that are live to more than this share of their zone are no candidates. At 1 or
    /// more even wholly live segments are moved, which wins nothing: it is how the paper measures
    /// the cost of moving (its section 5.2).
    pub threshold: f64,
    /// The most segments to choose.
    pub segments_max: usize,
    /// The most live blocks that the chosen may have together. At least one zone's blocks, or a
    /// full segment can never be chosen.
    pub live_blocks_max: u64,
}

impl<'a> VictimView<'a> {
    /// The segments that may be chosen at all: those whose utilization is within the threshold.
    pub fn candidates(&self) -> impl Iterator<Item = &'a SegmentView> + use<'a> {
        let threshold = self.threshold;
        self.segments.iter().filter(move |segment| segment.utilization() <= threshold)
    }

    /// Whether relocating all of `chosen` leaves the store better off.
    ///
    /// It does if blocks died in them, or if what they hold fits into fewer segments. Without this
    /// rule a store at rest would move the same short segments round and round. A relocated
    /// segment is reckoned to fill up to the threshold, which leaves room for records.
    pub fn wins(&self, chosen: &[&SegmentView]) -> bool {
        if self.threshold >= 1.0 || chosen.iter().any(|segment| segment.stale_blocks() > 0) {
            return true;
        }
        let zones: f64 = chosen.iter().map(|segment| segment.utilization()).sum();
        (zones / self.threshold).ceil() < chosen.len() as f64
    }
}
