//! Which stream a block is appended to.
//!
//! A stream is an append point: blocks of one stream land in the same segments, so they should be
//! blocks that die together.

mod apart;
mod together;

pub use apart::HostReclaimApart;
pub use together::Together;

use crate::UnknownPolicy;
use crate::registry::{self, Entry};

/// Number of a stream; streams of a policy are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u8);

/// Who writes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A client's write.
    Client,
    /// Relocation of a live block. Moved map nodes come from [`Source::Map`], not from here.
    Reclaim,
    /// The map itself: nodes and checkpoints, written first or moved.
    Map,
}

impl Source {
    /// All of them.
    pub const ALL: [Source; 3] = [Source::Client, Source::Reclaim, Source::Map];
}

/// A block about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Who writes it.
    pub source: Source,
    /// Log sequence number at which a client wrote these bytes first; for a client's write, now.
    pub birth_sequence: u64,
    /// The log's present sequence number.
    pub now_sequence: u64,
}

/// Chooses streams.
///
/// # Contract
///
/// * A stream's number is below [`streams`](PlacementPolicy::streams), which never changes.
/// * Equal views (and equal histories of views) give equal answers.
pub trait PlacementPolicy: Send {
    /// What the policy is called in settings and results.
    fn name(&self) -> &'static str;

    /// How many streams it uses: the segments that may be open at once because of it.
    fn streams(&self) -> u8;

    /// Where to append the block.
    fn place(&mut self, block: &BlockView) -> Stream;
}

const ENTRIES: &[Entry<dyn PlacementPolicy>] =
    &[("apart", || Box::new(HostReclaimApart)), ("together", || Box::new(Together))];

/// The placement policy called `name`.
pub fn by_name(name: &str) -> Result<Box<dyn PlacementPolicy>, UnknownPolicy> {
    registry::find("placement", ENTRIES, name)
}

/// Names of all placement policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|(name, _)| *name)
}
