//! The steps of a checkpoint, each without an `.await`: freeze the map, list the segments in the
//! manifest, name it in the root, and, once the root is durable, free the segments that it
//! released.

use mjolnir_map::Frozen;
use mjolnir_units::{BLOCK_SIZE, Pba, TreeId, ZoneId};

use crate::drive::State;
use crate::format::manifest::{Manifest, TreeEntry};
use crate::format::place::{LOST, Place};
use crate::format::root::Root;
use crate::format::transaction::Prepared;
use crate::options::OpenOptions;
use crate::space::SegmentState;

/// The state at the moment when a checkpoint froze the map.
pub(super) struct Moment {
    /// The last record that the frozen map contains.
    pub sequence: u64,
    /// Segments that were open; later records may be logged there.
    open: Vec<ZoneId>,
    /// Segments that become free once the checkpoint is durable.
    retiring: Vec<ZoneId>,
    trees: Vec<TreeEntry>,
    prepared: Vec<Prepared>,
    committed: Vec<u128>,
    next_tree: u32,
    /// The store was closing.
    closed: bool,
}

/// A checkpoint's encoded manifest, and the data for its root.
pub(super) struct Listed {
    pub manifest: Manifest,
    /// Segments that become free once the checkpoint is durable.
    pub freed: Vec<ZoneId>,
    /// Those among them by which the device has grown.
    grown: Vec<ZoneId>,
    /// The highest incarnation given out.
    pub incarnation: u64,
}

impl State {
    /// Freezes the map. Clients continue on new versions of the nodes.
    pub(super) fn freeze(&mut self) -> (Frozen, Moment) {
        self.checkpoint.begun += 1;
        self.checkpoint.wanted = false;
        self.checkpoint.running = true;
        self.checkpoint.pending_bytes = self.map.unwritten_bytes() as u64;
        let frozen = self.map.freeze();
        self.checkpoint.frozen.extend(frozen.nodes.iter().map(|(id, _)| *id));
        self.log.since_checkpoint = 0;
        self.log.records_since_checkpoint = 0;
        self.space.opened.clear();
        let entry = |(tree, root): &(TreeId, _)| {
            let entry = self.catalog.get(*tree)?;
            Some(TreeEntry {
                tree: *tree,
                kind: entry.kind.clone(),
                created: entry.created,
                short: entry.short,
                root: mjolnir_map::root_encode(root).to_vec(),
            })
        };
        let trees: Vec<TreeEntry> = frozen.roots.iter().filter_map(entry).collect();
        assert_eq!(trees.len(), frozen.roots.len(), "a tree of the map is in no catalog");
        let zones = self.space.zones();
        let retiring = zones.filter(|(_, segment)| segment.state == SegmentState::Retiring);
        let moment = Moment {
            sequence: self.log.sequence,
            open: self.log.open_zones(),
            retiring: retiring.map(|(zone, _)| zone).collect(),
            trees,
            prepared: self.transactions.prepared.clone(),
            committed: self.transactions.committed.iter().copied().collect(),
            next_tree: self.catalog.peek_next(),
            closed: self.closing,
        };
        (frozen, moment)
    }

    /// Encodes the manifest, which describes the segments as they are now. No segment is opened out
    /// of order between this step and the root, because only listed segments may be opened.
    pub(super) fn list(&mut self, moment: Moment, superseded: &[u64]) -> Listed {
        let Moment { open: mut scan, retiring: mut freed, .. } = moment;
        scan.extend_from_slice(&self.space.opened);
        scan.sort();
        scan.dedup();
        for place in superseded.iter().filter(|place| **place != LOST) {
            self.space.add_map_bytes(Place::unpack(*place), -1);
        }
        for (pba, blocks) in std::mem::take(&mut self.table.manifest) {
            let bytes = u64::from(blocks) * BLOCK_SIZE;
            self.space.add_map_bytes(Place { pba, offset: 0, bytes }, -1);
        }
        freed.extend(self.space.empty_map_segments());
        let grown = self.space.take_grown();
        freed.extend(&grown);
        let manifest = Manifest {
            next_tree: moment.next_tree,
            closed: moment.closed,
            trees: moment.trees,
            prepared: moment.prepared,
            committed: moment.committed,
            ..self.manifest(&scan, &freed)
        };
        Listed { manifest, freed, grown, incarnation: self.space.incarnation }
    }

    /// A manifest was written, and no root will name it: an append failed since the map was frozen,
    /// so a checkpoint of what is repointed by now follows.
    pub(super) fn take_back(&mut self, listed: Listed, chunks: Vec<(Pba, u32)>) {
        for (pba, blocks) in chunks {
            let bytes = u64::from(blocks) * BLOCK_SIZE;
            self.space.add_map_bytes(Place { pba, offset: 0, bytes }, -1);
        }
        self.space.put_back_grown(listed.grown);
    }

    /// The root that names a manifest of `bytes` bytes in these chunks.
    pub(super) fn next_root(
        &mut self,
        sequence: u64,
        incarnation: u64,
        manifest_bytes: usize,
        chunks: Vec<(Pba, u32)>,
    ) -> Root {
        self.checkpoint.promise_wanted = false;
        Root {
            uuid: self.info.uuid,
            zone_blocks: self.info.zone_blocks,
            checkpoint: self.checkpoint.number + 1,
            epoch: self.log.epoch,
            sequence,
            incarnation,
            manifest_bytes: manifest_bytes as u64,
            manifest: chunks,
            durable: self.log.durable,
            opening: self.checkpoint.opening,
        }
    }

    /// Called when the root is durable: frees the segments.
    pub(super) fn conclude_checkpoint(
        &mut self,
        root: Root,
        freed: Vec<ZoneId>,
        breaks: u64,
        options: &OpenOptions,
    ) {
        self.log.forget_cuts(breaks);
        self.table.manifest = root.manifest.clone();
        self.log.durable = self.log.durable.max(root.sequence);
        self.checkpoint.number += 1;
        self.checkpoint.frozen = Vec::new();
        self.checkpoint.root = Some(root);
        self.space.note_root();
        self.checkpoint.ended = self.checkpoint.begun;
        self.checkpoint.running = false;
        self.checkpoint.pending_bytes = 0;
        self.counters.checkpoints += 1;
        for zone in freed {
            // A zone by which the device has grown was never in use.
            let was_used = self.space.get(zone).used > 0;
            self.space.freed_total += u64::from(was_used);
            match self.space.is_bad(zone) {
                true => self.space.push_bad(zone),
                false => self.space.push_free(zone),
            }
        }
        self.update_reserve();
        self.keep_within(options);
    }
}
