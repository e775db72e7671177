//! What recovery leaves out of a log with a gap: the ranges and changes that its records would have made.

use std::collections::BTreeMap;

use mjolnir_units::{BLOCK_SIZE, TreeId};

use crate::drive::State;
use crate::format::record::{Record, Remap};
use crate::report::{LogLoss, Loss, RecordRange};

impl LogLoss {
    /// Adds what a record that counts no more did.
    fn note(&mut self, record: &Record, names: &Names<'_>) {
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
            Record::Prepare { transaction, remaps: all } => {
                remaps = all;
                Some(format!("transaction {} was prepared", transaction.0))
            }
            Record::Commit { transaction } => {
                remaps = names.prepared(*transaction);
                Some(format!("transaction {} was committed", transaction.0))
            }
            Record::Abort { transaction } => {
                Some(format!("transaction {} was given up", transaction.0))
            }
            Record::Stage { .. } => None,
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

    /// Adds what records that count no more did, in the order of their numbers; `known` are all
    /// that can be read.
    pub(crate) fn note_dropped(&mut self, known: &BTreeMap<u64, Record>, state: &State) {
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
}

/// What trees are called, of which some were made by records that count no more.
struct Names<'a> {
    state: &'a State,
    made: BTreeMap<TreeId, String>,
    prepared: BTreeMap<TreeId, &'a [Remap]>,
}

impl<'a> Names<'a> {
    fn new(known: &'a BTreeMap<u64, Record>, state: &'a State) -> Self {
        let mut names = Names { state, made: BTreeMap::new(), prepared: BTreeMap::new() };
        for (tree, remaps) in &state.prepared {
            names.prepared.insert(*tree, remaps);
        }
        for record in known.values() {
            let (tree, name) = match record {
                Record::CreateVolume { tree, name, .. }
                | Record::CloneVolume { tree, name, .. } => (*tree, name.clone()),
                Record::CreateSnapshot { tree, of, name } => {
                    (*tree, format!("{}@{name}", names.of(*of)))
                }
                Record::Prepare { transaction, remaps } => {
                    names.prepared.insert(*transaction, remaps);
                    continue;
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

    /// Bytes of blocks that were written, without those past the end of a volume in its last block.
    fn clip(&self, tree: TreeId, lba: u64, blocks: u64) -> u64 {
        match self.state.map.blocks(tree) {
            Some(size) if lba.checked_add(blocks) == Some(size) => {
                self.state.clip(tree, lba, blocks)
            }
            _ => blocks.saturating_mul(BLOCK_SIZE),
        }
    }

    fn prepared(&self, transaction: TreeId) -> &'a [Remap] {
        self.prepared.get(&transaction).copied().unwrap_or_default()
    }
}
