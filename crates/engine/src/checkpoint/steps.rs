//! The steps of a checkpoint, each without an `.await`: the map is frozen, the manifest lists the segments, the root
//! names it, and once that is durable, what it freed is free.

use mjolnir_map::Frozen;
use mjolnir_units::{BLOCK_SIZE, Pba, TreeId, ZoneId};

use crate::drive::State;
use crate::format::manifest::{Manifest, TreeEntry};
use crate::format::place::{LOST, Place};
use crate::format::root::Root;
use crate::format::transaction::Prepared;
use crate::options::OpenOptions;
use crate::space::SegmentState;

/// The map as a checkpoint holds it, with what else belongs to that moment.
pub(super) struct Moment {
    /// The last record that it contains.
    pub sequence: u64,
    /// Segments that were open: they may come to hold later records.
    open: Vec<ZoneId>,
    /// Segments that are free once it is durable.
    retiring: Vec<ZoneId>,
    trees: Vec<TreeEntry>,
    prepared: Vec<Prepared>,
    committed: Vec<u128>,
    next_tree: u32,
    /// The store was closing.
    closed: bool,
}

/// What a checkpoint is to be found by.
pub(super) struct Listed {
    pub manifest: Manifest,
    /// Segments that are free once it is durable.
    pub freed: Vec<ZoneId>,
    /// The highest incarnation given out.
    pub incarnation: u64,
}

impl State {
    /// Freezes the map. Clients go on with what replaces it, node by node.
    pub(super) fn freeze(&mut self) -> (Frozen, Moment) {
        self.checkpoint.begun += 1;
        self.checkpoint.wanted = false;
        self.checkpoint.running = true;
        self.checkpoint.pending_bytes = self.map.unwritten_bytes() as u64;
        let frozen = self.map.freeze();
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

    /// The manifest. It describes the segments as they are now, in one step: nothing is opened out of order between
    /// this and the root, because only what it lists may be opened.
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
        freed.extend(self.space.take_grown());
        let manifest = Manifest {
            next_tree: moment.next_tree,
            closed: moment.closed,
            trees: moment.trees,
            prepared: moment.prepared,
            committed: moment.committed,
            ..self.manifest(&scan, &freed)
        };
        Listed { manifest, freed, incarnation: self.space.incarnation }
    }

    /// The root that names a manifest of so many bytes in those chunks.
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

    /// The root is durable.
    pub(super) fn conclude_checkpoint(
        &mut self,
        root: Root,
        freed: Vec<ZoneId>,
        options: &OpenOptions,
    ) {
        self.table.manifest = root.manifest.clone();
        self.log.durable = self.log.durable.max(root.sequence);
        self.checkpoint.number += 1;
        self.checkpoint.root = Some(root);
        self.space.roots += 1;
        self.checkpoint.ended = self.checkpoint.begun;
        self.checkpoint.running = false;
        self.checkpoint.pending_bytes = 0;
        self.counters.checkpoints += 1;
        for zone in freed {
            // One that the device has grown by was never in use.
            let was_used = self.space.get(zone).used > 0;
            self.space.freed_total += u64::from(was_used);
            self.space.push_free(zone);
        }
        self.update_reserve();
        self.keep_within(options);
    }
}
