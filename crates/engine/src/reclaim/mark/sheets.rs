//! The sheets of a mark: one bit for each block of the device, set where the block is live.
//!
//! Several jobs mark at once. Each job sets bits on a sheet of its own, with plain stores: an atomic store would
//! stop the processor from overlapping cache misses, and the time of a mark of a large map is cache misses. A
//! processor keeps its sheet from job to job: the lines of a sheet that another processor wrote last have to come
//! from the cache of that one. When the mark has ended, as many threads join the sheets, piece by piece: they
//! count the bits that any sheet has set, and join those of the candidates. With many processors the sheets are
//! large.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use mjolnir_map::Bits;
use mjolnir_units::ZoneId;

use crate::reclaim::mark::live::Live;
use crate::reclaim::mark::zone_set::ZoneSet;

/// Bytes of all sheets that a piece has at least: less is not worth handing to another processor.
const PIECE_BYTES_MIN: usize = 16 << 10;

/// The most, unless a zone has more: some 0.1 ms, for which clients may wait.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The segments that a mark judges, of a device.
struct Judged {
    zone_blocks: u64,
    zones: u64,
    segments: Vec<ZoneId>,
}

impl Judged {
    fn blocks(&self) -> u64 {
        self.zones * self.zone_blocks
    }
}

/// What the jobs of a mark have found live so far.
pub(in crate::reclaim) struct Sheets {
    judged: Judged,
    /// One for each job that may run at once; without room before it is first used.
    sheets: Vec<Mutex<Bits>>,
}

impl Sheets {
    /// No block is live yet. The device has `zones` zones; those `judged` will be counted. Up to
    /// `jobs` jobs mark at once.
    pub fn new(zones: usize, zone_blocks: u64, judged: Vec<ZoneId>, jobs: usize) -> Self {
        let sheets = (0..jobs).map(|_| Mutex::default()).collect();
        Sheets { judged: Judged { zone_blocks, zones: zones as u64, segments: judged }, sheets }
    }

    /// The sheet of a job, by its number, which no other has at the time: nobody waits for it.
    pub fn sheet(&self, job: usize) -> MutexGuard<'_, Bits> {
        let mut sheet = self.sheets[job].lock().expect("a mark ends with a job that panicked");
        if sheet.room() == 0 {
            *sheet = Bits::new(self.judged.blocks());
        }
        sheet
    }

    /// Bytes of a sheet.
    pub fn sheet_bytes(&self) -> u64 {
        8 * self.judged.blocks().div_ceil(64)
    }

    /// Ends the marking. What is left to do can be done by `threads` threads at once.
    pub(super) fn end(self, threads: usize) -> Ended {
        let unlocked = |sheet: Mutex<Bits>| sheet.into_inner().expect("no job panicked");
        let sheets = self.sheets.into_iter().map(unlocked);
        let sheets: Vec<Bits> = sheets.filter(|sheet| sheet.room() > 0).collect();
        let bytes: usize = sheets.iter().map(Bits::bytes).sum();
        let pieces = (bytes / PIECE_BYTES_MIN).min(threads.max(bytes / PIECE_BYTES_MAX));
        let pieces = pieces.min(self.judged.zones as usize).max(1);
        Ended { judged: self.judged, sheets, bytes, pieces, taken: AtomicUsize::new(0) }
    }

    /// Ends the marking, and counts in this thread.
    pub fn counted(self, candidates: &ZoneSet) -> Live {
        let ended = self.end(1);
        let pieces = ended.count_left(candidates).collect();
        ended.counted(pieces)
    }
}

/// The sheets of a mark that has ended, to be counted piece by piece.
pub(super) struct Ended {
    judged: Judged,
    sheets: Vec<Bits>,
    /// Of all sheets.
    bytes: usize,
    pieces: usize,
    /// How many have been taken by whoever counts them.
    taken: AtomicUsize,
}

/// What is live of some zones, one after the other.
pub(super) struct Piece {
    counts: Vec<u32>,
    /// The blocks, counted from the zone's start, of those that are candidates.
    candidates: Vec<(ZoneId, Bits)>,
}

impl Ended {
    /// Whether it is not worth handing to another processor.
    pub fn is_little(&self) -> bool {
        self.bytes < 2 * PIECE_BYTES_MIN
    }

    /// Bytes of memory that the bits of these will take.
    pub fn candidates_bytes(&self, candidates: &ZoneSet) -> u64 {
        8 * self.judged.zone_blocks.div_ceil(64) * candidates.len() as u64
    }

    /// Counts pieces, with their numbers, one after the other as long as there are some that nobody else
    /// has taken: in any thread.
    pub fn count_left(&self, candidates: &ZoneSet) -> impl Iterator<Item = (usize, Piece)> {
        std::iter::from_fn(move || {
            let number = self.taken.fetch_add(1, Ordering::Relaxed);
            (number < self.pieces).then(|| (number, self.count(number, candidates)))
        })
    }

    fn count(&self, number: usize, candidates: &ZoneSet) -> Piece {
        let zone_blocks = self.judged.zone_blocks;
        let begin = |number: usize| (self.judged.zones * number as u64 / self.pieces as u64) as u32;
        let (mut counts, mut bits) = (Vec::new(), Vec::new());
        for zone in (begin(number)..begin(number + 1)).map(ZoneId) {
            let start = zone.start(zone_blocks);
            let end = start.0 + zone_blocks;
            counts.push(Bits::count_in_any(&self.sheets, start.0, end) as u32);
            if candidates.find(start).is_some() {
                let mut live = Bits::new(zone_blocks);
                for sheet in &self.sheets {
                    live.set_those_of(&sheet.part(start.0, end));
                }
                bits.push((zone, live));
            }
        }
        Piece { counts, candidates: bits }
    }

    /// The whole, of all pieces by their numbers.
    pub fn counted(self, pieces: BTreeMap<usize, Piece>) -> Live {
        let (mut counts, mut candidates) = (Vec::new(), BTreeMap::new());
        for piece in pieces.into_values() {
            counts.extend(piece.counts);
            candidates.extend(piece.candidates);
        }
        let zones = self.judged.zones;
        assert_eq!(counts.len() as u64, zones, "what is missing would not be live");
        let blocks = counts.iter().map(|count| u64::from(*count)).sum();
        let count = |zone: ZoneId| (zone, counts[zone.0 as usize]);
        let counts = self.judged.segments.into_iter().map(count).collect();
        Live::new(counts, blocks, candidates)
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn counts_equal_those_of_a_set_of_blocks_however_many_sheets_and_pieces() {
        let mut random = Pcg64::seed_from_u64(2);
        for (zone_blocks, marks, pieces) in
            [(33, 60, 1), (64, 60, 2), (100, 60, 4), (700, 60, 5), (700, 3, 3)]
        {
            let zones = 5;
            let judged = vec![ZoneId(0), ZoneId(2), ZoneId(4)];
            let sheets = Sheets::new(zones, zone_blocks, judged.clone(), 3);
            let mut naive = std::collections::BTreeSet::new();
            for index in 0..marks {
                let at = random.next_u64() % (zones as u64 * zone_blocks);
                let blocks = 1 + random.next_u64() % 40;
                sheets.sheet(index % 3).set_run(at, at + blocks);
                naive.extend(at..at + blocks);
            }
            let candidates = ZoneSet::new(zones, zone_blocks, [ZoneId(4), ZoneId(1)].into_iter());
            let ended = Ended { pieces, ..sheets.end(9) };
            let bytes_expected = ended.candidates_bytes(&candidates);
            let counted: BTreeMap<_, _> = {
                // By two that take turns.
                let mut both = [ended.count_left(&candidates), ended.count_left(&candidates)];
                let counted = (0..pieces).map(|turn| both[turn % 2].next().unwrap()).collect();
                assert!(both.iter_mut().all(|left| left.next().is_none()));
                counted
            };
            assert_eq!(counted.len(), pieces);
            let live = ended.counted(counted);
            let expected = judged.iter().map(|zone| {
                let from = u64::from(zone.0) * zone_blocks;
                (*zone, naive.range(from..from + zone_blocks).count() as u32)
            });
            assert!(live.counts.iter().copied().eq(expected));
            assert_eq!(live.blocks, naive.range(..zones as u64 * zone_blocks).count() as u64);
            let known: Vec<_> = live.candidates.keys().copied().collect();
            assert_eq!(known, [ZoneId(1), ZoneId(4)]);
            assert_eq!(live.bits_bytes(), bytes_expected);
            for (zone, part) in &live.candidates {
                let from = u64::from(zone.0) * zone_blocks;
                let mut blocks = Vec::new();
                part.runs(0, zone_blocks, |at, run| blocks.extend(from + at..from + at + run));
                assert!(blocks.iter().eq(naive.range(from..from + zone_blocks)), "{zone}");
            }
        }
    }

    #[test]
    fn a_mark_with_one_sheet_or_none_is_counted_too() {
        for marks in 0..2 {
            let sheets = Sheets::new(3, 32, vec![ZoneId(1)], 2);
            (0..marks).for_each(|_| sheets.sheet(1).set(40));
            let candidates = ZoneSet::new(3, 32, [ZoneId(1)].into_iter());
            let live = sheets.counted(&candidates);
            assert_eq!(live.counts, [(ZoneId(1), marks)]);
            let bits = live.candidates.get(&ZoneId(1)).map(|bits| (bits.room(), bits.clone()));
            let mut expected = Bits::new(32);
            (0..marks).for_each(|_| expected.set(8));
            assert_eq!((live.blocks, bits), (u64::from(marks), Some((64, expected))));
        }
    }

    #[test]
    fn a_large_map_is_counted_in_many_pieces_and_a_small_one_in_one() {
        for (zones, zone_blocks, pieces) in
            [(9, 1 << 12, 1), (1, 1 << 25, 1), (9, 1 << 14, 2), (9, 1 << 18, 8), (200, 1 << 20, 50)]
        {
            let sheets = Sheets::new(zones, zone_blocks, vec![ZoneId(0)], 2);
            (0..2).for_each(|job| sheets.sheet(job).set(job as u64));
            let ended = sheets.end(8);
            assert_eq!(ended.pieces, pieces, "{zones} of {zone_blocks}");
            assert_eq!(ended.is_little(), zone_blocks == 1 << 12);
        }
    }
}
