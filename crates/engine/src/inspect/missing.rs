//! Checks a store whose medium has shrunk, and reports the loss in the missing part.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_store::report::{CheckReport, MissingPart, ScrubReport};
use mjolnir_units::{Pba, ZoneId};

use crate::drive::Engine;
use crate::space::SegmentState;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reports the missing part, and the loss there. Reads the missing blocks of segments whose
    /// headers are present; the other segments' loss is known from their headers.
    pub(crate) async fn check_missing(&self, report: &mut CheckReport) -> Result<(), Error> {
        let Some(from) = self.device().abilities().missing_from() else { return Ok(()) };
        let (zone_blocks, zones) = {
            let state = self.state();
            (state.info.zone_blocks, state.info.zones)
        };
        let mut missing = MissingPart::default();
        for zone in from.zone(zone_blocks).0..zones {
            let zone = ZoneId(zone);
            let (used, is_free, has_footer, is_unsure) = {
                let state = self.state();
                let segment = state.space.get(zone);
                let end = zone.start(zone_blocks).plus(u64::from(segment.used));
                let is_free = segment.state == SegmentState::Free;
                (end, is_free, segment.footer != 0, state.unsure.contains(&zone))
            };
            let list = match is_free {
                false if used > from => &mut missing.in_use,
                // Nothing follows the footer of a sealed segment.
                false if is_unsure && !has_footer => &mut missing.unsure,
                true if is_unsure => &mut missing.unsure,
                _ => &mut missing.free,
            };
            list.push(zone.0);
            if !is_free && used > from && zone.start(zone_blocks) < from {
                self.check_half_missing(zone, from, report).await?;
            }
        }
        report.missing = Some(missing);
        Ok(())
    }

    /// Reads the missing part of a segment: its content may be zeroes anyway.
    async fn check_half_missing(
        &self,
        zone: ZoneId,
        from: Pba,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let (mut scrubbed, mut bad, mut holes) = (ScrubReport::default(), Vec::new(), Vec::new());
        self.scrub_segment(zone, &mut scrubbed, &mut bad, &mut holes).await;
        let mut blocks: Vec<Pba> =
            bad.into_iter().map(|(at, _)| at).filter(|at| *at >= from).collect();
        blocks.sort();
        let mut hit = vec![false; blocks.len()];
        self.losses(&blocks, &mut hit, &mut report.losses).await?;
        self.note_map_blocks(&blocks, &mut hit).await;
        let lost = hit.iter().filter(|hit| **hit).count();
        if lost > 0 {
            report.problems.push(format!(
                "{lost} {} that segment {} holds: the medium ends before, at {from}",
                if lost == 1 { "block is missing" } else { "blocks are missing" },
                zone.0
            ));
        }
        Ok(())
    }
}
