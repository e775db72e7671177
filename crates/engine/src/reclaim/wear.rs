//! Static wear levelling: data that nobody overwrites is moved now and then, so that the flash below
//! it takes its turn.
//!
//! Dynamic wear levelling needs nothing of its own: free segments are opened in the order in which
//! they became free.

use mjolnir_units::ZoneId;

use crate::drive::State;

impl State {
    /// Adds the least worn segments to the victims, as the last of them, if they are too far behind
    /// the most worn one.
    ///
    /// One, and another one for each eight victims, however many of their blocks are live: so levelling goes on
    /// only while reclaim does. Where there is no room for one, it is spared as any other victim. None where
    /// reclaim was asked for by name: that moves only what was planned.
    pub(in crate::reclaim) fn add_least_worn(
        &mut self,
        chosen: &mut Vec<ZoneId>,
        erases: impl Fn(ZoneId) -> Option<u32>,
    ) {
        let Some(gap_max) = self.reclaim.options.wear_gap_max else { return };
        if chosen.is_empty() || self.reclaim.is_forced() {
            return;
        }
        let most = self.space.zones().filter_map(|(zone, _)| erases(zone)).max().unwrap_or(0);
        let movable = self.space.sealed_data().filter(|(zone, segment)| {
            segment.live.is_some() && segment.stuck().is_none() && !chosen.contains(zone)
        });
        let behind = |erases: &u32| most - erases > gap_max;
        let mut least: Vec<(u32, ZoneId)> =
            movable.filter_map(|(zone, _)| Some((erases(zone).filter(behind)?, zone))).collect();
        least.sort_unstable();
        least.truncate(1 + chosen.len() / 8);
        self.reclaim.counters.segments_levelled += least.len() as u64;
        chosen.extend(least.into_iter().map(|(_, zone)| zone));
    }
}
