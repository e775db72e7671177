//! What a mark found live of the candidates, which the batches of its cycle go by.
//!
//! All that is live of a candidate was live then: whoever refers to it anew got that from what did
//! already. What ceased to be is among what was displaced since the mark began
//! ([`Map::displaced`](mjolnir_map::Map::displaced)), and it is all of that where nothing was referred
//! to twice then. Otherwise something else may refer to it, and leaves are asked again if it is much.
//!
//! That nothing was says the mark before, if it saw each block once and no leaf was copied, cloned or
//! shared since it began ([`Map::referred_again`](mjolnir_map::Map::referred_again)). This one cannot say
//! it: of two references the first may have been displaced before it came there.

use std::collections::BTreeMap;

use mjolnir_map::Bits;
use mjolnir_units::ZoneId;

use crate::drive::State;
use crate::reclaim::mark::Walked;

/// At most one block in so many may be copied though nothing refers to it any more.
const IN_VAIN: u64 = 64;

/// See the module.
pub(crate) struct Marked {
    /// A bit for each block of a candidate.
    live: BTreeMap<ZoneId, Bits>,
    /// Whether nothing was referred to twice when the mark began, and what tells whether it is so still.
    singly: bool,
    again: u64,
    /// Whether many leaves that refer to candidates had a twin, and leaves may be held for it.
    pub twins: bool,
}

impl Marked {
    /// What was found of the candidates.
    pub fn new(walked: Walked) -> Self {
        let Walked { live, singly, again, twins, .. } = walked;
        Marked { live: live.candidates, singly, again, twins }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.live.values().map(|live| live.bytes() as u64).sum()
    }
}

impl State {
    /// What is live of victims, but for a little that is not any more; none if a mark does not tell.
    /// What it found of segments that are no candidates any more is forgotten.
    pub(crate) fn still_live(
        &mut self,
        victims: &[ZoneId],
        marked: &mut Marked,
    ) -> Option<Vec<Bits>> {
        marked.live.retain(|zone, _| self.reclaim.index.leaves(*zone).is_some());
        self.reclaim.mark_bytes = marked.bytes();
        let singly = marked.singly && self.map.referred_again() == marked.again;
        let (mut live, mut doubtful) = (0, 0);
        let still = victims.iter().map(|zone| {
            let (mut sheet, displaced) =
                (marked.live.get(zone)?.clone(), self.map.displaced(zone.0)?);
            match singly {
                true => sheet.clear_those_of(displaced),
                false => doubtful += sheet.in_common_with(displaced),
            }
            live += u64::from(self.space.get(*zone).live.unwrap_or(0));
            Some(sheet)
        });
        let still = still.collect::<Option<Vec<_>>>()?;
        (doubtful <= live / IN_VAIN).then_some(still)
    }
}
