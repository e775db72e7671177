//! Check: every invariant of the format and of the map that can be checked without reading the
//! data (that is what scrub does).

use std::collections::BTreeMap;

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_SIZE, Lba, TreeId, ZoneId};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::node_io::Place;
use crate::space::{MAP_STREAM, SegmentState};

/// What a check looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Volumes and snapshots whose whole map was walked.
    pub targets: u64,
    /// Mapped extents seen.
    pub extents: u64,
    /// Mapped bytes, counted once for each target that refers to them.
    pub mapped_bytes: u64,
    /// Segments whose entry was checked.
    pub segments: u64,
    /// What is wrong, in words; empty if all is well.
    pub problems: Vec<String>,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Checks the store's structure. Works on a store in use: each step sees a whole state.
    pub async fn check(&self) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let trees: Vec<(TreeId, String)> = {
            let state = self.state();
            state
                .map
                .trees()
                .map(|(tree, _)| {
                    let name = state.catalog.full_name(tree);
                    (tree, name.unwrap_or_else(|| format!("staged tree {}", tree.0)))
                })
                .collect()
        };
        for (tree, name) in &trees {
            if self.state().catalog.get(*tree).is_none() && self.state().map.contains(*tree) {
                report.problems.push(format!("{name} is in the map, but has no name"));
            }
            self.check_tree(*tree, name, &mut report).await;
        }
        self.check_segments(&mut report);
        let verified = self.state().map.verify();
        if let Err(problem) = verified {
            report.problems.push(format!("the map: {problem}"));
        }
        let state = self.state();
        for (tree, _) in state.catalog.iter() {
            if !state.map.contains(tree) {
                report.problems.push(format!("tree {} has a name, but no map", tree.0));
            }
        }
        for (tree, _) in &state.prepared {
            if !state.map.contains(*tree) {
                report.problems.push(format!("transaction {} has no staged tree", tree.0));
            }
        }
        Ok(report)
    }

    /// Walks one tree: every mapping must lie in the payload of a segment in use.
    async fn check_tree(&self, tree: TreeId, name: &str, report: &mut CheckReport) {
        report.targets += 1;
        let mut lba = 0;
        loop {
            let outcome = self
                .step(|state| {
                    let Some(blocks) = state.map.blocks(tree).filter(|blocks| lba < *blocks) else {
                        return Ok(None);
                    };
                    let runs = state.map.runs(tree, Lba(lba), 1024)?;
                    let mut problems = Vec::new();
                    let (mut at, mut extents, mut mapped) = (lba, 0, 0);
                    for run in &runs {
                        if let Some(pba) = run.pba {
                            extents += 1;
                            mapped += run.blocks;
                            if let Some(problem) = state.check_mapping(pba, run.blocks) {
                                problems.push(format!(
                                    "{name}: blocks {at}+{} map to {pba}, {problem}",
                                    run.blocks
                                ));
                            }
                        }
                        at += run.blocks;
                    }
                    if at > blocks {
                        problems.push(format!("{name}: its extents add up to more than its size"));
                    }
                    Ok(Some((at, extents, mapped, problems)))
                })
                .await;
            match outcome {
                Ok(None) => return,
                Ok(Some((at, extents, mapped, problems))) => {
                    report.extents += extents;
                    report.mapped_bytes += mapped * BLOCK_SIZE;
                    report.problems.extend(problems);
                    if at == lba {
                        report.problems.push(format!("{name}: its map ends at block {at}"));
                        return;
                    }
                    lba = at;
                }
                Err(error) => {
                    report.problems.push(format!(
                        "{name}: the map from block {lba} on cannot be read: {}",
                        error.message
                    ));
                    return;
                }
            }
        }
    }

    /// The live bytes of the map's segments, counted anew.
    fn check_segments(&self, report: &mut CheckReport) {
        let state = self.state();
        let mut counted: BTreeMap<ZoneId, u64> = BTreeMap::new();
        let mut places: Vec<Place> = Vec::new();
        places.extend(state.durable_table().map(Place::unpack));
        places.extend(state.table.pages.iter().filter(|p| **p != 0).map(|p| Place::unpack(*p)));
        for (pba, blocks) in &state.table.manifest {
            let bytes = u64::from(*blocks) * BLOCK_SIZE;
            places.push(Place { pba: *pba, offset: 0, bytes });
        }
        for place in places {
            *counted.entry(state.space.zone_of(place.pba)).or_default() += place.bytes;
        }
        for (zone, segment) in state.space.zones() {
            report.segments += 1;
            let live = counted.get(&zone).copied().unwrap_or(0);
            let in_use = matches!(segment.state, SegmentState::Sealed | SegmentState::Open);
            // While a checkpoint runs, what it supersedes is still counted.
            if !state.checkpoint.running && live != segment.map_bytes {
                report.problems.push(format!(
                    "{zone}: {live} bytes of the map lie there, but {} are counted",
                    segment.map_bytes
                ));
            }
            if live > 0 && (!in_use || segment.stream != MAP_STREAM) {
                report.problems.push(format!(
                    "{zone} holds {live} bytes of the map, but is {:?} in stream {}",
                    segment.state, segment.stream
                ));
            }
            if u64::from(segment.used) > state.space.zone_blocks {
                report.problems.push(format!("{zone} uses more blocks than it has"));
            }
        }
    }
}

impl crate::engine::State {
    /// What is wrong with a mapping's address, if anything.
    fn check_mapping(&self, pba: mjolnir_units::Pba, blocks: u64) -> Option<String> {
        let zone = self.space.zone_of(pba);
        if zone.0 as usize >= self.space.segments.len() {
            return Some("past the end of the device".into());
        }
        let segment = self.space.get(zone);
        if !matches!(segment.state, SegmentState::Sealed | SegmentState::Open) {
            return Some(format!("in {zone}, which is {:?}", segment.state));
        }
        if segment.stream == MAP_STREAM {
            return Some(format!("in {zone}, which holds the map"));
        }
        let offset = pba.offset(self.space.zone_blocks);
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        // An open group is beyond `used` until it is sent.
        let open = segment.state == SegmentState::Open;
        if offset == 0 || (!open && offset + blocks > u64::from(end)) {
            return Some(format!("outside of what {zone} holds ({end} blocks)"));
        }
        None
    }
}
