//! Check: verifies every invariant of the format and of the map that needs no read of the data
//! (scrub reads it). Reports the ranges of volumes that are lost where an invariant fails.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use mjolnir_device::{AlignedBuf, Device, DeviceInfo, Runtime};
use mjolnir_store::report::{BadSegment, CheckReport, Loss, ReadError, ReadPurpose, join};
use mjolnir_store::{Error, ErrorKind, TransactionId};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, TreeId, ZoneId};

use crate::drive::{Engine, Hole, Pin};
use crate::fault;
use crate::format::place::Place;
use crate::format::segment::{Footer, SegmentHeader};
use crate::inspect::stretch::Stretch;
use crate::prepared::targets;
use crate::space::{MAP_STREAM, Segment, SegmentState};

/// A check's result for a segment's first block.
enum Header {
    Right,
    /// The block's content from before the segment was opened.
    Absent(String),
    Wrong(String),
}

fn judge_header(block: &[u8], zone: ZoneId, segment: &Segment, info: &DeviceInfo) -> Header {
    let ZoneId(number) = zone;
    let Some(header) = SegmentHeader::decode(block) else {
        let at = zone.start(info.zone_blocks);
        let what = |what| format!("the header of segment {number} (at {at}) is {what}");
        return match block.iter().all(|byte| *byte == 0) {
            true => Header::Absent(what("not there")),
            false => Header::Wrong(what("damaged")),
        };
    };
    let why = format!(
        "the header of segment {number} is that of incarnation {} in stream {}, not {} in {}",
        header.incarnation, header.stream, segment.incarnation, segment.stream
    );
    let is_ours = (header.uuid, header.zone) == (info.uuid, zone);
    match header.incarnation.cmp(&segment.incarnation) {
        Ordering::Equal if is_ours && header.stream == segment.stream => Header::Right,
        Ordering::Less if is_ours => Header::Absent(why),
        _ => Header::Wrong(why),
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Refuses to do `what` on a failed store: its memory knows more than the device then, and
    /// blocks missing on the device are no damage.
    pub(crate) fn refuse_if_failed(&self, what: &str) -> Result<(), Error> {
        match &self.state().failed {
            Some(error) if !self.inner.options.read_only => Err(Error::new(
                error.kind,
                format!(
                    "{what} of it now would report unwritten changes as lost, which they are not before \
                     the store is opened again: {}",
                    error.message
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Checks the store's structure. Works on a store in use: each step sees a consistent state.
    pub async fn check(&self) -> Result<CheckReport, Error> {
        self.check_telling(|_| {}).await
    }

    /// As [`check`](Self::check); `progress` receives the part done, 0 to 1.
    pub async fn check_telling(&self, mut progress: impl FnMut(f64)) -> Result<CheckReport, Error> {
        self.refuse_if_failed("a check")?;
        let errors_before = self.state().read_errors.total();
        let mut report = CheckReport {
            log: self.log_loss(),
            recovery: self.recovery(),
            ..CheckReport::default()
        };
        report.problems.extend(report.recovery.damaged.iter().map(|place| place.what.clone()));
        if let Some(log) = &report.log {
            report.problems.extend(log.lines(usize::MAX));
        }
        self.check_manifest(&mut report).await?;
        let (unknown, holes) =
            self.check_segments(&mut report, |part| progress(0.5 * part)).await?;
        self.check_trees(&mut report, |part| progress(0.5 + 0.5 * part)).await;
        self.check_holes(unknown, holes, &mut report).await?;
        self.check_missing(&mut report).await?;
        join(&mut report.losses);
        self.check_accounts(&mut report);
        self.check_names(&mut report);
        self.tell_read_errors(errors_before, &mut report);
        Ok(report)
    }

    /// Reads both copies of the manifest.
    async fn check_manifest(&self, report: &mut CheckReport) -> Result<(), Error> {
        let manifest = self.state().table.manifest.clone();
        for (pba, blocks) in manifest {
            match self.read_verified(ReadPurpose::Check, pba, u64::from(blocks)).await {
                Err(error) if error.kind == ErrorKind::Damaged => report.problems.push(format!(
                    "a part of the manifest or of its copy is damaged ({}); the next checkpoint \
                     writes both anew",
                    error.message
                )),
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Checks all segments. Returns the blocks whose checksums are lost, and the holes in the
    /// segments' groups. `progress` receives the part done, 0 to 1.
    async fn check_segments(
        &self,
        report: &mut CheckReport,
        mut progress: impl FnMut(f64),
    ) -> Result<(Vec<Pba>, Vec<Hole>), Error> {
        let zones: Vec<ZoneId> = self.state().space.zones().map(|(zone, _)| zone).collect();
        let mut unknown: Vec<Pba> = self.state().damaged_at.clone();
        let mut holes: Vec<Hole> = Vec::new();
        for (index, zone) in zones.iter().enumerate() {
            self.check_segment(*zone, &mut unknown, &mut holes, report).await?;
            progress((index + 1) as f64 / zones.len() as f64);
        }
        Ok((unknown, holes))
    }

    /// Walks the trees of all volumes and snapshots, and the staged trees. `progress` receives the
    /// part done, 0 to 1.
    async fn check_trees(&self, report: &mut CheckReport, mut progress: impl FnMut(f64)) {
        let trees: Vec<(TreeId, String, u64)> = {
            let state = self.state();
            let name = |tree: TreeId| {
                let name = state.catalog.full_name(tree);
                name.unwrap_or_else(|| format!("staged tree {}", tree.0))
            };
            state.map.trees().map(|(tree, blocks)| (tree, name(tree), blocks)).collect()
        };
        let total: f64 = trees.iter().map(|(_, _, blocks)| *blocks as f64).sum();
        let mut before = 0.0;
        for (tree, name, blocks) in &trees {
            if self.state().catalog.get(*tree).is_none() && self.state().map.contains(*tree) {
                report.problems.push(format!("{name} is in the map, but has no name"));
            }
            let told = |lba: u64| progress((before + lba as f64) / total.max(1.0));
            self.check_tree(*tree, name, report, told).await;
            before += *blocks as f64;
        }
    }

    /// Reports the holes that may contain data, and the ranges that refer to the `unknown` blocks.
    async fn check_holes(
        &self,
        mut unknown: Vec<Pba>,
        holes: Vec<Hole>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let holes = self.holes_in_force(holes).await?;
        report.problems.extend(holes.into_iter().map(|hole| hole.message));
        if !unknown.is_empty() {
            unknown.sort();
            let mut hit = vec![false; unknown.len()];
            report.losses.clear(); // The second pass finds them again.
            self.losses(&unknown, &mut hit, &mut report.losses).await?;
        }
        Ok(())
    }

    /// Checks the map's own invariants, and that each tree has a name and each name a tree.
    fn check_names(&self, report: &mut CheckReport) {
        let state = self.state();
        if let Err(problem) = state.map.verify() {
            report.problems.push(format!("the map: {problem}"));
        }
        for (tree, _) in state.catalog.iter() {
            if !state.map.contains(tree) {
                report.problems.push(format!("tree {} has a name, but no map", tree.0));
            }
        }
        for prepared in &state.transactions.prepared {
            let id = TransactionId(prepared.id);
            if !state.map.contains(prepared.staging) {
                report.problems.push(format!("transaction {id} has no staged tree"));
            }
            for target in prepared.changes.iter().flat_map(targets) {
                if !state.map.contains(target.tree) {
                    let tree = target.tree.0;
                    report
                        .problems
                        .push(format!("transaction {id} names tree {tree}, which is gone"));
                }
            }
        }
    }

    /// Reports reads that failed or did not verify since the check began; `before` is the count at
    /// its start.
    fn tell_read_errors(&self, before: u64, report: &mut CheckReport) {
        let state = self.state();
        report.read_errors = state.read_errors.failed.total();
        report.checksum_errors = state.read_errors.mismatched.total();
        let own =
            |error: &&ReadError| matches!(error.purpose, ReadPurpose::Check | ReadPurpose::Map);
        report.met = state.read_errors.since(before).filter(own).cloned().collect();
    }

    /// Walks one tree: every mapping must lie in the payload of a segment in use.
    async fn check_tree(
        &self,
        tree: TreeId,
        name: &str,
        report: &mut CheckReport,
        mut progress: impl FnMut(u64),
    ) {
        report.targets += 1;
        let mut lba = 0;
        while let Some(stretch) = self.stretch(tree, lba).await {
            let runs = match stretch {
                Stretch::Runs(runs) => runs,
                Stretch::Lost(blocks, error) => {
                    let (offset, length) = (lba * BLOCK_SIZE, self.state().clip(tree, lba, blocks));
                    report.problems.push(format!(
                        "{name}: the map of {length} bytes from {offset} on cannot be read: {}",
                        error.message
                    ));
                    report.losses.push(Loss { target: name.to_owned(), offset, length });
                    lba += blocks;
                    continue;
                }
            };
            let state = self.state();
            for run in runs {
                if let Some(pba) = run.pba {
                    report.extents += 1;
                    report.mapped_bytes += state.clip(tree, lba, run.blocks);
                    if let Some(problem) = state.check_mapping(pba, run.blocks) {
                        report.problems.push(format!(
                            "{name}: blocks {lba}+{} map to {pba}, {problem}",
                            run.blocks
                        ));
                    }
                }
                lba += run.blocks;
            }
            drop(state);
            progress(lba);
        }
        if self.state().map.blocks(tree).is_some_and(|blocks| lba > blocks) {
            report.problems.push(format!("{name}: its extents add up to more than its size"));
        }
    }

    /// Reads a sealed segment's header, the headers of its groups and its footer. Adds the blocks
    /// whose checksums are in none of these to `unknown`.
    async fn check_segment(
        &self,
        zone: ZoneId,
        unknown: &mut Vec<Pba>,
        holes: &mut Vec<Hole>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        report.segments += 1;
        let (info, _pin) = {
            let mut state = self.state();
            if state.space.get(zone).state != SegmentState::Sealed {
                return Ok(());
            }
            let pin = Pin::new(self, &mut state, zone);
            (state.info.clone(), pin)
        };
        self.wait_for_zone_writes(zone).await;
        // Now, since an append may have failed meanwhile.
        let segment = self.state().space.get(zone).clone();
        if segment.used <= 1 {
            // It ends ahead of its first group: it holds nothing, and may not even have a header.
            return Ok(());
        }
        let start = zone.start(info.zone_blocks);
        let first =
            self.read_device(ReadPurpose::Check, start, AlignedBuf::zeroed(BLOCK_BYTES)).await;
        let header = match first.map_err(|error| fault::device(&format!("reading {start}"), error))
        {
            Ok(block) => {
                let header = judge_header(block.as_ref(), zone, &segment, &info);
                if let Header::Wrong(why) = &header {
                    self.note_mismatch(ReadPurpose::Check, start, why);
                }
                header
            }
            Err(error) if error.kind == ErrorKind::Damaged => Header::Wrong(error.message),
            Err(error) => return Err(error),
        };
        let mut end = u64::from(segment.used);
        let mut has_footer = false;
        if segment.footer != 0 {
            end = u64::from(segment.footer);
            match self.read_footer(zone, &segment, &info).await {
                Ok(()) => has_footer = true,
                Err(why) => report.problems.push(format!(
                    "the footer of segment {} (at {}) {why}; its groups hold the same data",
                    zone.0,
                    start.plus(end)
                )),
            }
        }
        let walk = self.walk_segment(ReadPurpose::Check, zone, segment.incarnation, end).await?;
        match header {
            Header::Right => {}
            // A power cut may have taken the header but not the first group, which then replaces
            // it.
            Header::Absent(_) if walk.groups.first().is_some_and(|group| group.offset == 1) => {}
            Header::Absent(why) | Header::Wrong(why) => report.problems.push(why),
        }
        for hole in &walk.breaks {
            let hole = hole.hole(zone, info.zone_blocks, end);
            if !has_footer {
                unknown.extend(hole.blocks.clone().map(Pba));
            }
            holes.push(hole);
        }
        Ok(())
    }

    async fn read_footer(
        &self,
        zone: ZoneId,
        segment: &Segment,
        info: &DeviceInfo,
    ) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut at = zone.start(info.zone_blocks).plus(u64::from(segment.footer));
        let mut left = u64::from(segment.used - segment.footer);
        while left > 0 {
            let count = left.min(info.append_blocks_max);
            let buffer = self.buffer(count as usize * BLOCK_BYTES);
            let piece = self.read_device(ReadPurpose::Check, at, buffer).await;
            bytes.extend_from_slice(
                piece.map_err(|error| format!("cannot be read: {error}"))?.as_ref(),
            );
            (at, left) = (at.plus(count), left - count);
        }
        let footer = Footer::decode(&bytes).map_err(|why| {
            let at = zone.start(info.zone_blocks).plus(u64::from(segment.footer));
            let why = format!("is damaged: {why}");
            self.note_mismatch(
                ReadPurpose::Check,
                at,
                format!("the footer of segment {} {why}", zone.0),
            );
            why
        })?;
        let fits = footer.incarnation == segment.incarnation
            && footer.checksums.len() == segment.footer as usize;
        if fits { Ok(()) } else { Err("is that of another segment".into()) }
    }

    /// Checks the live bytes of the map's segments by counting them again.
    fn check_accounts(&self, report: &mut CheckReport) {
        let state = self.state();
        let in_use = |zone| state.space.get(zone).state != SegmentState::Bad;
        report.bad_segments.extend(state.space.bad().map(|(zone, bad)| BadSegment {
            segment: zone.0,
            failures: bad.failures,
            in_use: in_use(zone),
            why: bad.why.clone(),
        }));
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
            let live = counted.get(&zone).copied().unwrap_or(0);
            let in_use = matches!(segment.state, SegmentState::Sealed | SegmentState::Open);
            // While a checkpoint runs, superseded bytes still count.
            if !state.checkpoint.running && live != segment.map_bytes {
                report.problems.push(format!(
                    "segment {}: {live} bytes of the map lie there, but {} are counted",
                    zone.0, segment.map_bytes
                ));
            }
            if live > 0 && (!in_use || segment.stream != MAP_STREAM) {
                report.problems.push(format!(
                    "segment {} holds {live} bytes of the map, but is {:?} in stream {}",
                    zone.0, segment.state, segment.stream
                ));
            }
            if u64::from(segment.used) > state.space.zone_blocks {
                report.problems.push(format!("segment {} uses more blocks than it has", zone.0));
            }
        }
    }
}

impl crate::drive::State {
    /// The problem with a mapping's address, if any.
    fn check_mapping(&self, pba: mjolnir_units::Pba, blocks: u64) -> Option<String> {
        let zone = self.space.zone_of(pba);
        if zone.0 as usize >= self.space.segments.len() {
            return Some("past the end of the device".into());
        }
        let segment = self.space.get(zone);
        if self.log.has_refused(zone) {
            return None; // The map is about to be repointed.
        }
        if !matches!(segment.state, SegmentState::Sealed | SegmentState::Open) {
            return Some(format!("in segment {}, which is {:?}", zone.0, segment.state));
        }
        if segment.stream == MAP_STREAM {
            return Some(format!("in segment {}, which holds the map", zone.0));
        }
        let offset = pba.offset(self.space.zone_blocks);
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        // An open group lies beyond `used` until it is sent.
        let open = segment.state == SegmentState::Open;
        if offset == 0 || (!open && offset + blocks > u64::from(end)) {
            return Some(format!("outside of what segment {} holds ({end} blocks)", zone.0));
        }
        None
    }
}
