//! Mark: one walk of the map that counts live blocks and indexes the candidates' referrers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{Node, NodeId};
use mjolnir_store::Error;
use mjolnir_units::{Pba, ZoneId};

use crate::engine::Engine;
use crate::space::{MAP_STREAM, SegmentState};

/// Map nodes per job: enough to outweigh handing it over, few enough to freeze little of the map.
const NODES_A_JOB: usize = 256;

/// One bit for each block of each segment that was sealed when the mark began.
pub(crate) struct LiveMap {
    zone_blocks: u64,
    zones: Vec<Option<Box<[AtomicU64]>>>,
}

impl LiveMap {
    /// A map with no bit set, for the given zones of a device of `count` zones.
    pub fn new(count: usize, zone_blocks: u64, zones: impl Iterator<Item = ZoneId>) -> Self {
        let mut live = LiveMap { zone_blocks, zones: (0..count).map(|_| None).collect() };
        let words = zone_blocks.div_ceil(64) as usize;
        for zone in zones {
            live.zones[zone.0 as usize] = Some((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        live
    }

    /// Sets the bits of a run within one zone. Each word is written at most once, and not at all
    /// if it is set already, so that threads rarely contend.
    fn set(&self, pba: Pba, blocks: u64) {
        let Some(Some(words)) = self.zones.get((pba.0 / self.zone_blocks) as usize) else {
            return;
        };
        let from = pba.0 % self.zone_blocks;
        let to = (from + blocks).min(self.zone_blocks);
        let mut at = from;
        while at < to {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let count = (64 - bit).min(to - at);
            let mask = (u64::MAX >> (64 - count)) << bit;
            if words[word].load(Ordering::Relaxed) & mask != mask {
                words[word].fetch_or(mask, Ordering::Relaxed);
            }
            at += count;
        }
    }

    /// Live blocks of each segment that the map covers.
    pub fn counts(&self) -> impl Iterator<Item = (ZoneId, u32)> {
        self.zones.iter().enumerate().filter_map(|(zone, words)| {
            let words = words.as_ref()?;
            let count = words.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
            Some((ZoneId(zone as u32), count))
        })
    }
}

/// What one job found.
struct Found {
    referrers: Vec<(ZoneId, NodeId)>,
    mappings: u64,
    leaves: u64,
}

/// The pure part: runs on any thread, over frozen leaves.
fn scan(leaves: &[(NodeId, Arc<Node>)], live: &LiveMap, candidates: &BTreeSet<ZoneId>) -> Found {
    let mut found = Found { referrers: Vec::new(), mappings: 0, leaves: leaves.len() as u64 };
    for (id, leaf) in leaves {
        let mut last = None;
        for (_, blocks, pba) in leaf.extents() {
            let Some(pba) = pba else { continue };
            found.mappings += 1;
            live.set(pba, blocks);
            if !candidates.is_empty() {
                let zone = pba.zone(live.zone_blocks);
                if last != Some(zone) && candidates.contains(&zone) {
                    found.referrers.push((zone, *id));
                    last = Some(zone);
                }
            }
        }
    }
    found
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Walks the map once. Leaves the candidates' referrers in the reclaim state.
    pub(super) async fn mark(&self) -> Result<Arc<LiveMap>, Error> {
        let (live, candidates) = {
            let mut state = self.state();
            let candidates: BTreeSet<ZoneId> = state.reclaim.candidates.keys().copied().collect();
            state.map.track_leaves(!candidates.is_empty());
            state.map.begin_mark();
            let sealed = state.space.zones().filter(|(_, segment)| {
                segment.state == SegmentState::Sealed && segment.stream != MAP_STREAM
            });
            let live = LiveMap::new(
                state.space.segments.len(),
                state.space.zone_blocks,
                sealed.map(|(zone, _)| zone),
            );
            (Arc::new(live), Arc::new(candidates))
        };
        let mut jobs = FuturesUnordered::new();
        let most = self.runtime().parallelism() + 1;
        loop {
            // A piece of the walk: freezes at most NODES_A_JOB nodes.
            let (cpu_before, wall_before) = (self.runtime().cpu_time(), self.runtime().now());
            let step = self.state().map.mark_step(NODES_A_JOB);
            for id in step.absent {
                self.load_node(id).await?;
            }
            if !step.leaves.is_empty() {
                let (live, candidates) = (live.clone(), candidates.clone());
                let leaves = step.leaves;
                jobs.push(self.runtime().parallel(move || scan(&leaves, &live, &candidates)));
            }
            if step.done && jobs.is_empty() {
                // Nothing grey and nothing in flight, in this very step.
                let mut state = self.state();
                state.map.end_mark();
                state.reclaim.nodes_marked = state.map.usage().nodes;
                return Ok(live);
            }
            if (step.done || jobs.len() >= most)
                && let Some(found) = jobs.next().await
            {
                let mut state = self.state();
                state.reclaim.counters.leaves_scanned += found.leaves;
                state.reclaim.counters.mappings_scanned += found.mappings;
                for (zone, leaf) in found.referrers {
                    if let Some(leaves) = state.reclaim.candidates.get_mut(&zone) {
                        leaves.insert(leaf);
                    }
                }
            }
            let cpu = self.runtime().cpu_time().saturating_sub(cpu_before);
            self.rest_after_scan(cpu, self.runtime().now() - wall_before).await;
            if self.state().closing || self.state().failed.is_some() {
                return Err(Error::new(mjolnir_store::ErrorKind::Closed, "the store is closing"));
            }
        }
    }

    /// Keeps scanning within its share of a processor.
    async fn rest_after_scan(&self, cpu: Duration, mut wall: Duration) {
        let mut cpu = cpu;
        loop {
            let rest = {
                let mut state = self.state();
                state.reclaim.counters.scan_cpu_ns += cpu.as_nanos() as u64;
                let full_speed = state.reclaim.urgent
                    || state.reclaim.forced > state.reclaim.forced_done
                    || state.closing;
                if full_speed {
                    return;
                }
                let pressure = state.reclaim.last_pacing.pressure;
                state.reclaim.budget.rest(cpu, wall, pressure)
            };
            if rest.is_zero() {
                return;
            }
            let before = self.runtime().now();
            self.runtime().sleep(rest).await;
            wall = self.runtime().now() - before;
            cpu = Duration::ZERO;
        }
    }
}
