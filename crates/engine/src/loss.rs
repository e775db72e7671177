//! What damage took: of the log, and of the map.

use std::collections::BTreeMap;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_SIZE, Lba, TreeId};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, State};
use crate::format::record::{Record, Remap};
use crate::log::GROUP_BLOCKS_MAX;

/// A range of a volume or snapshot whose bytes are lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loss {
    /// `volume`, or `volume@snapshot`.
    pub target: String,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Numbers of records, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRange {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// A place on the medium that cannot be read for what it should hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedPlace {
    /// The zone.
    pub zone: u32,
    /// The block within it.
    pub block: u64,
    /// What is wrong, in words.
    pub what: String,
}

/// What was logged after the newest checkpoint and cannot be had, because a part of the log is
/// damaged: everything behind the last record that is whole together with all before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLoss {
    /// The store is as of this record: all up to it are whole.
    pub whole_to: u64,
    /// All up to this one are known to have been durable.
    pub durable_to: u64,
    /// Where the damage is.
    pub places: Vec<DamagedPlace>,
    /// Records that are missing: what they were is not known.
    pub missing: Vec<RecordRange>,
    /// At most so many bytes of data were written by records that are missing, anywhere.
    pub unknown_bytes: u64,
    /// Records that can be read, but count no more, because one before them is missing.
    pub dropped_records: u64,
    /// What those wrote or changed: these ranges hold what they held before.
    pub ranges: Vec<Loss>,
    /// Other changes that those made and that are undone, in words.
    pub changes: Vec<String>,
}

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

    /// Whether nothing is.
    pub fn is_nothing(&self) -> bool {
        self.places.is_empty() && self.missing.is_empty() && self.dropped_records == 0
    }

    /// Sums up, once all is noted.
    pub(crate) fn finish(&mut self) {
        join(&mut self.ranges);
        if self.unknown_bytes == 0 {
            // No place is known where they were; each wrote at most a group.
            let records: u64 = self.missing.iter().map(|range| range.last - range.first + 1).sum();
            self.unknown_bytes = records * u64::from(GROUP_BLOCKS_MAX) * BLOCK_SIZE;
        }
    }

    /// What is lost, a line each, for people; without the ranges. At most `most` lines of each
    /// sort, and one that says how many more there are.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let more = |lines: &mut Vec<String>, all: usize, what: &str| {
            if all > most {
                lines.push(format!("… and {} more {what}; --json lists all", all - most));
            }
        };
        let places = self.places.iter().take(most);
        let mut lines: Vec<String> = places.map(|place| place.what.clone()).collect();
        more(&mut lines, self.places.len(), "damaged places");
        lines.push(format!(
            "the log is whole up to record {}; what was logged after it does not count",
            self.whole_to
        ));
        for range in self.missing.iter().take(most) {
            lines.push(match range.first == range.last {
                true => format!("record {} is missing: it is not known what it did", range.first),
                false => format!(
                    "records {} to {} are missing: it is not known what they did",
                    range.first, range.last
                ),
            });
        }
        more(&mut lines, self.missing.len(), "ranges of missing records");
        if self.unknown_bytes > 0 {
            lines.push(format!(
                "at most {} bytes were written by what is missing, to volumes that are not known; \
                 there they hold what they held before",
                self.unknown_bytes
            ));
        }
        lines.extend(self.changes.iter().take(most).map(|change| format!("undone: {change}")));
        more(&mut lines, self.changes.len(), "changes undone");
        lines
    }
}

/// Sorts ranges, and makes one of those that touch.
pub(crate) fn join(ranges: &mut Vec<Loss>) {
    ranges.retain(|range| range.length > 0);
    ranges.sort();
    let mut joined: Vec<Loss> = Vec::with_capacity(ranges.len());
    for range in ranges.drain(..) {
        match joined.last_mut() {
            Some(last)
                if last.target == range.target
                    && range.offset <= last.offset.saturating_add(last.length) =>
            {
                let end = (range.offset.saturating_add(range.length))
                    .max(last.offset.saturating_add(last.length));
                last.length = end - last.offset;
            }
            _ => joined.push(range),
        }
    }
    *ranges = joined;
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

impl State {
    /// Bytes of blocks of a tree, without those past its end in its last block.
    pub fn clip(&self, tree: TreeId, lba: u64, blocks: u64) -> u64 {
        let end = (lba + blocks) * BLOCK_SIZE;
        let size = self.map.blocks(tree).map_or(end, |blocks| self.catalog.size(tree, blocks));
        end.min(size).saturating_sub(lba * BLOCK_SIZE)
    }
}

/// The next part of a tree, in a walk over all of it.
pub(crate) enum Stretch {
    /// What it refers to.
    Runs(Vec<Run>),
    /// So many blocks whose part of the map cannot be read, and why.
    Lost(u64, Error),
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// What follows block `lba` of a tree; `None` at its end, or if it is gone.
    pub(crate) async fn stretch(&self, tree: TreeId, lba: u64) -> Option<Stretch> {
        let runs = self
            .step(|state| match state.map.blocks(tree) {
                Some(blocks) if lba < blocks => Ok(state.map.runs(tree, Lba(lba), 1024)?),
                _ => Ok(Vec::new()),
            })
            .await;
        match runs {
            Ok(runs) if runs.is_empty() => None,
            Ok(runs) => Some(Stretch::Runs(runs)),
            Err(error) => {
                let state = self.state();
                let blocks = state.map.blocks(tree).filter(|blocks| lba < *blocks)?;
                // To the end of what the absent node covers.
                let way = state.map.way_to(tree, Lba(lba));
                let end = match way.absent {
                    Some(_) => way.blocks.end,
                    None => lba + 1, // It came meanwhile; its neighbour is asked next.
                };
                Some(Stretch::Lost(end.min(blocks) - lba, error))
            }
        }
    }

    /// The damage to the log that this store was opened in spite of; see
    /// [`OpenOptions::salvage`](crate::OpenOptions::salvage).
    pub fn log_loss(&self) -> Option<LogLoss> {
        self.state().log_loss.clone()
    }
}

/// What to do about damage that keeps a store from opening.
pub(crate) const WAYS_ON: &str = "`mjolnir check` tells what is lost, and `mjolnir salvage` accepts \
                                  that, so that the store opens again";

/// A damaged place in words that say what can be done.
pub(crate) fn refusal(place: &DamagedPlace) -> Error {
    crate::fault::damaged(format!(
        "the store is damaged in segment {}, block {}: {}; {WAYS_ON}",
        place.zone, place.block, place.what
    ))
}
