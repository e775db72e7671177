//! Surveys the log: the segments that may hold records newer than the checkpoint, their groups, and
//! the damage among them.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::report::{DamagedPlace, ReadPurpose};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, ZoneId};

use crate::drive::{Engine, REACH, TRIES, Walk};
use crate::fault;
use crate::format::group::{GroupHeader, GroupPlace};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::record::Record;
use crate::format::root::Root;
use crate::format::segment::SegmentHeader;
use crate::recovery::cuts::Cuts;
use crate::recovery::free_list::LANDMARKS;
use crate::space::{
    CLIENT_STREAM, MAP_STREAM, ORDER_SLACK, PASSED_OVER_MAX, RECLAIM_STREAM, SegmentState,
};

/// Unopened segments in a row that end the search for opened ones: more than can be skipped or lost
/// at the front of the order.
const MISSES_MAX: usize = 2 * ORDER_SLACK + LANDMARKS + 2 * PASSED_OVER_MAX;

/// See the module.
pub(crate) struct Survey {
    /// The segments' groups, as far as readable.
    pub walks: Vec<SegmentWalk>,
    /// The highest epoch seen.
    pub epoch: u64,
    /// Unreadable places that may have held records newer than the checkpoint.
    pub damage: Vec<LostGroups>,
    pub traces: Vec<Trace>,
}

impl Survey {
    /// All groups found, with their segments.
    pub fn groups(&self) -> impl Iterator<Item = (ZoneId, &GroupHeader)> {
        self.walks.iter().flat_map(|of| of.walk.groups.iter().map(|group| (of.zone, group)))
    }
}

/// A segment that has neither a header nor a first group, but a later group. Usually a power cut
/// took them, and the later groups were not durable either: it counts as unopened. Otherwise its
/// groups' durable numbers reveal that records are missing.
pub(crate) struct Trace {
    pub zone: ZoneId,
    /// Records up to here were durable.
    pub durable: u64,
}

/// A segment and its groups.
pub(crate) struct SegmentWalk {
    pub zone: ZoneId,
    pub walk: Walk,
    /// Blocks that the checkpoint knows to be in use, at least.
    pub known: u64,
}

/// Consecutive lost groups.
pub(crate) struct LostGroups {
    pub place: DamagedPlace,
    /// Whether there is damage for certain. Otherwise a power cut may have taken the groups.
    pub certain: bool,
    /// The lowest record number behind them in the same segment: the lost groups' numbers were
    /// lower.
    pub before: Option<u64>,
    /// Most bytes of payload that they held.
    pub bytes: u64,
}

impl LostGroups {
    /// All groups that a segment may have held, as lost.
    pub fn whole_segment(zone: ZoneId, zone_blocks: u64, what: &str) -> Self {
        LostGroups {
            place: DamagedPlace { zone: zone.0, block: 0, what: what.into() },
            certain: true,
            before: None,
            bytes: (zone_blocks - 1) * BLOCK_SIZE,
        }
    }
}

/// The kind of a segment's first block.
enum First {
    /// The header of its current incarnation.
    Header(SegmentHeader),
    /// That header, but damaged.
    Damaged,
    /// Perhaps that header: the block cannot be read.
    Unreadable,
    /// An older header, or none: usually the segment was not opened since.
    Unopened,
}

/// Segments opened after the manifest was written.
struct Opened {
    zones: Vec<ZoneId>,
    /// Segments whose header is lost: only their groups tell their stream.
    headless: BTreeSet<ZoneId>,
}

const OF_LATER_ROOT: &str = "it was opened after a later checkpoint than the newest readable one: the copy of \
                             the root that names that checkpoint is damaged";

/// Segment headers read at once.
const HEADERS: usize = 32;

/// Segments walked at once.
const WALKS: usize = 8;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Walks every segment that may hold newer records, and records its content.
    pub(crate) async fn survey(&self, root: &Root, manifest: &Manifest) -> Result<Survey, Error> {
        let zone_blocks = self.state().info.zone_blocks;
        let mut survey =
            Survey { walks: Vec::new(), epoch: root.epoch, damage: Vec::new(), traces: Vec::new() };
        let opened = self.find_opened(root, manifest, &mut survey).await?;
        let scan: BTreeSet<ZoneId> = manifest.scan.iter().chain(&opened.zones).copied().collect();
        let walk = async |zone| {
            let (incarnation, known) = {
                let state = self.state();
                let segment = state.space.get(zone);
                (segment.incarnation, u64::from(segment.used))
            };
            let walk =
                self.walk_segment(ReadPurpose::Recovery, zone, incarnation, zone_blocks).await;
            (zone, known, walk)
        };
        let mut walks = stream::iter(scan).map(walk).buffered(WALKS);
        let mut found = Vec::new();
        while let Some((zone, known, walk)) = walks.next().await {
            found.push(SegmentWalk { zone, walk: walk?, known });
        }
        let cuts = Cuts::of(&found, root);
        survey.damage.retain(|lost| !cuts.explains(lost));
        survey.traces.retain(|trace| !cuts.is_whole_segment(trace.zone));
        for SegmentWalk { zone, mut walk, known } in found {
            let incarnation = self.state().space.get(zone).incarnation;
            let known = cuts.apply(zone, incarnation, &mut walk, known);
            let is_headless = opened.headless.contains(&zone);
            if is_headless {
                self.state().space.get_mut(zone).stream = stream_of(&walk.groups);
            }
            // Only clients' streams hold records to replay. Without a header, the segment's stream
            // stands only in its groups, and a lost one may have named it.
            let is_unsure = is_headless && !walk.breaks.is_empty();
            if self.state().space.get(zone).stream > RECLAIM_STREAM || is_unsure {
                survey.damage.extend(lost_groups(zone, &walk, root, zone_blocks));
            }
            self.note_walked(zone, &walk, known, u64::MAX);
            if cuts.is_whole_segment(zone) {
                self.state().space.give_up_empty(zone);
            }
            survey.walks.push(SegmentWalk { zone, walk, known });
        }
        Ok(survey)
    }

    /// Finds segments that were opened after the manifest was written.
    async fn find_opened(
        &self,
        root: &Root,
        manifest: &Manifest,
        survey: &mut Survey,
    ) -> Result<Opened, Error> {
        let zones = self.state().info.zones;
        let mut opened = Opened { zones: Vec::new(), headless: BTreeSet::new() };
        // Segments that look unopened although the next one may have been opened.
        let mut unopened = Vec::new();
        let mut misses = 0;
        for zone in manifest.order(zones) {
            let (found, header) = self.look_at_start(zone, root, &mut opened).await?;
            if let Some(header) = header {
                misses = 0;
                self.note_opened(zone, &header, root, &mut opened, survey);
                continue;
            }
            if matches!(found, First::Damaged) {
                let what = "the segment's header is damaged, and no group in it tells what the segment holds";
                survey.damage.push(self.whole_segment(zone, what));
            }
            if matches!(found, First::Unopened) && misses < ORDER_SLACK {
                unopened.push(zone);
            }
            misses += 1;
            if misses >= MISSES_MAX {
                break;
            }
        }
        self.find_traces(unopened, root, survey).await?;
        Ok(opened)
    }

    /// The first block of a segment, and its header. A lost header is rebuilt from the first group.
    async fn look_at_start(
        &self,
        zone: ZoneId,
        root: &Root,
        opened: &mut Opened,
    ) -> Result<(First, Option<SegmentHeader>), Error> {
        // Overlooking a segment loses records, so a segment that looks unopened is read twice.
        let mut found = self.read_segment_header(zone, root).await?;
        if !matches!(found, First::Header(_)) {
            found = self.read_segment_header(zone, root).await?;
        }
        // A segment whose header was overwritten, or taken by a power cut, looks unopened: then the
        // first group decides, if it is whole.
        let reach = match &found {
            First::Header(header) => {
                let header = header.clone();
                return Ok((found, Some(header)));
            }
            First::Damaged | First::Unreadable => REACH,
            First::Unopened => 2,
        };
        let Some(group) = self.headless_group(zone, root, reach).await? else {
            return Ok((found, None));
        };
        opened.headless.insert(zone);
        let uuid = self.state().info.uuid;
        let (incarnation, epoch) = (group.incarnation, group.epoch);
        let stream = stream_of(std::slice::from_ref(&group));
        Ok((found, Some(SegmentHeader { uuid, zone, incarnation, epoch, stream })))
    }

    /// Records a segment that was opened after the root was written.
    fn note_opened(
        &self,
        zone: ZoneId,
        header: &SegmentHeader,
        root: &Root,
        opened: &mut Opened,
        survey: &mut Survey,
    ) {
        survey.epoch = survey.epoch.max(header.epoch);
        let mut state = self.state();
        state.space.incarnation = state.space.incarnation.max(header.incarnation);
        if header.epoch != root.epoch {
            drop(state);
            // The segment was opened by a recovery that did not finish, and holds no valid records.
            // A recovery that did finish left a newer root than this.
            if header.stream != MAP_STREAM && header.epoch > root.epoch {
                survey.damage.push(self.whole_segment(zone, OF_LATER_ROOT));
            }
            return;
        }
        let segment = state.space.get_mut(zone);
        segment.state = SegmentState::Sealed;
        segment.stream = header.stream;
        segment.incarnation = header.incarnation;
        opened.zones.push(zone);
    }

    /// Finds the segments without header and first group that contain a later group.
    async fn find_traces(
        &self,
        unopened: Vec<ZoneId>,
        root: &Root,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        let zone_blocks = self.state().info.zone_blocks;
        let trace = async |zone| {
            let Some(first) = self.headless_group(zone, root, REACH).await? else {
                return Ok(None);
            };
            let groups = self
                .walk_groups(ReadPurpose::Recovery, zone, first.incarnation, zone_blocks)
                .await?;
            Ok(Some((zone, first, groups)))
        };
        let mut traces = stream::iter(unopened).map(trace).buffered(WALKS);
        while let Some(trace) = traces.next().await {
            let Some((zone, first, groups)) = trace? else { continue };
            survey.epoch = survey.epoch.max(first.epoch);
            {
                let mut state = self.state();
                state.space.incarnation = state.space.incarnation.max(first.incarnation);
            }
            if first.epoch == root.epoch {
                let durable = groups.iter().map(|group| group.durable).max().unwrap_or(0);
                survey.traces.push(Trace { zone, durable });
            } else if stream_of(&groups) != MAP_STREAM {
                survey.damage.push(self.whole_segment(zone, OF_LATER_ROOT));
            }
        }
        Ok(())
    }

    /// Treats all groups that a segment may have held as lost.
    fn whole_segment(&self, zone: ZoneId, what: &str) -> LostGroups {
        LostGroups::whole_segment(zone, self.state().info.zone_blocks, what)
    }

    /// Segments that do not, or may not, match the manifest: a later root, which cannot be read,
    /// had released them, and they were reset or reused.
    pub(crate) async fn find_outdated(
        &self,
        manifest: &Manifest,
    ) -> Result<Vec<LostGroups>, Error> {
        let (zone_blocks, uuid) = {
            let state = self.state();
            (state.info.zone_blocks, state.info.uuid)
        };
        let is_outdated = async |entry: &SegmentEntry| {
            let SegmentEntry { zone, incarnation, .. } = *entry;
            let mut given_up = false;
            for _ in 0..TRIES {
                let block = self.read_first_block(zone).await?;
                let header = block.and_then(|block| SegmentHeader::decode(block.as_ref()));
                let ours = header.filter(|header| (header.uuid, header.zone) == (uuid, zone));
                if ours.as_ref().is_some_and(|header| header.incarnation == incarnation) {
                    return Ok((zone, false));
                }
                given_up |= ours.is_some_and(|header| header.incarnation > incarnation);
            }
            if given_up {
                return Ok((zone, true)); // Later groups are left over from an earlier incarnation.
            }
            // Its first group replaces a lost header.
            let place = GroupPlace { uuid, zone, offset: 1, incarnation };
            let group = self
                .next_group(ReadPurpose::Recovery, zone, 1, 2, |group, _| group.is_at(&place))
                .await?;
            Ok((zone, group.is_none()))
        };
        let mut found = stream::iter(&manifest.segments).map(is_outdated).buffered(HEADERS);
        let mut lost = Vec::new();
        while let Some(of) = found.next().await {
            let (zone, true) = of? else { continue };
            let what = "it does not match the only readable root: a later root, whose copy is \
                        damaged, had given it up";
            lost.push(LostGroups::whole_segment(zone, zone_blocks, what));
        }
        Ok(lost)
    }

    /// Whether a segment looks unopened since the root was written.
    pub(crate) async fn looks_unopened(&self, zone: ZoneId, root: &Root) -> Result<bool, Error> {
        Ok(matches!(self.read_segment_header(zone, root).await?, First::Unopened))
    }

    /// The first block of a segment that may have been opened since the root was written.
    async fn read_segment_header(&self, zone: ZoneId, root: &Root) -> Result<First, Error> {
        let uuid = self.state().info.uuid;
        let Some(block) = self.read_first_block(zone).await? else { return Ok(First::Unreadable) };
        let header = SegmentHeader::decode(block.as_ref()).filter(|header| {
            header.uuid == uuid && header.zone == zone && header.incarnation > root.incarnation
        });
        let damaged = SegmentHeader::is_damaged(block.as_ref(), &uuid, zone, root.incarnation);
        Ok(match header {
            Some(header) => First::Header(header),
            None if damaged => {
                let at = zone.start(self.state().info.zone_blocks);
                let what = format!("the header of segment {} fails its checksum", zone.0);
                self.note_mismatch(ReadPurpose::Recovery, at, what);
                First::Damaged
            }
            None => First::Unopened,
        })
    }

    /// The first block of a segment, if readable. A missing device is an error.
    async fn read_first_block(&self, zone: ZoneId) -> Result<Option<AlignedBuf>, Error> {
        let at = zone.start(self.state().info.zone_blocks);
        let block =
            self.read_device(ReadPurpose::Recovery, at, AlignedBuf::zeroed(BLOCK_BYTES)).await;
        let what = format!("reading the first block of segment {}", zone.0);
        match block.map_err(|error| fault::device(&what, error)) {
            Ok(block) => Ok(Some(block)),
            Err(error) if error.kind == ErrorKind::Damaged => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A group near the start of a segment opened since the root was written. It tells as much as
    /// the segment's lost header. Every opened segment has a group.
    async fn headless_group(
        &self,
        zone: ZoneId,
        root: &Root,
        reach: u64,
    ) -> Result<Option<GroupHeader>, Error> {
        let (zone_blocks, uuid) = {
            let state = self.state();
            (state.info.zone_blocks, state.info.uuid)
        };
        let ours = |header: &GroupHeader, offset| {
            header.uuid == uuid
                && header.zone == zone
                && header.offset == offset
                && header.incarnation > root.incarnation
                && header.epoch >= root.epoch
        };
        let found =
            self.next_group(ReadPurpose::Recovery, zone, 1, zone_blocks.min(reach), ours).await?;
        Ok(found.map(|(_, group)| group))
    }

    /// Records the places of a segment's groups, and keeps their checksums. Behind a hole that a
    /// power cut may have left, a group counts only if the checkpoint contains it (which knows
    /// `known` blocks), or by a record below `next`.
    pub(crate) fn note_walked(&self, zone: ZoneId, walk: &Walk, known: u64, next: u64) {
        let mut holes = walk.breaks.iter().filter(|hole| hole.damage.is_none());
        let hole = holes.next().map_or(u64::MAX, |hole| hole.offset);
        let counts = |group: &&GroupHeader| {
            let replayed = |(sequence, _): &(u64, Record)| (1..next).contains(sequence);
            u64::from(group.offset) < hole.max(known)
                || next == u64::MAX
                || group.records.iter().any(replayed)
        };
        let groups: Vec<&GroupHeader> = walk.groups.iter().filter(counts).collect();
        let end =
            groups.last().map_or(1, |group| group.offset as usize + 1 + group.checksums.len());
        // Blocks of lost groups have no checksum: reads of them fail.
        let mut values = vec![0; end];
        for group in &groups {
            let first = group.offset as usize + 1;
            values[first..first + group.checksums.len()].copy_from_slice(&group.checksums);
        }
        let mut state = self.state();
        let sequence = state.log.sequence;
        let segment = state.space.get_mut(zone);
        // Fewer blocks than the checkpoint knew: a header is damaged. The blocks behind it are not
        // free, and reads of them fail.
        segment.used = known.max(end as u64) as u32;
        segment.payload = groups.iter().map(|group| group.checksums.len() as u32).sum();
        // A segment sealed before the checkpoint has a footer, which repeats the lost headers'
        // checksums.
        let is_sealed = segment.footer != 0 && end as u64 <= u64::from(segment.footer);
        if !is_sealed {
            segment.footer = 0;
        }
        segment.sealed = segment.sealed.max(sequence);
        let is_whole = walk.breaks.is_empty() && end as u64 == u64::from(segment.footer);
        if !is_sealed || is_whole {
            state.checksums.insert(zone, values);
        }
    }
}

/// The stream of a segment, by its groups.
fn stream_of(groups: &[GroupHeader]) -> u8 {
    let mut stream = MAP_STREAM;
    for (_, record) in groups.iter().flat_map(|group| &group.records) {
        match record {
            Record::Moved { .. } => stream = stream.max(RECLAIM_STREAM),
            _ => return CLIENT_STREAM,
        }
    }
    stream
}

/// The damaged places in the chain of a segment's groups.
fn lost_groups(
    zone: ZoneId,
    walk: &Walk,
    root: &Root,
    zone_blocks: u64,
) -> impl Iterator<Item = LostGroups> {
    walk.breaks.iter().map(move |hole| {
        let behind = walk.groups.iter().filter(|group| u64::from(group.offset) > hole.offset);
        let ours = behind.filter(|group| group.epoch == root.epoch);
        let numbers = ours.flat_map(|group| group.records.iter().map(|(sequence, _)| *sequence));
        let what = hole.damage.clone().unwrap_or_else(|| {
            format!(
                "no group header is at block {} of segment {}, but a later one follows",
                hole.offset, zone.0
            )
        });
        LostGroups {
            place: DamagedPlace { zone: zone.0, block: hole.offset, what },
            certain: hole.damage.is_some(),
            before: numbers.filter(|sequence| *sequence > 0).min(),
            bytes: (hole.next.unwrap_or(zone_blocks) - hole.offset - 1) * BLOCK_SIZE,
        }
    })
}
