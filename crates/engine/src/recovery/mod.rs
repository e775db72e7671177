//! Recovery: loads the newest durable checkpoint, then replays the records logged after it, in
//! order, up to the first gap.
//!
//! Steps, none of which writes to the device:
//!
//! 1. read the root and the manifest that it names;
//! 2. find the segments written since: those that the manifest lists for scanning, and those at the
//!    front of its free order whose first block shows a newer incarnation (`survey.rs`);
//! 3. walk their groups;
//! 4. load the map's roots and node table (nodes are loaded on demand);
//! 5. replay records by sequence number until one is missing or did not arrive: the payload of
//!    groups that no later group calls durable is verified ahead of it (`arrivals.rs`);
//! 6. drop staged trees whose vectors never came;
//! 7. count the live bytes in the map's segments, and list the free segments (`free_list.rs`).
//!
//! Damage that may have taken records is refused, unless the caller asks to *salvage*: then the
//! store is as of the last record that is whole with all before it, and reports its loss.
//!
//! The caller then takes a checkpoint with a new epoch, so records beyond the gap never replay. A
//! crash before that finds the same checkpoint again and repeats the same steps.

mod arrivals;
mod cuts;
mod damaged;
mod dropped;
mod found_log;
mod free_list;
mod gap;
mod load_map;
mod missing;
mod prefetch;
mod promised;
mod refusal;
mod replay;
mod rescue;
mod root;
mod survey;

pub use root::segments_told;

use std::collections::BTreeSet;

use futures_util::future::try_join;
use mjolnir_device::{Device, Runtime, WarmLog};
use mjolnir_map::Map;
use mjolnir_store::Error;
use mjolnir_store::report::{LogLoss, ReadPurpose};
use mjolnir_units::{BLOCK_SIZE, TreeId, ZoneId};

use crate::drive::{Engine, State};
use crate::fault;
use crate::format::manifest::{Manifest, TreeKind};
use crate::format::place::Place;
use crate::format::root::Root;
use crate::options::OpenOptions;
use crate::recovery::arrivals::Arrivals;
use crate::recovery::dropped::Dropped;
use crate::recovery::found_log::FoundLog;
use crate::recovery::gap::{Gap, Replayed};
use crate::recovery::promised::Promised;
use crate::recovery::refusal::refusal;
use crate::recovery::root::{ManifestError, check_manifest, read_manifest, read_root};
use crate::recovery::survey::{SegmentWalk, Survey};
use crate::space::{MAP_STREAM, Segment, SegmentState, Space};

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) async fn recover(
        device: D,
        runtime: R,
        options: OpenOptions,
        warm: Option<&mut dyn WarmLog>,
    ) -> Result<Self, Error> {
        let (engine, root, manifest) = Engine::begin_recovery(device, runtime, options).await?;
        let mut survey = engine.survey_with_warm_log(&root, &manifest, warm).await?;
        engine.note_missing(&manifest);
        let damage = std::mem::take(&mut survey.damage);
        let promised = Promised::of(&survey, &root);
        let log = FoundLog::of(&survey, &root, &promised);

        let mut loss = LogLoss { durable_to: promised.durable, ..LogLoss::default() };
        engine.load_map(&manifest, &mut loss).await?;
        let replayed = engine.replay_found(&root, &log, &promised, &mut loss).await?;
        for SegmentWalk { zone, walk, known } in &survey.walks {
            engine.note_walked(*zone, walk, *known, replayed.next);
        }
        loss.whole_to = replayed.next - 1;

        let lost = replayed.lost(damage, &survey.traces, &log, root.zone_blocks);
        let gap = Gap::find(&replayed, lost, &promised);
        if let Some(gap) = gap.as_ref().filter(|_| !engine.inner.options.salvage) {
            return Err(gap.refusal());
        }
        let telling = gap.as_ref().map(Gap::segments).unwrap_or_default();
        engine.note_left_out(gap, &log, &replayed, &mut loss);
        engine.keep_loss(loss)?;
        engine.state().drop_staged();
        engine.state().follow_log(&log, &replayed, survey.epoch + 1);
        engine.list_free_segments(&root, &manifest, &telling, &promised.witnesses);
        Ok(engine)
    }

    /// An engine as of the root, before any record is replayed.
    async fn begin_recovery(
        device: D,
        runtime: R,
        options: OpenOptions,
    ) -> Result<(Self, Root, Manifest), Error> {
        let info = device.info();
        let root = read_root(&device).await?;
        let mut errors = Vec::new();
        let manifest = read_manifest(&device, &root, &mut errors).await?;
        let named = |error: Error| Error::new(error.kind, format!("{}: {error}", info.name));
        check_manifest(&manifest, &root, info.zones, info.zone_blocks).map_err(named)?;

        let engine =
            Engine::assemble(device, runtime, options, Map::new(), root.epoch, root.sequence);
        engine.state().lay_out(&root, &manifest);
        for ManifestError { kind, at, blocks, message } in errors {
            engine.note_read_error(kind, ReadPurpose::Recovery, at, blocks, message);
        }
        Ok((engine, root, manifest))
    }

    /// Surveys the log, after logging again the records that only the warm log holds.
    async fn survey_with_warm_log(
        &self,
        root: &Root,
        manifest: &Manifest,
        warm: Option<&mut dyn WarmLog>,
    ) -> Result<Survey, Error> {
        let outdated = match self.device().abilities().is_root_in_doubt() {
            true => self.find_outdated(manifest).await?,
            false => Vec::new(),
        };
        // Checked before the survey of these segments.
        if let Some(first) = outdated.first().filter(|_| !self.inner.options.salvage) {
            return Err(refusal(&first.place));
        }
        let mut survey = self.survey(root, manifest).await?;
        if let Some(warm) = warm
            && self.rescue(root, manifest, &survey, warm).await?
        {
            // Survey the log again, with the added records.
            self.renew_log(root);
            self.state().lay_out(root, manifest);
            survey = self.survey(root, manifest).await?;
        }
        survey.damage.extend(outdated);
        Ok(survey)
    }

    /// Replays the records, and meanwhile checks which groups arrived whole.
    async fn replay_found(
        &self,
        root: &Root,
        log: &FoundLog<'_>,
        promised: &Promised,
        loss: &mut LogLoss,
    ) -> Result<Replayed, Error> {
        let arrivals = Arrivals::new(log.unsure(), promised.durable);
        let replay = self.replay_log(root.sequence + 1, &log.records, &arrivals, loss);
        let ((), next) = try_join(arrivals.verify(self), replay).await?;
        let (mut damaged_at, mut damaged) = (Vec::new(), Vec::new());
        for (zone, group) in arrivals.damaged() {
            let found = self.damaged_blocks(zone, group).await;
            damaged_at.extend(found.iter().map(|(at, _)| *at));
            damaged.extend(found.into_iter().map(|(_, place)| place));
        }
        let mut state = self.state();
        state.recovered.damaged = damaged;
        state.damaged_at = damaged_at;
        state.counters.replayed_records = next - 1 - root.sequence;
        Ok(Replayed { next, arrived: arrivals.into_found() })
    }

    /// Records the changes lost from the gap on, if there is a gap; otherwise the changes that a
    /// power cut took.
    fn note_left_out(
        &self,
        gap: Option<Gap>,
        log: &FoundLog<'_>,
        replayed: &Replayed,
        loss: &mut LogLoss,
    ) {
        if let Some(gap) = gap {
            loss.unknown_bytes += gap.lost.iter().map(|lost| lost.bytes).sum::<u64>();
            loss.places.extend(gap.lost.into_iter().map(|lost| lost.place));
            loss.note_dropped(&log.known_from(0), &self.state());
            return;
        }
        let known = log.known_from(replayed.next);
        if !known.is_empty() {
            let (whole_to, durable_to) = (loss.whole_to, loss.durable_to);
            let mut dropped = LogLoss { whole_to, durable_to, ..LogLoss::default() };
            dropped.note_dropped(&known, &self.state());
            dropped.finish();
            self.state().recovered.dropped = Some(dropped);
        }
    }

    /// Keeps a salvage's loss for reports. Refuses if the loss is greater than the caller agreed
    /// to.
    fn keep_loss(&self, mut loss: LogLoss) -> Result<(), Error> {
        let options = &self.inner.options;
        if !options.salvage || loss.is_nothing() {
            return Ok(());
        }
        loss.finish();
        if options.salvage_only.as_ref().is_some_and(|told| *told != loss) {
            return Err(fault::damaged(
                "more or other parts of the log are unreadable than a moment ago: the medium is \
                 failing; copy the store to another medium first",
            ));
        }
        self.state().log_loss = Some(loss);
        Ok(())
    }

    /// Counts the live bytes in the map's segments, and lists the free segments.
    fn list_free_segments(
        &self,
        root: &Root,
        manifest: &Manifest,
        telling: &[ZoneId],
        witnesses: &BTreeSet<ZoneId>,
    ) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.space.incarnation = state.space.incarnation.max(root.incarnation);
        state.count_map_bytes(root);
        state.update_reserve();
        state.space.told_zones = manifest.zones;
        let order = manifest.order(state.info.zones);
        let in_doubt = self.device().abilities().is_root_in_doubt();
        state.space.list_free(&order, in_doubt, telling, witnesses);
        state.reclaim.nodes_marked = state.map.nodes();
    }
}

impl State {
    /// Takes over the checkpoint's list of segments.
    fn lay_out(&mut self, root: &Root, manifest: &Manifest) {
        self.space = Space::new(self.info.zones, self.info.zone_blocks);
        for entry in &manifest.segments {
            *self.space.get_mut(entry.zone) = Segment {
                state: SegmentState::Sealed,
                stream: entry.stream,
                incarnation: entry.incarnation,
                used: entry.used,
                payload: entry.payload,
                footer: entry.footer,
                opened: None,
                sealed: entry.sealed,
                births: Default::default(),
                live: None,
                stuck: None,
                retry: None,
                map_bytes: 0,
                pins: 0,
                freed: 0,
                released: false,
            };
        }
        for (zone, failures) in &manifest.bad {
            self.space.load_bad(*zone, *failures);
        }
        self.space.incarnation = root.incarnation;
        self.checkpoint.number = root.checkpoint;
        self.table.manifest = root.manifest.clone();
        self.table.pages = manifest.pages.clone();
    }

    /// Continues the log after the replayed records, in a new epoch.
    fn follow_log(&mut self, log: &FoundLog<'_>, replayed: &Replayed, epoch: u64) {
        self.counters.dropped_records = replayed.dropped_records(log);
        self.log.sequence = log.highest;
        self.log.durable = log.highest;
        self.log.epoch = epoch;
    }

    /// Drops trees that were staged and not prepared: no record can take them over any more.
    fn drop_staged(&mut self) {
        let staged: Vec<TreeId> = self
            .catalog
            .iter()
            .filter(|(_, entry)| entry.kind == TreeKind::Staging)
            .map(|(tree, _)| tree)
            .filter(|tree| self.transactions.of_staging(*tree).is_none())
            .collect();
        staged.into_iter().for_each(|tree| self.drop_tree(tree));
    }

    /// Counts the live bytes in the map's segments: nodes, pages of the node table, the manifest.
    fn count_map_bytes(&mut self, root: &Root) {
        let mut places: Vec<Place> = Vec::new();
        places.extend(self.durable_table().map(Place::unpack));
        places.extend(self.table.pages.iter().filter(|p| **p != 0).map(|p| Place::unpack(*p)));
        places.extend(root.manifest.iter().map(|(pba, blocks)| Place {
            pba: *pba,
            offset: 0,
            bytes: u64::from(*blocks) * BLOCK_SIZE,
        }));
        for place in places {
            let whole = self.space.zone_blocks as u32;
            let segment = self.space.get_mut(place.pba.zone(self.info.zone_blocks));
            if segment.state == SegmentState::Free {
                // The segment was opened since, and the headers that would prove it are damaged.
                segment.state = SegmentState::Sealed;
                (segment.stream, segment.used) = (MAP_STREAM, whole);
            }
            self.space.add_map_bytes(place, 1);
        }
    }
}
