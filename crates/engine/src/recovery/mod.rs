//! Recovery: the newest durable checkpoint, then the records logged after it, in order, up to the
//! first gap.
//!
//! Steps, none of which writes to the device:
//!
//! 1. read the root and the manifest it names;
//! 2. find the segments written since: those the manifest lists for scanning, and those at the
//!    front of its order of free ones whose first block shows a newer incarnation (`survey.rs`);
//! 3. walk their groups;
//! 4. load the map's roots and node table (nodes come as needed);
//! 5. replay records by sequence number until one is missing or did not arrive: the payload of
//!    groups that no later group calls durable is verified ahead of it (`arrivals.rs`);
//! 6. drop what was staged for vectors that never came;
//! 7. count what lives in the map's segments, and settle which are free (`settle.rs`).
//!
//! Damage that may have taken records is refused, unless the caller is to *salvage*: then the store
//! is as of the last record that is whole with all before it, and says what it lacks.
//!
//! The caller then takes a checkpoint with a new epoch, so what lay beyond the gap never replays;
//! a crash before that finds the same checkpoint again and repeats the same steps.

mod arrivals;
mod damaged;
mod dropped;
mod load_map;
mod missing;
mod prefetch;
mod refusal;
mod replay;
mod rescue;
mod root;
mod settle;
mod survey;

pub use root::segments_told;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use futures_util::future::try_join;
use mjolnir_device::{Device, Runtime, WarmLog};
use mjolnir_map::Map;
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_SIZE, TreeId, ZoneId};

use crate::drive::{Engine, State};
use crate::fault;
use crate::format::group::GroupHeader;
use crate::format::manifest::{Manifest, TreeKind};
use crate::format::place::Place;
use crate::format::root::Root;
use crate::options::OpenOptions;
use crate::recovery::arrivals::{Arrivals, Payload};
use crate::recovery::refusal::{WAYS_ON, refusal};
use crate::recovery::replay::Logged;
use crate::recovery::root::{ManifestError, check_manifest, read_manifest, read_root};
use crate::recovery::survey::{LostGroups, Walked};
use crate::report::{DamagedPlace, LogLoss, ReadPurpose};
use crate::space::{MAP_STREAM, Segment, SegmentState, Space};

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) async fn recover(
        device: D,
        runtime: R,
        options: OpenOptions,
        warm: Option<&mut dyn WarmLog>,
    ) -> Result<Self, Error> {
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
        let salvage = engine.inner.options.salvage;
        let outdated = match engine.device().is_root_in_doubt() {
            true => engine.find_outdated(&manifest).await?,
            false => Vec::new(),
        };
        // Before what lies in them is looked for.
        if let Some(first) = outdated.first().filter(|_| !salvage) {
            return Err(refusal(&first.place));
        }
        let mut survey = engine.survey(&root, &manifest).await?;
        if let Some(warm) = warm
            && engine.rescue(&root, &manifest, &survey, warm).await?
        {
            // The log is read anew, with what came to it.
            engine.renew_log(&root);
            engine.state().lay_out(&root, &manifest);
            survey = engine.survey(&root, &manifest).await?;
        }
        survey.damage.extend(outdated);
        engine.note_missing(&manifest);
        let groups = || {
            survey.walks.iter().flat_map(|of| of.walk.groups.iter().map(|group| (of.zone, group)))
        };
        let promises = || {
            let traces = survey.traces.iter().map(|trace| (trace.zone, trace.durable));
            groups().map(|(zone, group)| (zone, group.durable)).chain(traces)
        };
        // What the log tells itself saves looking; what the root tells besides, damage must not hide.
        let told = promises().map(|(_, durable)| durable).fold(0, u64::max);
        let durable = told.max(root.durable);
        let says = |of: &(ZoneId, u64)| of.1 == durable && durable > root.durable;
        let witnesses: BTreeSet<ZoneId> = promises().filter(says).map(|(zone, _)| zone).collect();
        let newest = |group: &GroupHeader| group.records.iter().map(|r| r.0).max().unwrap_or(0);
        let counts =
            |group: &GroupHeader| newest(group) > root.sequence && group.epoch == root.epoch;
        let highest = groups().map(|(_, group)| newest(group)).fold(root.sequence, u64::max);
        let mut counting: Vec<(ZoneId, &GroupHeader)> =
            groups().filter(|(_, group)| counts(group)).collect();
        counting.sort_by_cached_key(|(_, group)| newest(group));
        let sure = counting.partition_point(|(_, group)| newest(group) <= told);
        let records = counting.iter().map(|(_, group)| group.records.len()).sum();
        let mut logged: Vec<Logged<'_>> = Vec::with_capacity(records);
        for (index, (zone, group)) in counting.iter().enumerate() {
            let unsure = index.checked_sub(sure);
            let mut payload = zone.start(info.zone_blocks).plus(u64::from(group.offset) + 1);
            for (sequence, record) in &group.records {
                if *sequence > root.sequence {
                    let (sequence, incarnation) = (*sequence, group.incarnation);
                    logged.push(Logged { sequence, incarnation, record, payload, unsure });
                }
                payload = payload.plus(record.payload_blocks());
            }
        }
        // Of the copies of a record the one that was logged last comes first.
        logged.sort_by_key(|of| (of.sequence, Reverse(of.incarnation)));

        let mut loss = LogLoss { durable_to: durable, ..LogLoss::default() };
        engine.load_map(&manifest, &mut loss).await?;
        let arrivals = Arrivals::new(&counting[sure..], durable);
        let replay = engine.replay_log(root.sequence + 1, &logged, &arrivals, &mut loss);
        let ((), next) = try_join(arrivals.verify(&engine), replay).await?;
        let (mut damaged_at, mut damaged) = (Vec::new(), Vec::new());
        for (zone, group) in arrivals.damaged() {
            let found = engine.damaged_blocks(zone, group).await;
            damaged_at.extend(found.iter().map(|(at, _)| *at));
            damaged.extend(found.into_iter().map(|(_, place)| place));
        }
        let arrivals = arrivals.into_found();
        let whole = |unsure: usize| matches!(arrivals[unsure], Payload::Whole);
        let left = logged.iter().filter(|of| of.sequence >= next && of.unsure.is_none_or(whole));
        let dropped_records = left.map(|of| of.sequence).collect::<BTreeSet<u64>>().len() as u64;
        let unreadable = arrivals.iter().zip(&counting[sure..]).filter_map(|(arrived, of)| {
            let Payload::Unreadable(what) = arrived else { return None };
            let (zone, block) = (of.0.0, u64::from(of.1.offset) + 1);
            Some((of.1, DamagedPlace { zone, block, what: what.clone() }))
        });
        for Walked { zone, walk, known } in &survey.walks {
            engine.note_walked(*zone, walk, *known, next);
        }
        loss.whole_to = next - 1;
        // Damage is harmless to the log if all that it took had been in the checkpoint.
        let fatal = |lost: &LostGroups| lost.before.is_none_or(|before| before > next);
        let mut lost: Vec<LostGroups> = survey.damage.into_iter().filter(fatal).collect();
        // Nor does it matter which groups behind the gap cannot be read.
        lost.extend(unreadable.filter_map(|(group, place)| {
            let ends_here = group.records.iter().any(|(sequence, _)| *sequence == next);
            ends_here.then_some(LostGroups { place, certain: true, before: None, bytes: 0 })
        }));
        let missed = survey.traces.iter().filter(|trace| trace.durable >= next);
        lost.extend(missed.map(|trace| {
            let what = format!(
                "the segment has neither a header nor a first group, but a later group, by which all records up \
                 to {} were durable",
                trace.durable
            );
            let whole = LostGroups::whole_segment(trace.zone, info.zone_blocks, &what);
            LostGroups { certain: false, ..whole } // They need not have been in this one.
        }));
        let gap = next <= durable || lost.iter().any(|lost| lost.certain);
        if gap && !salvage {
            return Err(match lost.iter().find(|lost| lost.certain).or(lost.first()) {
                Some(lost) => refusal(&lost.place),
                None => fault::damaged(format!(
                    "the log is damaged: record {next} is missing, but {} says that all up to {durable} were \
                     durable; {WAYS_ON}",
                    if told == durable { "a later one" } else { "the store's root" }
                )),
            });
        }
        let mut telling: Vec<ZoneId> = Vec::new();
        if gap {
            telling.extend(lost.iter().map(|lost| ZoneId(lost.place.zone)));
            loss.unknown_bytes += lost.iter().map(|lost| lost.bytes).sum::<u64>();
            loss.places.extend(lost.into_iter().map(|lost| lost.place));
            let known = logged.iter().map(|of| (of.sequence, of.record.clone())).collect();
            loss.note_dropped(&known, &engine.state());
        } else if logged.iter().any(|of| of.sequence >= next) {
            let mut dropped =
                LogLoss { whole_to: next - 1, durable_to: durable, ..LogLoss::default() };
            let left = logged.iter().filter(|of| of.sequence >= next);
            let known = left.map(|of| (of.sequence, of.record.clone())).collect();
            dropped.note_dropped(&known, &engine.state());
            dropped.finish();
            engine.state().recovered.dropped = Some(dropped);
        }
        {
            let mut state = engine.state();
            state.recovered.damaged = damaged;
            state.damaged_at = damaged_at;
        }
        if salvage && !loss.is_nothing() {
            loss.finish();
            if engine.inner.options.salvage_only.as_ref().is_some_and(|told| *told != loss) {
                return Err(fault::damaged(
                    "more or other parts of the log cannot be read than a moment ago: the medium is \
                     failing; copy the store to another one first",
                ));
            }
            engine.state().log_loss = Some(loss);
        }
        let mut guard = engine.state();
        let state = &mut *guard;
        // Nothing can take over any more what was staged and not prepared.
        let staged: Vec<TreeId> = state
            .catalog
            .iter()
            .filter(|(_, entry)| entry.kind == TreeKind::Staging)
            .map(|(tree, _)| tree)
            .filter(|tree| !state.prepared.iter().any(|(prepared, _)| prepared == tree))
            .collect();
        staged.into_iter().for_each(|tree| state.drop_tree(tree));
        state.counters.replayed_records = next - 1 - root.sequence;
        state.counters.dropped_records = dropped_records;
        state.log.sequence = highest;
        state.log.durable = highest;
        state.log.epoch = survey.epoch + 1;
        state.space.incarnation = state.space.incarnation.max(root.incarnation);
        let mut places: Vec<Place> = Vec::new();
        places.extend(state.durable_table().map(Place::unpack));
        places.extend(state.table.pages.iter().filter(|p| **p != 0).map(|p| Place::unpack(*p)));
        places.extend(root.manifest.iter().map(|(pba, blocks)| Place {
            pba: *pba,
            offset: 0,
            bytes: u64::from(*blocks) * BLOCK_SIZE,
        }));
        for place in places {
            let whole = state.space.zone_blocks as u32;
            let segment = state.space.get_mut(place.pba.zone(info.zone_blocks));
            if segment.state == SegmentState::Free {
                // It was opened since, and the headers that would tell are damaged.
                segment.state = SegmentState::Sealed;
                (segment.stream, segment.used) = (MAP_STREAM, whole);
            }
            state.space.add_map_bytes(place, 1);
        }
        state.update_reserve();
        state.space.told_zones = manifest.zones;
        let order = manifest.order(info.zones);
        state.space.settle(&order, engine.device().is_root_in_doubt(), &telling, &witnesses);
        state.reclaim.nodes_marked = state.map.nodes();
        drop(guard);
        Ok(engine)
    }
}

impl State {
    /// Takes over what a checkpoint says of segments.
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
        self.space.incarnation = root.incarnation;
        self.checkpoint.number = root.checkpoint;
        self.table.manifest = root.manifest.clone();
        self.table.pages = manifest.pages.clone();
    }
}
