//! Which reads fetch the live blocks of a victim.
//!
//! A victim's live blocks lie in runs with stale blocks and records between them. To read each run
//! by itself costs a request a run; to read across the gaps costs bandwidth for what is thrown
//! away. LSM_ZGC (HotStorage '20) reads whole groups of blocks for the first reason.

mod near;
mod runs;

pub use near::Near;
pub use runs::Runs;

use crate::parameters::Arguments;
use crate::registry::{self, Entry, Found};
use crate::{Parameter, PolicyError};

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
    /// The policy's name in settings and results, without its parameters.
    fn name(&self) -> &'static str;

    /// The reads that fetch the view's live blocks.
    fn plan(&mut self, view: &ReadPlanView<'_>) -> Vec<Span>;
}

type Make = fn(&Arguments) -> Box<dyn ReadPlanPolicy>;

const ENTRIES: &[Entry<Make>] = &[
    Entry::new("near", Near::PARAMETERS, |of| Box::new(Near::of(of))),
    Entry::new("runs", &[], |_| Box::new(Runs)),
];

fn find(text: &str) -> Result<Found<Make>, PolicyError> {
    registry::find("read plan", ENTRIES, text)
}

/// The read-plan policy that a text asks for: its name, or its name with parameters, as in
/// `near:gap=32`.
pub fn by_name(text: &str) -> Result<Box<dyn ReadPlanPolicy>, PolicyError> {
    find(text).map(|found| (found.entry.make)(&found.arguments))
}

/// The shortest text that asks for the same policy: parameters that have their default are left out.
pub fn shortest(text: &str) -> Result<String, PolicyError> {
    find(text).map(|found| found.shortest())
}

/// Names of all read-plan policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// All read-plan policies with their parameters, the default first.
pub fn list() -> impl Iterator<Item = (&'static str, &'static [Parameter])> {
    ENTRIES.iter().map(|entry| (entry.name, entry.parameters))
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
