//! Applies records without payload, by the same code live and in recovery.

use std::collections::BTreeSet;

use bytes::Bytes;
use mjolnir_map::Absent;
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Lba, TreeId};

use crate::catalog::{Entry, IDS_END};
use crate::drive::state::State;
use crate::fault;
use crate::format::group::FIXED_BYTES;
use crate::format::manifest::TreeKind;
use crate::format::record::{Record, Remap};
use crate::format::transaction::Prepared;
use crate::space::{Claim, Hurdle};

impl State {
    /// Applies records without payload and logs them in one group, whose header holds all of them:
    /// a crash keeps all or none. Only the first record may meet a hurdle, and together they fit a
    /// header. Returns the last record's sequence number.
    pub fn log_together(&mut self, records: &[Record]) -> Result<u64, Hurdle> {
        let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
        assert!(
            FIXED_BYTES + bytes <= BLOCK_BYTES,
            "{} records do not fit a header",
            records.len()
        );
        let Some(first) = records.first() else { return Ok(self.log.sequence) };
        for record in records {
            self.transactions.check(record, &self.catalog)?;
        }
        let claim = self.claim_of(first);
        if self.space.needs_checkpoint(claim) {
            return Err(Hurdle::CheckpointFirst(claim));
        }
        let State { log, space, placement, .. } = self;
        let stream = placement.first_of_clients();
        let room = placement.room_for(log, space, claim, stream, bytes, 0);
        let stream = room.map_err(|_| Hurdle::NoFreeSegment(claim))?.stream;
        for (index, record) in records.iter().enumerate() {
            let applied = self.apply(record, self.log.sequence + 1);
            assert!(index == 0 || applied.is_ok(), "a part of what belongs together was applied");
            applied?;
            self.log.kept.together(records.len() > 1);
            self.log.push(stream, record.clone(), Bytes::new(), record.encoded_bytes());
            self.log.kept.together(false);
        }
        Ok(self.log.sequence)
    }

    /// The claim under which a record without payload takes a segment.
    fn claim_of(&self, record: &Record) -> Claim {
        match record {
            Record::Resize { tree, bytes, .. }
                if self.map.blocks(*tree) > Some(blocks_of(*bytes)) =>
            {
                Claim::Relief
            }
            Record::Resize { .. } | Record::Rename { .. } | Record::Stage { blocks: 1, .. } => {
                Claim::Small
            }
            _ if record.frees_space() => Claim::Relief,
            _ => Claim::Client,
        }
    }

    /// Applies a record without payload, wholly or not at all.
    pub fn apply(&mut self, record: &Record, sequence: u64) -> Result<(), Hurdle> {
        let released = self.released_by(record);
        match record {
            Record::Write { .. } | Record::Moved { .. } | Record::Cut { .. } => {
                unreachable!("records with payload are applied with it")
            }
            Record::Vector { staging, remaps } => {
                self.apply_remaps(remaps)?;
                if let Some(tree) = staging {
                    self.drop_tree(*tree);
                }
            }
            Record::Prepare(prepared) => {
                let made = prepared.changes.iter().filter_map(made_tree);
                let last = made.chain([prepared.staging]).max();
                self.catalog.reserve_ids(last.map_or(0, |tree| tree.0.saturating_add(1)));
                self.transactions.prepared.push(prepared.clone());
            }
            Record::Commit { staging } => {
                let prepared = self.prepared(*staging)?.clone();
                self.apply_together(&prepared.changes, sequence)?;
                self.transactions.take(*staging);
                self.transactions.committed.insert(prepared.id);
                self.drop_tree(*staging);
            }
            Record::Abort { staging } => {
                self.prepared(*staging)?;
                self.transactions.take(*staging);
                self.drop_tree(*staging);
            }
            Record::Forget { transaction } => {
                self.transactions.committed.remove(transaction);
            }
            Record::Stage { tree, blocks } => {
                self.map.create(*tree, *blocks);
                self.insert_tree(*tree, TreeKind::Staging, sequence, 0);
            }
            Record::Resize { tree, bytes, tail: Some(tail) } => {
                self.resize_with_tail(*tree, *bytes, *tail)?;
            }
            change => {
                self.change_map(change)?;
                self.change_catalog(change, sequence);
            }
        }
        self.reclaim.released.reckon(released);
        Ok(())
    }

    /// Most blocks that a record can take out of use, before it is applied.
    fn released_by(&self, record: &Record) -> u64 {
        let trimmed = |remap: &Remap| match *remap {
            Remap::Trim { tree, lba, bytes } => self.mapped_at_most(tree, lba, blocks_of(bytes)),
            Remap::Clone { .. } | Remap::Move { .. } => 0,
        };
        let from = |tree: &TreeId, lba| {
            let blocks = self.map.blocks(*tree).unwrap_or(0);
            self.mapped_at_most(*tree, lba, blocks.saturating_sub(lba))
        };
        match record {
            Record::Remap(remap) => trimmed(remap),
            Record::Vector { remaps, .. } => {
                remaps.iter().map(trimmed).fold(0, u64::saturating_add)
            }
            Record::Commit { staging } => {
                let prepared = self.transactions.of_staging(*staging);
                let changes = prepared.into_iter().flat_map(|prepared| &prepared.changes);
                changes.map(|change| self.released_by(change)).fold(0, u64::saturating_add)
            }
            Record::Restore { tree, .. } | Record::Delete { tree } => from(tree, 0),
            Record::Resize { tree, bytes, .. } => from(tree, blocks_of(*bytes)),
            _ => 0,
        }
    }

    /// Most blocks of a range that may be mapped. A range that is entirely a hole counts none, as
    /// when a file system trims its free space again and again.
    fn mapped_at_most(&self, tree: TreeId, lba: u64, blocks: u64) -> u64 {
        let exists = blocks > 0 && self.in_tree(tree, lba, blocks).is_ok();
        match exists && !self.map.is_hole(tree, Lba(lba), blocks).unwrap_or(false) {
            true => blocks,
            false => 0,
        }
    }

    fn insert_tree(&mut self, tree: TreeId, kind: TreeKind, created: u64, short: u16) {
        self.catalog.insert(tree, Entry { kind, created, short });
    }

    /// Applies a change to the map. [`change_catalog`](Self::change_catalog) then updates the
    /// catalog, and only then removes a deleted tree.
    fn change_map(&mut self, change: &Record) -> Result<(), Hurdle> {
        match change {
            Record::Remap(remap) => self.apply_remap(remap)?,
            Record::CreateVolume { tree, bytes, .. } => self.map.create(*tree, blocks_of(*bytes)),
            Record::CreateSnapshot { tree, of, .. } | Record::CloneVolume { tree, of, .. } => {
                self.known(*of)?;
                self.map.snapshot(*of, *tree);
            }
            Record::Restore { tree, from } => {
                self.known(*tree)?;
                self.known(*from)?;
                self.map.replace(*tree, *from);
            }
            Record::Resize { tree, bytes, tail: None } => {
                self.known(*tree)?;
                self.map.resize(*tree, blocks_of(*bytes))?;
            }
            Record::Delete { .. } | Record::Rename { .. } => {}
            other => unreachable!("{other:?} is no change of the map alone"),
        }
        Ok(())
    }

    /// Applies the same change to the catalog. It cannot fail.
    fn change_catalog(&mut self, change: &Record, sequence: u64) {
        match change {
            Record::CreateVolume { tree, bytes, name } => {
                let kind = TreeKind::Volume(name.clone());
                self.insert_tree(*tree, kind, sequence, short_of(*bytes));
            }
            Record::CreateSnapshot { tree, of, name } => {
                let kind = TreeKind::Snapshot(*of, name.clone());
                self.insert_tree(*tree, kind, sequence, self.short(*of));
            }
            Record::CloneVolume { tree, of, name } => {
                let kind = TreeKind::Volume(name.clone());
                self.insert_tree(*tree, kind, sequence, self.short(*of));
            }
            Record::Restore { tree, from } => self.set_short(*tree, self.short(*from)),
            Record::Delete { tree } => self.drop_tree(*tree),
            Record::Resize { tree, bytes, .. } => self.set_short(*tree, short_of(*bytes)),
            Record::Rename { tree, name } => self.catalog.rename(*tree, name),
            _ => {}
        }
    }

    /// Applies all changes of a transaction, in order, or none.
    fn apply_together(&mut self, changes: &[Record], sequence: u64) -> Result<(), Hurdle> {
        if let [only @ Record::Remap(_)] = changes {
            return self.change_map(only);
        }
        self.check_made(changes)?;
        let mut changed: Vec<TreeId> = changes.iter().flat_map(changed_trees).flatten().collect();
        changed.sort();
        changed.dedup();
        self.find_ways(changes.iter().filter_map(|change| match change {
            Record::Remap(remap) => Some(remap),
            _ => None,
        }))?;
        let made =
            self.wholly(&changed, |state| changes.iter().try_for_each(|c| state.change_map(c)));
        if made.is_err() {
            for tree in changes.iter().filter_map(made_tree) {
                if self.map.contains(tree) {
                    self.map.drop_tree(tree);
                }
            }
            return made;
        }
        changes.iter().for_each(|change| self.change_catalog(change, sequence));
        Ok(())
    }

    fn short(&self, tree: TreeId) -> u16 {
        self.catalog.get(tree).map_or(0, |entry| entry.short)
    }

    fn set_short(&mut self, tree: TreeId, short: u16) {
        if let Some(entry) = self.catalog.get_mut(tree) {
            entry.short = short;
        }
    }

    /// Refuses to make a tree that exists, twice, or with an id that no tree can have: the log is damaged.
    fn check_made(&self, changes: &[Record]) -> Result<(), Error> {
        let mut made = BTreeSet::new();
        for tree in changes.iter().filter_map(made_tree) {
            if tree.0 >= IDS_END || self.map.contains(tree) || !made.insert(tree) {
                return Err(fault::damaged(format!(
                    "a transaction in the log makes tree {}, which exists or cannot be",
                    tree.0
                )));
            }
        }
        Ok(())
    }

    /// Resizes a volume, and makes the one block of `tail` its last.
    fn resize_with_tail(&mut self, tree: TreeId, bytes: u64, tail: TreeId) -> Result<(), Hurdle> {
        self.known(tree)?;
        let blocks = blocks_of(bytes);
        self.wholly(&[tree, tail], |state| {
            state.map.resize(tree, blocks)?;
            let (from_lba, to_lba) = (0, blocks.saturating_sub(1));
            let (from, to, bytes) = (tail, tree, BLOCK_SIZE);
            state.apply_remap(&Remap::Move { from, from_lba, to, to_lba, bytes })
        })?;
        self.drop_tree(tail);
        self.set_short(tree, short_of(bytes));
        Ok(())
    }

    pub fn drop_tree(&mut self, tree: TreeId) {
        if self.map.contains(tree) {
            self.map.drop_tree(tree);
        }
        self.catalog.remove(tree);
    }

    fn known(&self, tree: TreeId) -> Result<u64, Error> {
        self.map.blocks(tree).ok_or_else(|| {
            fault::damaged(format!("the log names tree {}, which does not exist", tree.0))
        })
    }

    fn prepared(&self, staging: TreeId) -> Result<&Prepared, Error> {
        self.transactions.of_staging(staging).ok_or_else(|| {
            fault::damaged(format!(
                "the log names the transaction of tree {}, which is not prepared",
                staging.0
            ))
        })
    }

    fn in_tree(&self, tree: TreeId, lba: u64, blocks: u64) -> Result<(), Error> {
        let size = self.known(tree)?;
        if lba.checked_add(blocks).is_none_or(|end| end > size) {
            return Err(Error::new(
                mjolnir_store::ErrorKind::Invalid,
                format!("blocks {lba}+{blocks} pass the end of tree {}, {size} blocks", tree.0),
            ));
        }
        Ok(())
    }

    fn apply_remap(&mut self, remap: &Remap) -> Result<(), Hurdle> {
        match *remap {
            Remap::Trim { tree, lba, bytes } => {
                let blocks = blocks_of(bytes);
                self.in_tree(tree, lba, blocks)?;
                if blocks > 0 {
                    self.map.trim(tree, Lba(lba), blocks)?;
                }
            }
            Remap::Clone { from, from_lba, to, to_lba, bytes } => {
                let blocks = blocks_of(bytes);
                self.in_tree(from, from_lba, blocks)?;
                self.in_tree(to, to_lba, blocks)?;
                if blocks > 0 {
                    self.map.clone_range(from, Lba(from_lba), to, Lba(to_lba), blocks)?;
                }
            }
            Remap::Move { from, from_lba, to, to_lba, bytes } => {
                let blocks = blocks_of(bytes);
                self.in_tree(from, from_lba, blocks)?;
                self.in_tree(to, to_lba, blocks)?;
                if blocks > 0 {
                    self.map.move_range(from, Lba(from_lba), to, Lba(to_lba), blocks)?;
                }
            }
        }
        Ok(())
    }

    /// Applies all or none.
    fn apply_remaps(&mut self, remaps: &[Remap]) -> Result<(), Hurdle> {
        if let [only] = remaps {
            return self.apply_remap(only);
        }
        let mut changed: Vec<TreeId> = remaps.iter().flat_map(remapped_trees).collect();
        changed.sort();
        changed.dedup();
        self.find_ways(remaps)?;
        self.wholly(&changed, |state| remaps.iter().try_for_each(|remap| state.apply_remap(remap)))
    }

    /// Names an absent node on the way to the ends of these ranges, if there is one. An attempt that meets it half
    /// way is undone, but the nodes that it copied stay dirty until a mark: with many ranges on a map that is not in
    /// memory, the attempts would make more of the map dirty than a full store can write.
    fn find_ways<'a>(&self, remaps: impl IntoIterator<Item = &'a Remap>) -> Result<(), Hurdle> {
        for (tree, first, blocks) in remaps.into_iter().flat_map(ranges) {
            let Some(size) = self.map.blocks(tree) else { continue };
            let end = first.saturating_add(blocks);
            // A range is cut off from the blocks on both sides of it.
            for lba in [first.saturating_sub(1), first, end.saturating_sub(1), end] {
                if lba < size
                    && let Some(absent) = self.map.way_to(tree, Lba(lba)).absent
                {
                    return Err(Absent(absent).into());
                }
            }
        }
        Ok(())
    }

    /// Applies a change of several steps to these trees wholly or not at all. A later step may need
    /// an absent node that an earlier step shared into place, so snapshots keep the trees (at no
    /// cost) until all steps are done.
    fn wholly(
        &mut self,
        changed: &[TreeId],
        change: impl FnOnce(&mut Self) -> Result<(), Hurdle>,
    ) -> Result<(), Hurdle> {
        // The backups hold the old state while it may still have to be restored.
        let backup = |index: usize| TreeId(IDS_END + index as u32);
        changed.iter().try_for_each(|tree| self.known(*tree).map(|_| ()))?;
        for (index, tree) in changed.iter().enumerate() {
            self.map.snapshot(*tree, backup(index));
        }
        let outcome = change(self);
        for (index, tree) in changed.iter().enumerate() {
            if outcome.is_err() {
                self.map.replace(*tree, backup(index));
            }
            self.map.drop_tree(backup(index));
        }
        outcome
    }
}

/// The ranges that a remap reads or changes: tree, first block and blocks.
fn ranges(remap: &Remap) -> impl Iterator<Item = (TreeId, u64, u64)> + use<> {
    let (first, second) = match *remap {
        Remap::Trim { tree, lba, bytes } => ((tree, lba, blocks_of(bytes)), None),
        Remap::Clone { from, from_lba, to, to_lba, bytes }
        | Remap::Move { from, from_lba, to, to_lba, bytes } => {
            let blocks = blocks_of(bytes);
            ((from, from_lba, blocks), Some((to, to_lba, blocks)))
        }
    };
    std::iter::once(first).chain(second)
}

/// The trees whose map a remap changes.
fn remapped_trees(remap: &Remap) -> [TreeId; 2] {
    match *remap {
        Remap::Trim { tree, .. } => [tree, tree],
        Remap::Clone { to, .. } => [to, to],
        Remap::Move { from, to, .. } => [from, to],
    }
}

/// The trees whose map a change of a transaction changes, except trees that it creates or drops.
fn changed_trees(change: &Record) -> [Option<TreeId>; 2] {
    match change {
        Record::Remap(remap) => remapped_trees(remap).map(Some),
        Record::Restore { tree, .. } | Record::Resize { tree, .. } => [Some(*tree), None],
        _ => [None, None],
    }
}

/// The tree that a change creates.
fn made_tree(change: &Record) -> Option<TreeId> {
    match change {
        Record::CreateVolume { tree, .. }
        | Record::CreateSnapshot { tree, .. }
        | Record::CloneVolume { tree, .. } => Some(*tree),
        _ => None,
    }
}

/// The number of blocks that `bytes` bytes take.
pub(crate) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_SIZE)
}

/// The difference between `bytes` and the whole blocks that hold them, in bytes.
fn short_of(bytes: u64) -> u16 {
    let within = bytes % BLOCK_SIZE;
    if within == 0 { 0 } else { (BLOCK_SIZE - within) as u16 }
}

impl From<Hurdle> for Option<Absent> {
    fn from(hurdle: Hurdle) -> Self {
        match hurdle {
            Hurdle::Absent(absent) => Some(absent),
            _ => None,
        }
    }
}
