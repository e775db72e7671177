//! What a placement and a victim policy cost in write amplification: a log of segments without a
//! device, a map or time, through which millions of block writes go in a second.
//!
//! ```
//! use mjolnir_policy::replay::{Replay, Trigger};
//! use mjolnir_policy::{placement, victim};
//!
//! // Each of 8,192 blocks once, in order, then one of every eight again and again.
//! let load: Vec<u32> = (0..8_192).chain((0..65_536).map(|at| at % 1_024 * 8)).collect();
//! let replay = Replay { segment_blocks: 256, trigger: Trigger::Segments(40), fill: 8_192 };
//! let mut victims = victim::by_name("greedy")?;
//! let placement = placement::by_name_for("sepbit", &replay.shape(8_192))?;
//! let report = replay.run(&load, &mut *victims, placement);
//! assert!(report.waf() < 1.5, "{report:?}");
//! # Ok::<(), mjolnir_policy::PolicyError>(())
//! ```
//!
//! Here alone, all of a load is known beforehand, so here alone policies can be told the
//! [`Future`]: see [`Replay::run_offline`].

mod log;
mod report;

pub use report::{ReplayReport, StreamReport};

use crate::placement::{
    BlockView, Future, OfflinePlacement, PlacementPolicy, ReclaimedSegment, Shape, Stream,
};
use crate::victim::VictimPolicy;
use log::Log;

/// When a victim is reclaimed: after each block that a client writes, one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// While more than this many segments hold something, open ones included: a device of fixed
    /// capacity. What the victim's live blocks go to is beyond it, as a reserve.
    Segments(u32),
    /// When blocks that died in *sealed* segments are more than this share of all blocks written
    /// and not reclaimed: the trigger of SepBIT's simulator. Garbage in open segments is not
    /// counted, so the more streams a policy uses, the more space it takes. One victim for each
    /// block written; segments of which a smaller share died are no candidates.
    Garbage(f64),
}

/// A store to replay a load on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Blocks of a segment, at least 1.
    pub segment_blocks: u32,
    /// When reclaim works.
    pub trigger: Trigger,
    /// The first so many steps of the load are not counted in the results.
    pub fill: usize,
}

/// In a load: added to an address, it gives the block up instead of writing it.
pub const TRIM: u32 = 1 << 31;

/// Who is asked where a block goes.
trait Place {
    fn streams(&self) -> u8;
    fn place(&mut self, block: &BlockView, next_write: u64) -> Stream;
    fn reclaimed(&mut self, segment: &ReclaimedSegment);
    fn memory_bytes(&self) -> usize;
}

struct Online(Box<dyn PlacementPolicy>);

impl Place for Online {
    fn streams(&self) -> u8 {
        self.0.streams()
    }

    #[inline]
    fn place(&mut self, block: &BlockView, _next_write: u64) -> Stream {
        let stream = self.0.place(block);
        self.0.wrote(block, stream);
        stream
    }

    fn reclaimed(&mut self, segment: &ReclaimedSegment) {
        self.0.reclaimed(segment);
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

struct Offline<'a>(&'a dyn OfflinePlacement);

impl Place for Offline<'_> {
    fn streams(&self) -> u8 {
        self.0.streams()
    }

    #[inline]
    fn place(&mut self, block: &BlockView, next_write: u64) -> Stream {
        self.0.place(block, &Future::new((next_write != NEVER).then_some(next_write)))
    }

    fn reclaimed(&mut self, _segment: &ReclaimedSegment) {}

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The sequence number of a write that never comes.
const NEVER: u64 = u64::MAX;

impl Replay {
    /// The shape of a store for `blocks` distinct blocks, to make policies for.
    pub fn shape(&self, blocks: u64) -> Shape {
        let segments = match self.trigger {
            Trigger::Segments(segments) => u64::from(segments),
            Trigger::Garbage(share) => {
                (blocks as f64 / (1.0 - share) / f64::from(self.segment_blocks)) as u64 + 1
            }
        };
        Shape { segment_blocks: self.segment_blocks.into(), segments, ..Shape::default() }
    }

    /// Replays a load, given as the address of each block written; with [`TRIM`] added, of a block
    /// given up.
    ///
    /// It ends early where reclaim wins nothing any more; [`ReplayReport::stuck`] says so.
    pub fn run(
        &self,
        load: &[u32],
        victim: &mut dyn VictimPolicy,
        placement: Box<dyn PlacementPolicy>,
    ) -> ReplayReport {
        self.replay(load, None, victim, Online(placement))
    }

    /// As [`run`](Self::run), for a policy that is told the future.
    pub fn run_offline(
        &self,
        load: &[u32],
        victim: &mut dyn VictimPolicy,
        placement: &dyn OfflinePlacement,
    ) -> ReplayReport {
        let mut next_of = vec![NEVER; blocks(load)];
        let mut next_writes = vec![NEVER; load.len()];
        // Sequence numbers count writes alone; a trim ends a life as the next write would.
        let mut sequence = load.iter().filter(|&&step| step & TRIM == 0).count() as u64;
        for (index, &step) in load.iter().enumerate().rev() {
            let lba = (step & !TRIM) as usize;
            if step & TRIM == 0 {
                next_writes[index] = next_of[lba];
                next_of[lba] = sequence;
                sequence -= 1;
            } else {
                next_of[lba] = sequence + 1;
            }
        }
        self.replay(load, Some(&next_writes), victim, Offline(placement))
    }

    fn replay(
        &self,
        load: &[u32],
        next_writes: Option<&[u64]>,
        victim: &mut dyn VictimPolicy,
        place: impl Place,
    ) -> ReplayReport {
        let mut log = Log::new(self, blocks(load), place, next_writes.is_some());
        let middle = self.fill + load.len().saturating_sub(self.fill) / 2;
        for (index, &step) in load.iter().enumerate() {
            if index == self.fill {
                log.begin_to_count();
            }
            if index == middle {
                log.note_middle();
            }
            if step & TRIM != 0 {
                log.trim(step & !TRIM);
                continue;
            }
            log.write(step, next_writes.map_or(NEVER, |next| next[index]));
            if !log.reclaim(victim) {
                return log.report(true);
            }
        }
        log.report(false)
    }
}

/// One more than the highest address.
fn blocks(load: &[u32]) -> usize {
    load.iter().map(|step| step & !TRIM).max().map_or(0, |highest| highest as usize + 1)
}
