//! What clients may do while reclaim copies nothing.

use std::time::Duration;

use mjolnir_units::Instant;

/// The most that clients may run ahead by: this part of a usual batch.
const LEAD_MAX: f64 = 0.5;
/// The weight of a batch in what is usual.
const WEIGHT: f64 = 0.25;

/// The rhythm of reclaim: it copies a round at a time, and between two batches of victims nothing for a
/// while, since it waits for what it wrote, repoints, takes a checkpoint, marks, and reads the first of
/// the next batch.
///
/// A [`Gate`](super::Gate) alone would stop clients for that while. With the lead that this allows them
/// besides they go on as if reclaim moved blocks at its mean pace all the time, by half of a usual batch
/// at most. What they were ahead by when a batch begins they make up for over all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rhythm {
    /// Blocks of a usual batch, and the seconds from the end of one to the end of the next; 0 if not
    /// known.
    usual_blocks: f64,
    usual_s: f64,
    /// When the last batch had been copied.
    ended: Option<Instant>,
    /// When blocks were copied last.
    last: Option<Instant>,
    /// What clients were ahead by at the beginning of the batch that is being copied.
    lead: Option<f64>,
    /// Blocks of the batch, and those of them that were copied.
    blocks: u64,
    copied: u64,
}

impl Rhythm {
    /// A batch of so many blocks is to be copied next.
    pub fn expect(&mut self, blocks: u64) {
        (self.blocks, self.copied) = (blocks, 0);
    }

    /// So many were copied, of a batch that has begun with them or before.
    pub fn copied(&mut self, now: Instant, blocks: u64) {
        self.lead = Some(self.lead.unwrap_or_else(|| self.lead_since_last(now)));
        self.last = Some(now);
        self.copied += blocks;
    }

    /// Nothing is left to be copied of the batch.
    pub fn end(&mut self, now: Instant) {
        let since = self.ended.map_or(Duration::ZERO, |ended| now.since(ended));
        if !since.is_zero() {
            let weight = if self.usual_s > 0.0 { WEIGHT } else { 1.0 };
            self.usual_blocks += weight * (self.copied as f64 - self.usual_blocks);
            self.usual_s += weight * (since.as_secs_f64() - self.usual_s);
        }
        (self.ended, self.lead) = (Some(now), None);
    }

    /// The batch is left as it is.
    pub fn abandon(&mut self) {
        self.lead = None;
    }

    /// There is nothing to reclaim for now: that while is none between two batches.
    pub fn rest(&mut self) {
        (self.ended, self.last, self.lead) = (None, None, None);
    }

    /// Whether clients may run ahead by more after a while in which nothing is copied.
    pub fn lead_grows(&self, now: Instant) -> bool {
        self.last.is_some() && self.lead_since_last(now) < self.lead_max()
    }

    /// Moves that clients may run ahead of reclaim by now.
    pub fn lead_blocks(&self, now: Instant) -> f64 {
        let left = self.blocks.saturating_sub(self.copied) as f64 / self.blocks.max(1) as f64;
        self.lead.unwrap_or(0.0) * left + self.lead_since_last(now)
    }

    fn lead_since_last(&self, now: Instant) -> f64 {
        let since = self.last.map_or(Duration::ZERO, |last| now.since(last));
        let pace = if self.usual_s > 0.0 { self.usual_blocks / self.usual_s } else { 0.0 };
        (pace * since.as_secs_f64()).min(self.lead_max())
    }

    fn lead_max(&self) -> f64 {
        LEAD_MAX * self.usual_blocks
    }
}
