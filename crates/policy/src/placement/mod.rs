//! Which stream a block is appended to.
//!
//! A stream is an append point: blocks of one stream land in the same segments, so they should be
//! blocks that die together. Then a segment dies nearly whole, and reclaim finds little to move.
//!
//! | name | streams | remembers |
//! |---|---|---|
//! | `together` | 1 | nothing |
//! | `apart` | clients, reclaim | nothing |
//! | `dac` | temperatures, 6 | nothing: a block's temperature is the stream it lies in |
//! | `sepbit` | 2 for clients (or 1), 4 for reclaim | one mean |
//! | `autostream` | temperatures of chunks, 5, and 1 for reclaim | a table of chunks |
//! | `interval` | overwrite intervals, 8 | a table of blocks |
//! | [`FutureKnowledge`] | any number of remaining lifetimes | the whole future; offline only |

mod apart;
mod autostream;
mod dac;
mod future;
mod interval;
mod sepbit;
mod table;
mod together;
mod view;

pub use apart::HostReclaimApart;
pub use autostream::AutoStream;
pub use dac::Dac;
pub use future::{Bins, Future, FutureKnowledge, OfflinePlacement};
pub use interval::Interval;
pub use sepbit::SepBit;
pub use together::Together;
pub use view::{BlockView, Previous, ReclaimedSegment, Shape, Source, Stream};

use crate::parameters::Arguments;
use crate::registry::{self, Entry, Found};
use crate::{Parameter, PolicyError};

/// Chooses streams.
///
/// # Contract
///
/// * A stream's number is below [`streams`](PlacementPolicy::streams), which never changes and is
///   at least 1 and at most the shape's `streams_max`.
/// * [`place`](PlacementPolicy::place) decides and remembers nothing: asked twice it answers the
///   same, because a write that cannot be taken at once is tried again. What a policy remembers, it
///   learns from [`wrote`](PlacementPolicy::wrote) and [`reclaimed`](PlacementPolicy::reclaimed).
/// * Equal histories of views give equal answers. Nothing depends on what is unknown: a policy that
///   was just made, as after a restart, answers too.
/// * Memory is bounded, whatever is written, and [`memory_bytes`](PlacementPolicy::memory_bytes)
///   tells it.
pub trait PlacementPolicy: Send {
    /// The policy's name in settings and results, without its parameters.
    fn name(&self) -> &'static str;

    /// How many streams it uses: the segments that may be open at once because of it.
    fn streams(&self) -> u8;

    /// Where to append the block.
    fn place(&self, block: &BlockView) -> Stream;

    /// The stream of all blocks of that source, if it depends on nothing else. An engine then need
    /// not look up what a write replaces, nor ask for each block, nor tell of each. One source may be
    /// fixed while the policy is asked for the other: each stream that it names for reclaim's blocks is
    /// then one of its own, apart from that of clients' blocks.
    fn fixed(&self, _source: Source) -> Option<Stream> {
        None
    }

    /// The block was appended to `stream`: where [`place`](Self::place) said, or elsewhere where
    /// space was too short for a choice.
    fn wrote(&mut self, _block: &BlockView, _stream: Stream) {}

    /// A segment is about to be reclaimed: its blocks are placed next.
    fn reclaimed(&mut self, _segment: &ReclaimedSegment) {}

    /// Memory that it holds now, in bytes, beside itself.
    fn memory_bytes(&self) -> usize {
        0
    }
}

type Make = fn(&Arguments, &Shape) -> Box<dyn PlacementPolicy>;

const ENTRIES: &[Entry<Make>] = &[
    Entry::new("apart", &[], |_, shape| Box::new(HostReclaimApart::new(shape))),
    Entry::new("together", &[], |_, _| Box::new(Together)),
    Entry::new("dac", Dac::PARAMETERS, |of, shape| Box::new(Dac::of(of, shape))),
    Entry::new("sepbit", SepBit::PARAMETERS, |of, shape| Box::new(SepBit::of(of, shape))),
    Entry::new("autostream", AutoStream::PARAMETERS, |of, shape| {
        Box::new(AutoStream::of(of, shape))
    }),
    Entry::new("interval", Interval::PARAMETERS, |of, shape| Box::new(Interval::of(of, shape))),
];

fn find(text: &str) -> Result<Found<Make>, PolicyError> {
    registry::find("placement", ENTRIES, text)
}

/// The placement policy that a text asks for, for a store of the given shape: its name, or its name with
/// parameters, as in `dac:classes=4`.
pub fn by_name_for(text: &str, shape: &Shape) -> Result<Box<dyn PlacementPolicy>, PolicyError> {
    find(text).map(|found| (found.entry.make)(&found.arguments, shape))
}

/// The placement policy that a text asks for, for a store of the [default shape](Shape::default).
pub fn by_name(text: &str) -> Result<Box<dyn PlacementPolicy>, PolicyError> {
    by_name_for(text, &Shape::default())
}

/// The shortest text that asks for the same policy: parameters that have their default are left out.
pub fn shortest(text: &str) -> Result<String, PolicyError> {
    find(text).map(|found| found.shortest())
}

/// Names of all placement policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// All placement policies with their parameters, the default first.
pub fn list() -> impl Iterator<Item = (&'static str, &'static [Parameter])> {
    ENTRIES.iter().map(|entry| (entry.name, entry.parameters))
}
