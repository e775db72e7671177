//! A victim: a candidate that is being emptied, as the steps of reclaim hand it on.

use mjolnir_map::Bits;
use mjolnir_units::{Pba, TreeId, ZoneId};

use crate::pacing::{LeafSet, ReclaimState};

/// A segment that is being emptied. It is a candidate as long as it is a victim.
#[derive(Debug, Default)]
pub(in crate::reclaim) struct Victim {
    pub zone: ZoneId,
    /// A bit for each block, counted from the start of the zone, set if it is live. Known after
    /// [`find_live`](crate::drive::Engine::find_live).
    pub live: Bits,
    /// What is to be copied. Known while the victim is ready to be copied or is being copied.
    pub runs: LiveRuns,
}

impl Victim {
    /// A victim of which nothing else is known.
    pub fn new(zone: ZoneId) -> Self {
        Victim { zone, ..Victim::default() }
    }

    /// The leaves that may refer to it. They are in the reverse index, since what clients do adds to them.
    pub fn referrers<'a>(&self, reclaim: &'a ReclaimState) -> &'a LeafSet {
        // Without its index, nothing would seem to refer to a victim.
        reclaim.index.leaves(self.zone).expect("a victim stays a candidate")
    }
}

/// A victim's live runs in order, each block counted once.
#[derive(Debug, Default)]
pub(in crate::reclaim) struct LiveRuns {
    pub runs: Vec<LiveRun>,
    /// About which sequence number the segment was opened at.
    pub opened: Option<u64>,
}

/// A live run of a victim, with what its summary says of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::reclaim) struct LiveRun {
    pub at: Pba,
    pub blocks: u64,
    pub owner: Owner,
}

/// What a block was first written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reclaim) struct Owner {
    pub tree: TreeId,
    pub lba: u64,
    pub birth: u64,
}
