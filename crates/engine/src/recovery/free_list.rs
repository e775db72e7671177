//! Lists the segments that are free after recovery, and those that stay until its checkpoint is
//! durable.

use std::collections::BTreeSet;

use mjolnir_units::ZoneId;

use crate::space::{MAP_STREAM, Segment, SegmentState, Space};

/// One in 16 segments, in the manifest's order, is a landmark: once opened, recovery does not reuse
/// it before a new root is durable.
pub(crate) const LANDMARKS: usize = 16;

impl Segment {
    fn is_free(&self) -> bool {
        self.state == SegmentState::Free
    }

    /// Whether the segment belongs to a checkpoint that never got its root. Valid once the live
    /// bytes in the map's segments are counted.
    fn is_left_over(&self) -> bool {
        (self.state, self.stream, self.map_bytes) == (SegmentState::Sealed, MAP_STREAM, 0)
    }
}

impl Space {
    /// Lists unneeded segments as free, in this `order`. Segments that prove a loss, or the durable
    /// sequence number, stay until a root no longer needs them: an interrupted recovery starts
    /// again from the same state. `telling` are segments that may have lost records. `witnesses`
    /// are all segments that prove the durable sequence number; one of them is enough.
    pub fn list_free(
        &mut self,
        order: &[ZoneId],
        is_root_in_doubt: bool,
        telling: &[ZoneId],
        witnesses: &BTreeSet<ZoneId>,
    ) {
        for zone in telling {
            let segment = self.get_mut(*zone);
            if segment.is_free() {
                segment.state = SegmentState::Retiring;
            }
        }
        // On a full store the next checkpoint needs these left-over segments. The landmarks among
        // them stay: after a power failure, a segment that was reset and not rewritten looks
        // unopened, and the search for clients' segments ends behind very many of those. If the
        // root is in doubt, it may lead to any of them, so all stay.
        let left_over: BTreeSet<ZoneId> = (0..)
            .zip(order)
            .filter(|(at, _)| !is_root_in_doubt && at % LANDMARKS != LANDMARKS - 1)
            .map(|(_, zone)| *zone)
            .filter(|zone| self.get(*zone).is_left_over())
            .collect();
        let goes = |zone: &ZoneId| self.get(*zone).is_free() || left_over.contains(zone);
        let witness = witnesses.first().copied().filter(|_| witnesses.iter().all(goes));
        if let Some(zone) = witness {
            self.get_mut(zone).state = SegmentState::Retiring;
        }
        for zone in order {
            if self.get(*zone).is_free() {
                self.push_free(*zone);
            }
        }
        // The witness comes last.
        for zone in order {
            if left_over.contains(zone) && Some(*zone) != witness {
                self.push_free(*zone);
            }
        }
        // Last resort: a store that cannot be opened for lack of space would be worse.
        if self.free_count() < self.checkpoint_reserve() {
            witness.inspect(|zone| self.push_free(*zone));
        }
        // The checkpoint at the end of recovery may write anywhere: no later recovery looks for
        // segments of the map.
        while self.free_count() < self.checkpoint_reserve() && self.forgive_one() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: std::ops::Range<u32> = 10..40;

    /// Forty segments: clients' up to 10, then `left_over` dead ones of the map, then free ones.
    fn space(left_over: u32) -> Space {
        let mut space = Space::new(40, 64);
        space.reserve_for_checkpoint(10 * space.payload_bytes(), 0);
        for zone in 0..10 + left_over {
            let segment = space.get_mut(ZoneId(zone));
            segment.state = SegmentState::Sealed;
            segment.stream = if zone < 10 { 3 } else { MAP_STREAM };
        }
        space
    }

    fn list_free(space: &mut Space, telling: &[u32], witnesses: &[u32], is_root_in_doubt: bool) {
        let order: Vec<ZoneId> = ORDER.map(ZoneId).collect();
        let telling: Vec<ZoneId> = telling.iter().copied().map(ZoneId).collect();
        let witnesses = witnesses.iter().copied().map(ZoneId).collect();
        space.list_free(&order, is_root_in_doubt, &telling, &witnesses);
    }

    /// The segments of the order that are not free.
    fn kept(space: &Space) -> Vec<u32> {
        ORDER.filter(|zone| !space.get(ZoneId(*zone)).is_free()).collect()
    }

    #[test]
    fn what_is_left_over_is_free_but_for_landmarks_and_unless_the_root_is_in_doubt() {
        let mut space = space(20);
        list_free(&mut space, &[], &[], false);
        assert_eq!((kept(&space), space.free_count()), (vec![25], 29));
        let mut space = self::space(20);
        list_free(&mut space, &[], &[12], true);
        assert_eq!((kept(&space), space.free_count()), ((10..30).collect(), 10));
    }

    #[test]
    fn what_alone_tells_of_a_promise_stays_and_what_tells_of_a_loss() {
        for (witnesses, kept_of_them) in [
            (&[11, 12][..], &[11][..]),
            (&[35], &[35]),
            (&[3, 11], &[]),
            (&[11, 26], &[]),
            (&[11, 25], &[]), // A landmark stays.
            (&[35, 38], &[]), // A segment that proves a loss stays.
        ] {
            let mut space = space(20);
            space.get_mut(ZoneId(26)).map_bytes = 1; // A root refers to it.
            list_free(&mut space, &[2, 26, 38], witnesses, false);
            let mut expected = [kept_of_them, &[25, 26, 38]].concat();
            expected.sort();
            assert_eq!(kept(&space), expected);
            assert_eq!(
                space.get(ZoneId(38)).state,
                SegmentState::Retiring,
                "until there is a root"
            );
            assert_eq!(space.get(ZoneId(26)).state, SegmentState::Sealed, "it is in use");
            assert_eq!(space.get(ZoneId(2)).state, SegmentState::Sealed, "it is in use");
        }
    }

    #[test]
    fn a_checkpoint_has_room_whoever_tells_of_a_promise() {
        let mut space = space(20);
        space.reserve_for_checkpoint(26 * space.payload_bytes(), 0);
        list_free(&mut space, &[], &[11], false);
        assert_eq!(kept(&space), [11, 25], "there is just as much room");
        let mut space = self::space(20);
        space.reserve_for_checkpoint(27 * space.payload_bytes(), 0);
        list_free(&mut space, &[], &[11], false);
        assert_eq!((kept(&space), space.free_count()), (vec![25], 29));
        let mut space = self::space(20);
        list_free(&mut space, &[], &[35], true);
        assert_eq!(
            (kept(&space), space.free_count()),
            ((10..30).collect(), 10),
            "no other had room"
        );
    }
}
