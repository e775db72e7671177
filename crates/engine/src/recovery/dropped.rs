//! The loss behind a gap in the log: the ranges and changes of the dropped records.

use std::collections::BTreeMap;

use mjolnir_store::TransactionId;
use mjolnir_store::report::{LogLoss, Loss, RecordRange, join};
use mjolnir_units::{BLOCK_SIZE, TreeId};

use crate::drive::State;
use crate::format::group::GROUP_BLOCKS_MAX;
use crate::format::record::{Record, Remap};
use crate::format::transaction::Prepared;

/// Collects the effects of dropped records.
pub(crate) trait Dropped {
    /// Adds the effect of one dropped record.
    fn note(&mut self, record: &Record, names: &Names<'_>);

    /// Adds the effects of dropped records, in the order of their numbers; `known` holds all that
    /// can be read.
    fn note_dropped(&mut self, known: &BTreeMap<u64, Record>, state: &State);

    /// Computes the totals, after all records were added.
    fn finish(&mut self);
}

impl Dropped for LogLoss {
    fn note(&mut self, record: &Record, names: &Names<'_>) {
        if let Record::Commit { staging } = record {
            let prepared = names.prepared.get(staging);
            let changes = prepared.into_iter().flat_map(|prepared| &prepared.changes);
            changes.for_each(|change| self.note(change, names));
        }
        let mut range = |tree: TreeId, offset: u64, length: u64| {
            self.ranges.push(Loss { target: names.of(tree), offset, length });
        };
        let bytes_of = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE);
        let mut remaps: &[Remap] = &[];
        let change = match record {
            Record::Write { tree, lba, blocks } | Record::Moved { tree, lba, blocks, .. } => {
                range(*tree, bytes_of(*lba), names.clip(*tree, *lba, u64::from(*blocks)));
                None
            }
            Record::Remap(remap) => {
                remaps = std::slice::from_ref(remap);
                None
            }
            Record::Vector { remaps: all, .. } => {
                remaps = all;
                None
            }
            Record::Prepare(Prepared { id, .. }) => {
                Some(format!("transaction {} was prepared", TransactionId(*id)))
            }
            Record::Commit { staging } => {
                Some(format!("transaction {} was committed", names.transaction(*staging)))
            }
            Record::Abort { staging } => {
                Some(format!("transaction {} was aborted", names.transaction(*staging)))
            }
            Record::Forget { transaction } => {
                Some(format!("transaction {} was forgotten", TransactionId(*transaction)))
            }
            Record::Stage { .. } | Record::Cut { .. } => None,
            Record::CreateVolume { tree, .. } => {
                Some(format!("volume {} was created", names.of(*tree)))
            }
            Record::CreateSnapshot { tree, .. } => {
                Some(format!("snapshot {} was created", names.of(*tree)))
            }
            Record::CloneVolume { tree, of, .. } => {
                Some(format!("volume {} was cloned from {}", names.of(*tree), names.of(*of)))
            }
            Record::Restore { tree, from } => {
                range(*tree, 0, names.size(*tree).max(names.size(*from)));
                Some(format!("{} was given the content of {}", names.of(*tree), names.of(*from)))
            }
            Record::Delete { tree } => Some(format!("{} was deleted", names.of(*tree))),
            Record::Resize { tree, bytes, .. } => {
                let before = names.size(*tree);
                range(*tree, before.min(*bytes), before.abs_diff(*bytes));
                Some(format!("{} was given a size of {bytes} bytes", names.of(*tree)))
            }
            Record::Rename { tree, name } => {
                Some(format!("{} was renamed to {name}", names.of(*tree)))
            }
        };
        for remap in remaps {
            match *remap {
                Remap::Trim { tree, lba, bytes } => range(tree, bytes_of(lba), bytes),
                Remap::Clone { to, to_lba, bytes, .. } => range(to, bytes_of(to_lba), bytes),
                Remap::Move { from, from_lba, to, to_lba, bytes } => {
                    range(from, bytes_of(from_lba), bytes);
                    range(to, bytes_of(to_lba), bytes);
                }
            }
        }
        self.changes.extend(change);
    }

    fn note_dropped(&mut self, known: &BTreeMap<u64, Record>, state: &State) {
        let names = Names::new(known, state);
        for (sequence, record) in known {
            if record.is_sequenced() && *sequence > self.whole_to {
                self.note(record, &names);
                self.dropped_records += 1;
            }
        }
        let mut next = self.whole_to + 1;
        let last = known.keys().next_back().copied().unwrap_or(0).max(self.durable_to);
        for sequence in known.range(next..).map(|(sequence, _)| *sequence).chain([last + 1]) {
            if sequence > next {
                self.missing.push(RecordRange { first: next, last: sequence - 1 });
            }
            next = sequence + 1;
        }
    }

    fn finish(&mut self) {
        join(&mut self.ranges);
        if self.unknown_bytes == 0 {
            // The places of missing records are unknown; each record wrote at most a group.
            let records: u64 = self.missing.iter().map(|range| range.last - range.first + 1).sum();
            self.unknown_bytes = records * u64::from(GROUP_BLOCKS_MAX) * BLOCK_SIZE;
        }
    }
}

/// Names of trees, including those that dropped records created.
pub(crate) struct Names<'a> {
    state: &'a State,
    made: BTreeMap<TreeId, String>,
    prepared: BTreeMap<TreeId, &'a Prepared>,
}

impl<'a> Names<'a> {
    fn new(known: &'a BTreeMap<u64, Record>, state: &'a State) -> Self {
        let mut names = Names { state, made: BTreeMap::new(), prepared: BTreeMap::new() };
        for prepared in &state.transactions.prepared {
            names.prepared.insert(prepared.staging, prepared);
        }
        for record in known.values() {
            if let Record::Prepare(prepared) = record {
                names.prepared.insert(prepared.staging, prepared);
            }
        }
        let changes: Vec<&Record> =
            names.prepared.values().flat_map(|prepared| &prepared.changes).collect();
        for record in known.values().chain(changes) {
            let (tree, name) = match record {
                Record::CreateVolume { tree, name, .. }
                | Record::CloneVolume { tree, name, .. } => (*tree, name.clone()),
                Record::CreateSnapshot { tree, of, name } => {
                    (*tree, format!("{}@{name}", names.of(*of)))
                }
                _ => continue,
            };
            names.made.insert(tree, name);
        }
        names
    }

    fn of(&self, tree: TreeId) -> String {
        let name = self.state.catalog.full_name(tree).or_else(|| self.made.get(&tree).cloned());
        name.unwrap_or_else(|| format!("(tree {})", tree.0))
    }

    fn size(&self, tree: TreeId) -> u64 {
        self.state.catalog.size(tree, self.state.map.blocks(tree).unwrap_or(0))
    }

    /// Bytes of written blocks, less those past a volume's end in its last block.
    fn clip(&self, tree: TreeId, lba: u64, blocks: u64) -> u64 {
        match self.state.map.blocks(tree) {
            Some(size) if lba.checked_add(blocks) == Some(size) => {
                self.state.clip(tree, lba, blocks)
            }
            _ => blocks.saturating_mul(BLOCK_SIZE),
        }
    }

    /// The id of the transaction that owns this staged tree.
    fn transaction(&self, staging: TreeId) -> TransactionId {
        let prepared = self.prepared.get(&staging);
        TransactionId(prepared.map_or(staging.0.into(), |prepared| prepared.id))
    }
}
