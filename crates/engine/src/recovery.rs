//! Recovery: the newest durable checkpoint, then the records logged after it, in order, up to the
//! first gap.
//!
//! Steps, none of which writes to the device:
//!
//! 1. read the root and the manifest it names;
//! 2. find the segments written since: those the manifest lists for scanning, and those at the
//!    front of its order of free ones whose first block shows a newer incarnation;
//! 3. walk their groups; verify the payload of groups that no later group calls durable;
//! 4. load the map's roots and node table (nodes come as needed);
//! 5. replay records by sequence number until one is missing;
//! 6. drop what was staged for vectors that never came;
//! 7. count what lives in the map's segments.
//!
//! The caller then takes a checkpoint with a new epoch, so what lay beyond the gap never replays;
//! a crash before that finds the same checkpoint again and repeats the same steps.

use std::collections::{BTreeMap, BTreeSet};

use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_map::Map;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Lba, Pba, TreeId, ZoneId};

use crate::catalog::Entry;
use crate::engine::{Engine, Hurdle};
use crate::fault;
use crate::format::bind;
use crate::format::group::GroupHeader;
use crate::format::manifest::{Manifest, TreeKind};
use crate::format::record::Record;
use crate::format::root::Root;
use crate::format::segment::SegmentHeader;
use crate::log::GROUP_BLOCKS_MAX;
use crate::node_io::Place;
use crate::options::OpenOptions;
use crate::space::{ORDER_SLACK, Segment, SegmentState};

/// Unopened segments in a row that end the search for opened ones: more than could be skipped or
/// lost at the front of the order.
const MISSES_MAX: usize = 2 * ORDER_SLACK + 16;

/// A record with where its payload lies.
struct Logged {
    record: Record,
    payload: Pba,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) async fn recover(
        device: D,
        runtime: R,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        let info = device.info();
        let root = read_root(&device).await?;
        let manifest = read_manifest(&device, &root).await?;
        check_manifest(&manifest, &root, info.zones, info.zone_blocks)?;

        let engine =
            Engine::assemble(device, runtime, options, Map::new(), root.epoch, root.sequence);
        {
            let mut state = engine.state();
            for entry in &manifest.segments {
                *state.space.get_mut(entry.zone) = Segment {
                    state: SegmentState::Sealed,
                    stream: entry.stream,
                    incarnation: entry.incarnation,
                    used: entry.used,
                    payload: entry.payload,
                    footer: entry.footer,
                    sealed: entry.sealed,
                    live: None,
                    stuck: None,
                    map_bytes: 0,
                    pins: 0,
                };
            }
            state.space.incarnation = root.incarnation;
            state.checkpoint.number = root.checkpoint;
            state.table.manifest = root.manifest.clone();
            state.table.pages = manifest.pages.clone();
        }

        let (opened, epoch_seen) = engine.find_opened(&root, &manifest).await?;
        let mut logged: BTreeMap<u64, Logged> = BTreeMap::new();
        let mut groups: Vec<(ZoneId, GroupHeader)> = Vec::new();
        let mut claimed = 0;
        let scan: BTreeSet<ZoneId> = manifest.scan.iter().chain(&opened).copied().collect();
        for zone in &scan {
            let incarnation = engine.state().space.get(*zone).incarnation;
            let walked = engine.walk_groups(*zone, incarnation, info.zone_blocks).await?;
            claimed = claimed.max(engine.claims_beyond(*zone, incarnation, &walked, &root).await?);
            engine.note_walked(*zone, &walked);
            groups.extend(walked.into_iter().map(|group| (*zone, group)));
        }
        let durable = groups.iter().map(|(_, group)| group.durable).fold(claimed, u64::max);
        let mut highest = root.sequence;
        for (zone, group) in groups {
            let newest = group.records.iter().map(|(sequence, _)| *sequence).max().unwrap_or(0);
            highest = highest.max(newest);
            if newest <= root.sequence || group.epoch != root.epoch {
                continue;
            }
            if newest > durable && !engine.payload_is_whole(zone, &group).await? {
                continue;
            }
            let mut payload = zone.start(info.zone_blocks).plus(u64::from(group.offset) + 1);
            for (sequence, record) in group.records {
                let blocks = record.payload_blocks();
                if sequence > root.sequence {
                    logged.insert(sequence, Logged { record, payload });
                }
                payload = payload.plus(blocks);
            }
        }

        engine.load_map(&manifest).await?;
        let mut next = root.sequence + 1;
        while let Some(Logged { record, payload }) = logged.remove(&next) {
            engine.replay(next, record, payload).await?;
            next += 1;
        }
        if next <= durable {
            return Err(fault::damaged(format!(
                "the log is damaged: record {next} is missing, but a later one says that all up \
                 to {durable} were durable; `check` shows what can be read"
            )));
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
        let lost = logged.len();
        state.counters.replayed_records = next - 1 - root.sequence;
        state.counters.dropped_records = lost as u64;
        state.log.sequence = highest;
        state.log.durable = highest;
        state.log.epoch = epoch_seen + 1;
        state.space.incarnation = state.space.incarnation.max(root.incarnation);
        // What is not in use is free, in the manifest's order.
        for zone in &manifest.free {
            if state.space.get(*zone).state == SegmentState::Free {
                state.space.push_free(*zone);
            }
        }
        for zone in (manifest.zones..info.zones).map(ZoneId) {
            if state.space.get(zone).state == SegmentState::Free {
                state.space.push_free(zone);
            }
        }
        let mut places: Vec<Place> = Vec::new();
        places.extend(state.durable_table().map(Place::unpack));
        places.extend(state.table.pages.iter().filter(|p| **p != 0).map(|p| Place::unpack(*p)));
        places.extend(root.manifest.iter().map(|(pba, blocks)| Place {
            pba: *pba,
            offset: 0,
            bytes: u64::from(*blocks) * BLOCK_SIZE,
        }));
        for place in places {
            state.space.add_map_bytes(place, 1);
        }
        state.update_reserve();
        state.reclaim.nodes_marked = state.map.usage().nodes;
        drop(guard);
        Ok(engine)
    }

    /// Finds segments that were opened after the manifest was written. Returns them with the
    /// highest epoch seen.
    async fn find_opened(
        &self,
        root: &Root,
        manifest: &Manifest,
    ) -> Result<(Vec<ZoneId>, u64), Error> {
        let info = self.state().info.clone();
        let added = (manifest.zones..info.zones).map(ZoneId);
        let order: Vec<ZoneId> = manifest.free.iter().copied().chain(added).collect();
        let (mut opened, mut epoch, mut misses) = (Vec::new(), root.epoch, 0);
        for zone in order {
            let read = async || {
                let at = zone.start(info.zone_blocks);
                let block = self.device().read(at, AlignedBuf::zeroed(BLOCK_BYTES)).await;
                let block = block.map_err(|error| {
                    fault::device(&format!("reading the first block of {zone}"), error)
                })?;
                let header = SegmentHeader::decode(block.as_ref()).filter(|header| {
                    header.uuid == info.uuid
                        && header.zone == zone
                        && header.incarnation > root.incarnation
                });
                let newest = root.incarnation;
                let damaged = SegmentHeader::is_damaged(block.as_ref(), &info.uuid, zone, newest);
                Ok::<_, Error>((header, damaged))
            };
            // A segment overlooked is records lost, so what looks unopened is looked at twice.
            let (header, damaged) = match read().await? {
                (Some(header), _) => (Some(header), false),
                (None, _) => read().await?,
            };
            let Some(header) = header else {
                if damaged {
                    return Err(fault::damaged(format!(
                        "the log is damaged: the header at {} ({zone}) fails its checksum, so what \
                         the segment holds cannot be known; `check` shows what can be read",
                        zone.start(info.zone_blocks)
                    )));
                }
                misses += 1;
                if misses >= MISSES_MAX {
                    break;
                }
                continue;
            };
            misses = 0;
            epoch = epoch.max(header.epoch);
            let mut state = self.state();
            state.space.incarnation = state.space.incarnation.max(header.incarnation);
            if header.epoch != root.epoch {
                // Opened by a recovery that did not finish: it holds nothing that counts.
                continue;
            }
            let segment = state.space.get_mut(zone);
            segment.state = SegmentState::Sealed;
            segment.stream = header.stream;
            segment.incarnation = header.incarnation;
            opened.push(zone);
        }
        Ok((opened, epoch))
    }

    /// Looks behind the end of a chain of groups for what says that it should go on: a header that
    /// is damaged, or a later group, found beyond one that is lost, which says what was durable.
    /// Returns the highest sequence number that such groups call durable.
    async fn claims_beyond(
        &self,
        zone: ZoneId,
        incarnation: u64,
        walked: &[GroupHeader],
        root: &Root,
    ) -> Result<u64, Error> {
        let zone_blocks = self.state().info.zone_blocks;
        let end = walked.last().map_or(1, |g| u64::from(g.offset) + 1 + g.checksums.len() as u64);
        // The group after a lost one begins within the longest one's length.
        let most = 2 * (1 + u64::from(GROUP_BLOCKS_MAX));
        let start = zone.start(zone_blocks).plus(end);
        let mut claimed = 0;
        let count = most.min(zone_blocks.saturating_sub(end));
        let buffer = AlignedBuf::zeroed(count as usize * BLOCK_BYTES);
        // Blocks that cannot be read say nothing: the chain itself ended at one that could be.
        let Ok(bytes) = self.device().read(start, buffer).await else { return Ok(0) };
        for (index, block) in bytes.as_ref().chunks_exact(BLOCK_BYTES).enumerate() {
            let (at, offset) = (start.plus(index as u64), end as u32 + index as u32);
            match GroupHeader::decode(block) {
                Ok(group) => {
                    let ours = group.zone == zone
                        && group.incarnation == incarnation
                        && group.offset == offset
                        && group.epoch == root.epoch;
                    claimed = claimed.max(if ours { group.durable } else { 0 });
                }
                Err(_) if index == 0 => {
                    if GroupHeader::is_damaged(block, zone, offset, incarnation) {
                        return Err(fault::damaged(format!(
                            "the log is damaged: the group header at {at} ({zone}, block \
                             {offset}) fails its checksum, so what it records cannot be known; \
                             `check` shows what can be read"
                        )));
                    }
                }
                Err(_) => {}
            }
        }
        Ok(claimed)
    }

    /// Records where a segment's groups end, and keeps its checksums.
    fn note_walked(&self, zone: ZoneId, groups: &[GroupHeader]) {
        let mut values = vec![0];
        for group in groups {
            values.push(0);
            values.extend_from_slice(&group.checksums);
        }
        let mut state = self.state();
        let sequence = state.log.sequence;
        let segment = state.space.get_mut(zone);
        // Fewer than the checkpoint knew of: a header is damaged. What lies behind it is not free,
        // and reads of it fail.
        segment.used = segment.used.max(values.len() as u32);
        segment.payload = groups.iter().map(|group| group.checksums.len() as u32).sum();
        segment.footer = 0;
        segment.sealed = segment.sealed.max(sequence);
        state.checksums.insert(zone, values);
    }

    /// Whether all of a group's payload reached the device.
    async fn payload_is_whole(&self, zone: ZoneId, group: &GroupHeader) -> Result<bool, Error> {
        if group.checksums.is_empty() {
            return Ok(true);
        }
        let zone_blocks = self.state().info.zone_blocks;
        let start = zone.start(zone_blocks).plus(u64::from(group.offset) + 1);
        let verify = async || {
            let buffer = AlignedBuf::zeroed(group.checksums.len() * BLOCK_BYTES);
            let Ok(bytes) = self.device().read(start, buffer).await else { return false };
            let blocks = bytes.as_ref().chunks_exact(BLOCK_BYTES).zip(&group.checksums);
            blocks.enumerate().all(|(index, (block, expected))| {
                let at = start.plus(index as u64);
                crc32c::crc32c(block) ^ bind(at, group.incarnation) == *expected
            })
        };
        // Twice, so that a passing fault does not pass for a torn write.
        Ok(verify().await || verify().await)
    }

    async fn load_map(&self, manifest: &Manifest) -> Result<(), Error> {
        let mut pages = Vec::with_capacity(manifest.pages.len());
        for packed in &manifest.pages {
            let mut page = [0u64; mjolnir_map::TABLE_PAGE];
            if *packed != 0 {
                let place = Place::unpack(*packed);
                let bytes = self.read_verified(place.pba, place.blocks()).await?;
                let image = &bytes[place.offset as usize..(place.offset + place.bytes) as usize];
                for (slot, word) in page.iter_mut().zip(image.chunks_exact(8)) {
                    *slot = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                }
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
        for entry in &manifest.trees {
            let (kind, created) = (entry.kind.clone(), entry.created);
            state.catalog.insert(entry.tree, Entry { kind, created });
        }
        state.catalog.reserve_ids(manifest.next_tree);
        state.prepared = manifest.prepared.clone();
        Ok(())
    }

    async fn replay(&self, sequence: u64, record: Record, payload: Pba) -> Result<(), Error> {
        self.step(|state| match &record {
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
                state.apply(other, sequence)
            }
        })
        .await
    }
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
                format!("{} holds no store yet; `format` makes one", info.name),
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

async fn read_manifest<D: Device>(device: &D, root: &Root) -> Result<Manifest, Error> {
    let info = device.info();
    let mut bytes = Vec::new();
    for (pba, blocks) in &root.manifest {
        if *blocks == 0
            || pba.0 + u64::from(*blocks) > info.blocks()
            || u64::from(*blocks) > info.zone_blocks
        {
            return Err(fault::damaged(format!(
                "the root names a manifest at {pba}, out of range"
            )));
        }
        let buffer = AlignedBuf::zeroed(*blocks as usize * BLOCK_BYTES);
        let piece = device
            .read(*pba, buffer)
            .await
            .map_err(|error| fault::device("reading the checkpoint's manifest", error))?;
        bytes.extend_from_slice(piece.as_ref());
    }
    if (bytes.len() as u64) < root.manifest_bytes {
        return Err(fault::damaged("the checkpoint's manifest is shorter than its root says"));
    }
    bytes.truncate(root.manifest_bytes as usize);
    Manifest::decode(&bytes)
        .map_err(|why| fault::damaged(format!("the checkpoint's manifest is damaged: {why}")))
}

fn check_manifest(
    manifest: &Manifest,
    root: &Root,
    zones: u32,
    zone_blocks: u64,
) -> Result<(), Error> {
    if manifest.zones > zones {
        return Err(fault::damaged(format!(
            "the store has {} segments, but its device only {zones}: the file was truncated or \
             belongs to another device",
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
    if let Some(zone) = bad_zone {
        return Err(fault::damaged(format!("the checkpoint names {zone}, which does not exist")));
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
