//! What a mark found live: the live blocks of each segment, and the live bits of the candidates, by which the
//! batches of its cycle are relocated.
//!
//! A block of a candidate that is live now was live when the mark began: a new reference is copied from one
//! that existed. A block that ceased to be live since is among those that were displaced since the mark began
//! ([`Map::displaced`](mjolnir_map::Map::displaced)). Where no block was referred to twice when it began, each
//! displaced block has ceased to be live. Otherwise something else may still refer to it: if many blocks of the
//! victims were displaced, the leaves are asked again.
//!
//! The mark before tells that no block was referred to twice: it saw each block once, and no leaf was copied,
//! cloned or shared since it began ([`Map::referred_again`](mjolnir_map::Map::referred_again)). The mark itself
//! cannot tell: of two references to a block, the first may be displaced before the walk comes there.

use std::collections::BTreeMap;

use mjolnir_map::Bits;
use mjolnir_units::ZoneId;

use crate::drive::State;
use crate::reclaim::victim::Victim;

/// At most one in so many blocks may be copied though nothing refers to it any more.
const IN_VAIN: u64 = 64;

/// See the module.
pub(in crate::reclaim) struct Live {
    /// Live blocks of each segment that the mark judges.
    pub counts: Vec<(ZoneId, u32)>,
    /// Live blocks of all zones.
    pub blocks: u64,
    /// A bit for each block of a candidate, counted from the start of its zone.
    pub(super) candidates: BTreeMap<ZoneId, Bits>,
    /// Set if nothing was referred to twice when the mark began: how often something had been referred to again
    /// by then.
    pub(super) singly_at: Option<u64>,
    /// Whether many leaves that refer to candidates had a twin, and leaves may be held for it.
    pub twins: bool,
}

impl Live {
    /// What the sheets of a mark say.
    pub(super) fn new(
        counts: Vec<(ZoneId, u32)>,
        blocks: u64,
        candidates: BTreeMap<ZoneId, Bits>,
    ) -> Self {
        Live { counts, blocks, candidates, singly_at: None, twins: false }
    }

    /// The live bits of a candidate.
    pub fn bits_of(&self, zone: ZoneId) -> Option<&Bits> {
        self.candidates.get(&zone)
    }

    /// Bytes of memory of the candidates' bits.
    pub fn bits_bytes(&self) -> u64 {
        self.candidates.values().map(|live| live.bytes() as u64).sum()
    }
}

impl State {
    /// The victims' live bits, at most one in [`IN_VAIN`] of them stale; `None` if the mark cannot decide.
    /// Forgets the bits of segments that are no candidates any more.
    pub(in crate::reclaim) fn still_live(
        &mut self,
        victims: &[Victim],
        marked: &mut Live,
    ) -> Option<Vec<Bits>> {
        marked.candidates.retain(|zone, _| self.reclaim.index.leaves(*zone).is_some());
        self.reclaim.mark_bytes = marked.bits_bytes();
        let singly = marked.singly_at == Some(self.map.referred_again());
        let (mut live, mut doubtful) = (0, 0);
        let still = victims.iter().map(|Victim { zone, .. }| {
            let (mut bits, displaced) =
                (marked.bits_of(*zone)?.clone(), self.map.displaced(zone.0)?);
            match singly {
                true => bits.clear_those_of(displaced),
                false => doubtful += bits.in_common_with(displaced),
            }
            live += u64::from(self.space.get(*zone).live.unwrap_or(0));
            Some(bits)
        });
        let still = still.collect::<Option<Vec<_>>>()?;
        (doubtful <= live / IN_VAIN).then_some(still)
    }
}
