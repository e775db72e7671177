//! Which reads fetch the live blocks of a victim.
//!
//! A victim's live blocks lie in runs with stale blocks and records between them. To read each run
//! by itself costs a request a run; to read across the gaps costs bandwidth for what is thrown
//! away. LSM_ZGC (HotStorage '20) reads whole groups of blocks for the first reason.

mod near;
mod runs;

pub use near::Near;
pub use runs::Runs;

use crate::UnknownPolicy;
use crate::registry::{self, Entry};

/// Blocks of a segment that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one, counted from the start of the segment.
    pub at: u64,
    /// How many; at least 1.
    pub blocks: u64,
}

impl Span {
    /// The block behind the last one.
    pub fn end(&self) -> u64 {
        self.at + self.blocks
    }
}

/// A victim, as far as reading it goes.
#[derive(Clone, Copy, Debug)]
pub struct ReadPlanView<'a> {
    /// Its live runs, in order and without overlap.
    pub live: &'a [Span],
    /// The longest read, in blocks. A run that is longer is read in several.
    pub read_blocks_max: u64,
}

/// Plans reads.
///
/// # Contract
///
/// * The reads lie in order, do not overlap, and cover every live block.
/// * Each begins and ends with a live block, and none is longer than the view allows.
/// * A run lies in one read, unless it is longer than a read may be.
/// * Equal views give equal answers.
pub trait ReadPlanPolicy: Send {
    /// What the policy is called in settings and results.
    fn name(&self) -> &'static str;

    /// The reads that fetch the view's live blocks.
    fn plan(&mut self, view: &ReadPlanView<'_>) -> Vec<Span>;
}

const ENTRIES: &[Entry<dyn ReadPlanPolicy>] =
    &[("near", || Box::new(Near)), ("runs", || Box::new(Runs))];

/// The read-plan policy called `name`.
pub fn by_name(name: &str) -> Result<Box<dyn ReadPlanPolicy>, UnknownPolicy> {
    registry::find("read plan", ENTRIES, name).map(|make| make())
}

/// Names of all read-plan policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|(name, _)| *name)
}

/// Reads that join neighbours across gaps of at most `gap` blocks.
fn joined(view: &ReadPlanView<'_>, gap: u64) -> Vec<Span> {
    let most = view.read_blocks_max.max(1);
    let mut reads: Vec<Span> = Vec::new();
    for run in view.live {
        let (mut at, end) = (run.at, run.end());
        if let Some(last) = reads.last_mut()
            && at - last.end() <= gap
            && end - last.at <= most
        {
            last.blocks = end - last.at;
            continue;
        }
        while at < end {
            let blocks = most.min(end - at);
            reads.push(Span { at, blocks });
            at += blocks;
        }
    }
    reads
}
