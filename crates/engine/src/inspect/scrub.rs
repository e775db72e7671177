//! Scrub: reads and verifies all blocks, and reports the loss.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{BaseBefore, ONE_BASE_BYTES_MAX};
use mjolnir_store::Error;
use mjolnir_store::report::ScrubReport;
use mjolnir_store::report::{Loss, ReadPurpose, join};
use mjolnir_units::{BLOCK_SIZE, Pba, TreeId, ZoneId};

use crate::drive::{Engine, Hole};
use crate::fault;
use crate::format::group::GroupHeader;
use crate::format::place::{GRAIN, NODES_A_STEP, Place};
use crate::inspect::stretch::Stretch;
use crate::space::SegmentState;

/// A line for each run of damaged blocks (sorted) with the same message.
fn joined(bad: &[(Pba, String)]) -> impl Iterator<Item = String> {
    let rest = |(at, message): &(Pba, String)| message.replace(&at.to_string(), "");
    let alike =
        move |a: &(Pba, String), b: &(Pba, String)| a.0.plus(1) == b.0 && rest(a) == rest(b);
    bad.chunk_by(alike).map(|run| {
        // The advice to run a scrub is of no use in a scrub's report.
        let first = run[0].1.replace(fault::SCRUB, "");
        match run.len() {
            1 => first,
            2 => format!("{first}, and so for the block after it"),
            blocks => format!("{first}, and so for the {} blocks after it", blocks - 1),
        }
    })
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads and verifies every block in use. `progress` receives the part done, 0 to 1.
    pub async fn scrub(&self, mut progress: impl FnMut(f64)) -> Result<ScrubReport, Error> {
        self.refuse_if_failed("a scrub")?;
        let zones: Vec<ZoneId> = {
            let mut guard = self.state();
            let state = &mut *guard;
            // Open segments are read up to their last written block.
            state.log.close_groups(&mut state.space);
            state
                .space
                .zones()
                .filter(|(_, segment)| {
                    matches!(segment.state, SegmentState::Sealed | SegmentState::Open)
                })
                .map(|(zone, _)| zone)
                .collect()
        };
        self.submit();
        let mut report = ScrubReport::default();
        let mut bad: Vec<(Pba, String)> = Vec::new();
        let mut holes: Vec<Hole> = Vec::new();
        for (index, zone) in zones.iter().enumerate() {
            self.scrub_segment(*zone, &mut report, &mut bad, &mut holes).await;
            progress((index + 1) as f64 / zones.len() as f64);
        }
        self.refuse_if_failed("a scrub")?;
        let holes = self.holes_in_force(holes).await?;
        report.damage.extend(holes.iter().map(|hole| hole.message.replace(fault::SCRUB, "")));
        if !bad.is_empty() {
            bad.sort();
            let blocks: Vec<Pba> = bad.iter().map(|(pba, _)| *pba).collect();
            let mut hit = vec![false; blocks.len()];
            let whole = self.losses(&blocks, &mut hit, &mut report.losses).await?;
            self.note_map_blocks(&blocks, &mut hit).await;
            let found = bad.len() as u64;
            // If part of the map cannot be read, its references are unknown.
            let bad = bad.into_iter().zip(hit).filter(|(_, hit)| *hit || !whole);
            let bad: Vec<(Pba, String)> = bad.map(|(bad, _)| bad).collect();
            report.stale_blocks += found - bad.len() as u64;
            report.damage.extend(joined(&bad));
        }
        Ok(report)
    }

    pub(crate) async fn scrub_segment(
        &self,
        zone: ZoneId,
        report: &mut ScrubReport,
        bad: &mut Vec<(Pba, String)>,
        holes: &mut Vec<Hole>,
    ) {
        let (segment, zone_blocks, _pin) = {
            let mut state = self.state();
            let pin = crate::drive::Pin::new(self, &mut state, zone);
            (state.space.get(zone).clone(), state.space.zone_blocks, pin)
        };
        if !matches!(segment.state, SegmentState::Sealed | SegmentState::Open) {
            return; // Reclaimed since the scrub began.
        }
        report.segments += 1;
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        let walk = match self
            .walk_segment(ReadPurpose::Scrub, zone, segment.incarnation, end.into())
            .await
        {
            Ok(walk) => walk,
            Err(error) => {
                report.damage.push(error.message);
                return;
            }
        };
        let start = zone.start(zone_blocks);
        for hole in &walk.breaks {
            let hole = hole.hole(zone, zone_blocks, end.into());
            // The blocks that the lost header described are read one by one.
            for at in hole.blocks.clone().map(Pba) {
                match self.read_pinned(ReadPurpose::Scrub, at, 1).await {
                    Ok(_) => report.verified_bytes += BLOCK_SIZE,
                    Err(error) => bad.push((at, error.message)),
                }
            }
            holes.push(hole);
        }
        let groups: Vec<GroupHeader> = walk.groups;
        for group in groups {
            let mut offset = u64::from(group.offset) + 1;
            let mut left = group.checksums.len() as u64;
            while left > 0 {
                let count = left.min(128);
                match self.read_pinned(ReadPurpose::Scrub, start.plus(offset), count).await {
                    Ok(_) => report.verified_bytes += count * BLOCK_SIZE,
                    Err(_) => {
                        // Read block by block, to name exactly the damaged ones.
                        for at in offset..offset + count {
                            match self.read_pinned(ReadPurpose::Scrub, start.plus(at), 1).await {
                                Ok(_) => report.verified_bytes += BLOCK_SIZE,
                                Err(error) => bad.push((start.plus(at), error.message)),
                            }
                        }
                    }
                }
                offset += count;
                left -= count;
            }
        }
    }

    /// Marks which of the given blocks (sorted) hold current nodes, pages or manifests.
    pub(crate) async fn note_map_blocks(&self, bad: &[Pba], hit: &mut [bool]) {
        let within = |pba: Pba, blocks: u64| {
            let from = bad.partition_point(|at| *at < pba);
            from..bad.partition_point(|at| *at < pba.plus(blocks))
        };
        let (places, zone_blocks) = {
            let state = self.state();
            let mut places: Vec<Place> = Vec::new();
            places.extend(state.durable_table().map(Place::unpack));
            places.extend(state.table.pages.iter().filter(|p| **p != 0).map(|p| Place::unpack(*p)));
            for place in &places {
                hit[within(place.pba, place.blocks())].fill(true);
            }
            for (pba, blocks) in &state.table.manifest {
                hit[within(*pba, u64::from(*blocks))].fill(true);
            }
            (places, state.space.zone_blocks)
        };
        // The base of images lies a little before them, whether the image that owns it is current
        // or not.
        const AROUND: u64 =
            (ONE_BASE_BYTES_MAX as u64 + NODES_A_STEP as u64 * GRAIN) / BLOCK_SIZE + 1;
        for place in places {
            let from = Pba(place.pba.0.saturating_sub(AROUND));
            if within(from, AROUND + 1).is_empty() {
                continue;
            }
            let Ok(bytes) = self.read_verified(ReadPurpose::Map, place.pba, place.blocks()).await
            else {
                continue;
            };
            let image = &bytes[place.offset as usize..(place.offset + place.bytes) as usize];
            let base = BaseBefore::of(image).map(|base| place.base(base, zone_blocks));
            if let Some(Ok(base)) = base {
                hit[within(base.pba, base.blocks())].fill(true);
            }
        }
    }

    /// Reports which ranges of which targets refer to the given blocks (sorted), and marks those
    /// blocks; reports also the ranges whose map is lost. Returns whether the whole map could be
    /// read.
    pub(crate) async fn losses(
        &self,
        bad: &[Pba],
        noted: &mut [bool],
        losses: &mut Vec<Loss>,
    ) -> Result<bool, Error> {
        let mut whole = true;
        let targets: Vec<(TreeId, String)> = {
            let state = self.state();
            let name = |tree| {
                let name = state.catalog.full_name(tree);
                name.unwrap_or_else(|| format!("staged tree {}", tree.0))
            };
            state.map.trees().map(|(tree, _)| (tree, name(tree))).collect()
        };
        for (tree, target) in targets {
            let mut lba = 0;
            while let Some(stretch) = self.stretch(tree, lba).await {
                let runs = match stretch {
                    Stretch::Runs(runs) => runs,
                    Stretch::Lost(blocks, _) => {
                        whole = false;
                        let (offset, length) =
                            (lba * BLOCK_SIZE, self.state().clip(tree, lba, blocks));
                        losses.push(Loss { target: target.clone(), offset, length });
                        lba += blocks;
                        continue;
                    }
                };
                for run in runs {
                    if let Some(pba) = run.pba {
                        let from = bad.partition_point(|at| *at < pba);
                        let to = bad.partition_point(|at| *at < pba.plus(run.blocks));
                        noted[from..to].fill(true);
                        let state = self.state();
                        losses.extend(bad[from..to].iter().map(|at| {
                            let block = lba + at.0 - pba.0;
                            let length = state.clip(tree, block, 1);
                            Loss { target: target.clone(), offset: block * BLOCK_SIZE, length }
                        }));
                    }
                    lba += run.blocks;
                }
            }
        }
        join(losses);
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_damaged_alike_and_side_by_side_are_one_line() {
        let wrong = |at: u64, segment: u64| {
            let scrub = fault::SCRUB;
            (Pba(at), format!("{} (segment {segment}) does not match{scrub}", Pba(at)))
        };
        let bad = [wrong(8, 0), wrong(9, 0), wrong(10, 0), wrong(11, 1), wrong(13, 1)];
        let lines: Vec<String> = joined(&bad).collect();
        assert_eq!(
            lines,
            [
                "device block 8 (segment 0) does not match, and so for the 2 blocks after it",
                "device block 11 (segment 1) does not match",
                "device block 13 (segment 1) does not match",
            ]
        );
    }
}
