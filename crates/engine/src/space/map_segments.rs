//! Segments of the map's own stream: the bytes in use in each.

use mjolnir_units::{BLOCK_SIZE, ZoneId};

use crate::space::streams::MAP_STREAM;
use crate::space::{Segment, SegmentState, Space};

/// The map's own segments.
impl Space {
    /// Adds bytes of the map's stream as live (`sign` 1) or dead (-1).
    pub fn add_map_bytes(&mut self, place: crate::format::place::Place, sign: i64) {
        let zone = self.zone_of(place.pba);
        let segment = self.get_mut(zone);
        let bytes = segment.map_bytes as i64 + sign * place.bytes as i64;
        assert!(bytes >= 0, "live map bytes of {zone} below zero");
        segment.map_bytes = bytes as u64;
    }

    /// Sealed segments of the map's stream in which nothing is live.
    pub fn empty_map_segments(&self) -> Vec<ZoneId> {
        self.map_segments().filter(|(_, s)| s.map_bytes == 0).map(|(zone, _)| zone).collect()
    }

    /// Bad segments of the map's stream, and the emptiest ones with more dead bytes than live ones, with at most `budget` live bytes together. Each checkpoint moves the live bytes out of
    /// a few of them.
    pub fn sparse_map_segments(&self, mut budget: u64) -> Vec<ZoneId> {
        let bytes = self.zone_blocks * BLOCK_SIZE;
        let mut sparse: Vec<(bool, u64, ZoneId)> = self
            .map_segments()
            .map(|(zone, segment)| (!self.is_bad(zone), segment.map_bytes, zone))
            .filter(|(sound, live, _)| *live > 0 && (*live * 2 < bytes || !sound))
            .collect();
        sparse.sort();
        sparse
            .into_iter()
            .take_while(|(_, live, _)| {
                let fits = *live <= budget;
                budget = budget.saturating_sub(*live);
                fits
            })
            .map(|(_, _, zone)| zone)
            .collect()
    }

    /// Live bytes that [`sparse_map_segments`](Self::sparse_map_segments) would move with an
    /// unlimited budget.
    pub fn sparse_map_bytes(&self) -> u64 {
        self.sparse_map_segments(self.payload_bytes())
            .iter()
            .map(|zone| self.get(*zone).map_bytes)
            .sum()
    }

    fn map_segments(&self) -> impl Iterator<Item = (ZoneId, &Segment)> {
        self.zones().filter(|(_, segment)| {
            segment.stream == MAP_STREAM && segment.state == SegmentState::Sealed
        })
    }
}
