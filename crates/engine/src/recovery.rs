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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures_util::future::try_join;
use futures_util::{StreamExt, stream};
use mjolnir_device::{AlignedBuf, Device, Runtime, WarmLog};
use mjolnir_map::Map;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Lba, Pba, TreeId, ZoneId};

use crate::arrivals::{Arrivals, Payload};
use crate::catalog::Entry;
use crate::engine::{Engine, Hurdle, State};
use crate::fault;
use crate::format::group::GroupHeader;
use crate::format::manifest::{Manifest, TreeEntry, TreeKind};
use crate::format::record::Record;
use crate::format::root::Root;
use crate::loss::{DamagedPlace, LogLoss, WAYS_ON, refusal};
use crate::node_io::{LOST, Place};
use crate::options::OpenOptions;
use crate::read_errors::{ReadErrorKind, ReadPurpose};
use crate::reclaim::yield_now;
use crate::rescue::copies_of;
use crate::space::{MAP_STREAM, Segment, SegmentState, Space};
use crate::survey::{LostGroups, Walked};

/// Reads that are under way at once.
const READS: usize = 32;
/// Records whose way through the map is fetched ahead of their replay.
const PREFETCH_RECORDS: usize = 4096;

/// A record with where its payload lies.
struct Logged<'a> {
    sequence: u64,
    /// Of the segment that it lies in.
    incarnation: u64,
    record: &'a Record,
    payload: Pba,
    /// The number of its group among those of which it is not known whether they arrived.
    unsure: Option<usize>,
}

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

    /// Replays what was logged from record `next` on, up to the first that is missing or of whose
    /// group something did not arrive. Returns the number of that one.
    async fn replay_log(
        &self,
        mut next: u64,
        logged: &[Logged<'_>],
        arrivals: &Arrivals<'_>,
        loss: &mut LogLoss,
    ) -> Result<u64, Error> {
        let salvage = self.inner.options.salvage;
        let (mut rest, mut prefetched) = (logged, 0);
        while let copies = copies_of(rest, |of| of.sequence)
            && copies.first().is_some_and(|first| first.sequence == next)
        {
            if prefetched == 0 {
                let ahead = rest.iter().take(PREFETCH_RECORDS).map(|of| of.record);
                self.prefetch(ahead.flat_map(ends).collect()).await;
                yield_now().await; // The groups that come later are verified meanwhile.
                prefetched = PREFETCH_RECORDS;
            }
            rest = &rest[copies.len()..];
            prefetched = prefetched.saturating_sub(copies.len());
            let mut arrived = None;
            for copy in copies {
                let is_here = match copy.unsure {
                    Some(group) => arrivals.has_arrived(group).await,
                    None => true,
                };
                if is_here {
                    arrived = Some(copy);
                    break;
                }
            }
            let Some(Logged { record, payload, .. }) = arrived else { break };
            match self.replay(next, record, *payload).await {
                Err(error) if salvage && error.kind == ErrorKind::Damaged => {
                    // A part of the map that it changes cannot be read, and does not come back by
                    // leaving out what follows.
                    self.note_unreplayed(next, record, &error, loss);
                }
                Err(error) if error.kind == ErrorKind::Damaged => {
                    return Err(fault::damaged(format!(
                        "record {next} of the log cannot be applied: {}; {WAYS_ON}",
                        error.message
                    )));
                }
                outcome => outcome?,
            }
            next += 1;
        }
        Ok(next)
    }

    /// Notes a record that changes a part of the map which cannot be read: what it changed is
    /// lost either way.
    fn note_unreplayed(&self, sequence: u64, record: &Record, error: &Error, loss: &mut LogLoss) {
        let mut own = LogLoss { whole_to: sequence - 1, ..LogLoss::default() };
        own.note_dropped(&BTreeMap::from([(sequence, record.clone())]), &self.state());
        loss.changes.push(format!("record {sequence} could not be applied: {}", error.message));
        loss.changes.extend(own.changes);
        loss.ranges.extend(own.ranges);
        loss.dropped_records += 1;
    }

    async fn load_map(&self, manifest: &Manifest, loss: &mut LogLoss) -> Result<(), Error> {
        let salvage = self.inner.options.salvage;
        let info = self.state().info.clone();
        let mut pages = Vec::with_capacity(manifest.pages.len());
        let mut lost_pages = Vec::new();
        let read = async |packed: &u64| {
            let place = Place::unpack(*packed);
            place.check(&info)?;
            Ok::<_, Error>(
                self.read_verified(ReadPurpose::Recovery, place.pba, place.blocks()).await,
            )
        };
        let reads = manifest.pages.iter().filter(|packed| **packed != 0);
        let mut reads = pin!(stream::iter(reads).map(read).buffered(READS));
        for (index, packed) in (0u32..).zip(&manifest.pages) {
            let mut page = [0u64; mjolnir_map::TABLE_PAGE];
            if *packed != 0 {
                let place = Place::unpack(*packed);
                match reads.next().await.expect("each page is read")? {
                    Ok(bytes) => {
                        let from = place.offset as usize;
                        let image = &bytes[from..from + place.bytes as usize];
                        for (slot, word) in page.iter_mut().zip(image.chunks_exact(8)) {
                            *slot = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                        }
                    }
                    Err(error) if error.kind == ErrorKind::Damaged => {
                        let place = DamagedPlace {
                            zone: place.pba.zone(info.zone_blocks).0,
                            block: place.pba.offset(info.zone_blocks),
                            what: format!(
                                "page {index} of the node table, which says where {} nodes of the \
                                 map lie, cannot be read: {}",
                                mjolnir_map::TABLE_PAGE,
                                error.message
                            ),
                        };
                        if !salvage {
                            return Err(refusal(&place));
                        }
                        page = [LOST; mjolnir_map::TABLE_PAGE];
                        page[0] = if index == 0 { 0 } else { LOST };
                        lost_pages.push(index);
                        loss.places.push(place);
                    }
                    Err(error) => return Err(error),
                }
            }
            for packed in page.into_iter().filter(|packed| *packed != 0 && *packed != LOST) {
                Place::unpack(packed).check(&info)?;
            }
            pages.push(page);
        }
        let mut roots = Vec::new();
        for entry in &manifest.trees {
            let root = <&[u8; mjolnir_map::ROOT_BYTES]>::try_from(entry.root.as_slice())
                .map_err(|_| "its root has another length".to_owned())
                .and_then(|bytes| mjolnir_map::root_decode(bytes).map_err(|why| why.to_string()))
                .map_err(|why| fault::damaged(format!("tree {}: {why}", entry.tree.0)))?;
            roots.push((entry.tree, root));
        }
        let map = Map::load(roots, pages)
            .map_err(|why| fault::damaged(format!("the map cannot be loaded: {why}")))?;
        let mut state = self.state();
        state.map = map;
        // Written again as what is known of them, so that the store opens without this.
        lost_pages.into_iter().for_each(|page| state.map.redirty_page(page));
        for entry in &manifest.trees {
            let TreeEntry { kind, created, short, .. } = entry.clone();
            state.catalog.insert(entry.tree, Entry { kind, created, short });
        }
        state.catalog.reserve_ids(manifest.next_tree);
        state.prepared = manifest.prepared.clone();
        Ok(())
    }

    async fn replay(&self, sequence: u64, record: &Record, payload: Pba) -> Result<(), Error> {
        self.step(|state| match record {
            Record::Write { tree, lba, blocks } => {
                let fits = state
                    .map
                    .blocks(*tree)
                    .is_some_and(|size| lba.saturating_add(u64::from(*blocks)) <= size);
                if !fits {
                    return Err(Hurdle::Failed(fault::damaged(format!(
                        "record {sequence} writes blocks {lba}+{blocks} of tree {}, which has no \
                         such blocks",
                        tree.0
                    ))));
                }
                if *blocks > 0 {
                    state.map.write(*tree, Lba(*lba), payload, u64::from(*blocks))?;
                }
                Ok(())
            }
            Record::Moved { .. } => Ok(()),
            other => {
                if let Record::CreateVolume { tree, .. }
                | Record::CreateSnapshot { tree, .. }
                | Record::CloneVolume { tree, .. }
                | Record::Stage { tree, .. } = other
                    && state.map.contains(*tree)
                {
                    return Err(Hurdle::Failed(fault::damaged(format!(
                        "record {sequence} creates tree {} again",
                        tree.0
                    ))));
                }
                state.apply(other, sequence).map_err(|hurdle| match hurdle {
                    // Nothing was in its way when it was logged: a record before it is not applied.
                    Hurdle::Failed(error) => fault::damaged(error.message).into(),
                    hurdle => hurdle,
                })
            }
        })
        .await
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

/// Blocks whose leaves a record's replay most likely needs: the first and the last that it writes.
fn ends(record: &Record) -> impl Iterator<Item = (TreeId, u64)> + use<> {
    let written = match record {
        Record::Write { tree, lba, blocks } if *blocks > 0 => {
            Some([(*tree, *lba), (*tree, lba.saturating_add(u64::from(*blocks) - 1))])
        }
        _ => None,
    };
    written.into_iter().flatten()
}

async fn read_root<D: Device>(device: &D) -> Result<Root, Error> {
    let info = device.info();
    let bytes = device
        .read_root()
        .await
        .map_err(|error| fault::device("reading the store's root", error))?
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Format,
                format!(
                    "{} holds no store: it was not made to the end, or its root was overwritten with \
                     zeroes; only if nothing was ever stored in it, format it",
                    info.name
                ),
            )
        })?;
    let root = Root::decode(&bytes).map_err(|why| {
        Error::new(
            ErrorKind::Format,
            format!("{}: the store's root cannot be used: {why}", info.name),
        )
    })?;
    if root.uuid != info.uuid || root.zone_blocks != info.zone_blocks {
        return Err(Error::new(
            ErrorKind::Format,
            format!("{}: the store's root belongs to another store", info.name),
        ));
    }
    Ok(root)
}

/// Why a copy of the manifest could not be had, before there is an engine that counts that.
struct ManifestError {
    kind: ReadErrorKind,
    at: Pba,
    blocks: u64,
    message: String,
}

async fn read_manifest<D: Device>(
    device: &D,
    root: &Root,
    errors: &mut Vec<ManifestError>,
) -> Result<Manifest, Error> {
    let mut first = None;
    for copy in manifest_copies(root) {
        match read_copy(device, root, copy, errors).await {
            Ok(manifest) => return Ok(manifest),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| fault::damaged("the root names no manifest")))
}

/// How many segments the store on `device` has, as far as that is known from what can be read there: those up to
/// the end of the manifest if the device has fewer, else those that the manifest counts. More than the device has
/// are there if its label is from before it grew.
pub async fn segments_told<D: Device>(device: &D) -> Result<u32, Error> {
    let root = read_root(device).await?;
    let ends = root.manifest.iter().map(|(pba, blocks)| pba.0.saturating_add(u64::from(*blocks)));
    let segments = ends.max().unwrap_or(0).div_ceil(root.zone_blocks.max(1));
    let segments = u32::try_from(segments).unwrap_or(u32::MAX);
    if segments > device.info().zones {
        return Ok(segments);
    }
    Ok(read_manifest(device, &root, &mut Vec::new()).await?.zones)
}

/// The chunks of the manifest, then those of its copy, if there is one.
pub(crate) fn manifest_copies(root: &Root) -> Vec<&[(Pba, u32)]> {
    let wanted = root.manifest_bytes.div_ceil(BLOCK_SIZE);
    let (mut copies, mut rest) = (Vec::new(), root.manifest.as_slice());
    while !rest.is_empty() {
        let mut blocks = 0;
        let whole = rest.iter().position(|(_, count)| {
            blocks += u64::from(*count);
            blocks >= wanted
        });
        let (copy, after) = rest.split_at(whole.map_or(rest.len(), |last| last + 1));
        copies.push(copy);
        rest = after;
    }
    copies
}

/// Why a store may refer to what is past the end of its device, and what to do.
const SMALLER: &str = "its label is from before it grew. `mjolnir check` tells whether something is missing, \
                       and `mjolnir salvage` writes the label anew and goes on without what is lost";

async fn read_copy<D: Device>(
    device: &D,
    root: &Root,
    chunks: &[(Pba, u32)],
    errors: &mut Vec<ManifestError>,
) -> Result<Manifest, Error> {
    const NO_WAY_ON: &str = "it says where everything lies, and no older one is kept, so all is \
                             lost unless the medium can be made to return it; restore from a backup";
    let info = device.info();
    let mut bytes = Vec::new();
    for (pba, blocks) in chunks {
        let end = pba.0.checked_add(u64::from(*blocks));
        if *blocks == 0
            || end.is_none_or(|end| end > info.blocks())
            || u64::from(*blocks) > info.zone_blocks
        {
            return Err(fault::damaged(format!(
                "{}: the root names a manifest at {pba}, out of range: {SMALLER}",
                info.name
            )));
        }
        let buffer = AlignedBuf::zeroed(*blocks as usize * BLOCK_BYTES);
        let piece = device.read(*pba, buffer).await.map_err(|error| {
            let (kind, message) = (ReadErrorKind::Failed, error.to_string());
            errors.push(ManifestError { kind, at: *pba, blocks: u64::from(*blocks), message });
            let error = fault::device("reading the checkpoint's manifest", error);
            Error::new(error.kind, format!("{}; {NO_WAY_ON}", error.message))
        })?;
        bytes.extend_from_slice(piece.as_ref());
    }
    if (bytes.len() as u64) < root.manifest_bytes {
        return Err(fault::damaged(format!(
            "{}: the checkpoint's manifest is shorter than its root says; {NO_WAY_ON}",
            info.name
        )));
    }
    bytes.truncate(root.manifest_bytes as usize);
    Manifest::decode(&bytes).map_err(|why| {
        if let Some((at, _)) = chunks.first() {
            let message = format!("the checkpoint's manifest is damaged: {why}");
            errors.push(ManifestError {
                kind: ReadErrorKind::Mismatch,
                at: *at,
                blocks: 1,
                message,
            });
        }
        let places: Vec<String> = chunks.iter().map(|(pba, _)| pba.to_string()).collect();
        fault::damaged(format!(
            "{}: the checkpoint's manifest (at {}) is damaged: {why}; {NO_WAY_ON}",
            info.name,
            places.join(", ")
        ))
    })
}

fn check_manifest(
    manifest: &Manifest,
    root: &Root,
    zones: u32,
    zone_blocks: u64,
) -> Result<(), Error> {
    if manifest.zones > zones {
        return Err(fault::damaged(format!(
            "the store has {} segments, but its label counts only {zones}: {SMALLER}",
            manifest.zones
        )));
    }
    let bad_zone = manifest
        .segments
        .iter()
        .map(|segment| segment.zone)
        .chain(manifest.free.iter().copied())
        .chain(manifest.scan.iter().copied())
        .find(|zone| zone.0 >= zones);
    if let Some(ZoneId(number)) = bad_zone {
        return Err(fault::damaged(format!(
            "the checkpoint names segment {number}, which does not exist"
        )));
    }
    let bad = manifest.segments.iter().find(|segment| {
        u64::from(segment.used) > zone_blocks
            || segment.footer > segment.used
            || segment.payload > segment.used
            || segment.incarnation > root.incarnation
    });
    if let Some(segment) = bad {
        return Err(fault::damaged(format!(
            "the checkpoint's entry for {} contradicts itself",
            segment.zone
        )));
    }
    Ok(())
}
