//! Records that write nothing: applied to the map live and in recovery by the same code.

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
use crate::space::{Claim, Hurdle};

impl State {
    /// Applies records that carry no payload and puts them into the log, in one group: its header is on the
    /// medium, with all of them, or is not. Of several, only the first may meet a hurdle, and together they
    /// fit a header. Returns the last one's sequence number.
    pub fn log_together(&mut self, records: &[Record]) -> Result<u64, Hurdle> {
        let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
        assert!(
            FIXED_BYTES + bytes <= BLOCK_BYTES,
            "{} records do not fit a header",
            records.len()
        );
        let Some(first) = records.first() else { return Ok(self.log.sequence) };
        let claim = self.claim_of(first);
        if self.space.is_crowded(claim) {
            return Err(Hurdle::Crowded(claim));
        }
        let State { log, space, placement, .. } = self;
        let stream = placement.first_of_clients();
        let room = placement.room_for(log, space, claim, stream, bytes, 0);
        let stream = room.map_err(|_| Hurdle::NoRoom(claim))?.stream;
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

    /// What a record without payload asks for room as.
    fn claim_of(&self, record: &Record) -> Claim {
        match record {
            Record::Resize { tree, bytes, .. }
                if self.map.blocks(*tree) > Some(blocks_of(*bytes)) =>
            {
                Claim::Relief
            }
            Record::Resize { .. } | Record::Rename { .. } => Claim::Small,
            _ if record.frees_space() => Claim::Relief,
            _ => Claim::Client,
        }
    }

    /// Applies a record without payload, wholly or not at all.
    pub fn apply(&mut self, record: &Record, sequence: u64) -> Result<(), Hurdle> {
        let released = self.released_by(record);
        match record {
            Record::Write { .. } | Record::Moved { .. } => {
                unreachable!("records with payload are applied with it")
            }
            Record::Remap(remap) => self.apply_remap(remap)?,
            Record::Vector { staging, remaps } => {
                self.apply_remaps(remaps)?;
                if let Some(tree) = staging {
                    self.drop_tree(*tree);
                }
            }
            Record::Prepare { transaction, remaps } => {
                self.prepared.push((*transaction, remaps.clone()));
            }
            Record::Commit { transaction } => {
                let at = self.prepared_at(*transaction)?;
                let remaps = self.prepared[at].1.clone();
                self.apply_remaps(&remaps)?;
                self.prepared.remove(at);
                self.drop_tree(*transaction);
            }
            Record::Abort { transaction } => {
                let at = self.prepared_at(*transaction)?;
                self.prepared.remove(at);
                self.drop_tree(*transaction);
            }
            Record::Stage { tree, blocks } => {
                self.map.create(*tree, *blocks);
                self.insert_tree(*tree, TreeKind::Staging, sequence, 0);
            }
            Record::CreateVolume { tree, bytes, name } => {
                self.map.create(*tree, blocks_of(*bytes));
                let kind = TreeKind::Volume(name.clone());
                self.insert_tree(*tree, kind, sequence, short_of(*bytes));
            }
            Record::CreateSnapshot { tree, of, name } => {
                self.copy_tree(*of, *tree, TreeKind::Snapshot(*of, name.clone()), sequence)?;
            }
            Record::CloneVolume { tree, of, name } => {
                self.copy_tree(*of, *tree, TreeKind::Volume(name.clone()), sequence)?;
            }
            Record::Restore { tree, from } => {
                self.known(*tree)?;
                self.known(*from)?;
                self.map.replace(*tree, *from);
                self.set_short(*tree, self.short(*from));
            }
            Record::Delete { tree } => self.drop_tree(*tree),
            Record::Resize { tree, bytes, tail } => self.resize(*tree, *bytes, *tail)?,
            Record::Rename { tree, name } => self.catalog.rename(*tree, name),
        }
        self.reclaim.released.reckon(released);
        Ok(())
    }

    /// Blocks that a record which is about to be applied may take out of use, at most.
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
            Record::Commit { transaction } => {
                let of = self.prepared.iter().filter(|(id, _)| id == transaction);
                of.flat_map(|(_, remaps)| remaps).map(trimmed).fold(0, u64::saturating_add)
            }
            Record::Restore { tree, .. } | Record::Delete { tree } => from(tree, 0),
            Record::Resize { tree, bytes, .. } => from(tree, blocks_of(*bytes)),
            _ => 0,
        }
    }

    /// Blocks of a range that may be mapped, at most: none of one that is a hole as a whole, as where a
    /// file system trims its free space again and again.
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

    fn copy_tree(
        &mut self,
        of: TreeId,
        tree: TreeId,
        kind: TreeKind,
        created: u64,
    ) -> Result<(), Error> {
        self.known(of)?;
        self.map.snapshot(of, tree);
        self.insert_tree(tree, kind, created, self.short(of));
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

    /// Gives a volume another size, and the block of `tail`, if there is one, as its last.
    fn resize(&mut self, tree: TreeId, bytes: u64, tail: Option<TreeId>) -> Result<(), Hurdle> {
        self.known(tree)?;
        let blocks = blocks_of(bytes);
        match tail {
            None => self.map.resize(tree, blocks)?,
            Some(tail) => {
                self.wholly(&[tree, tail], |state| {
                    state.map.resize(tree, blocks)?;
                    let (from_lba, to_lba) = (0, blocks.saturating_sub(1));
                    let (from, to, bytes) = (tail, tree, BLOCK_SIZE);
                    state.apply_remap(&Remap::Move { from, from_lba, to, to_lba, bytes })
                })?;
                self.drop_tree(tail);
            }
        }
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

    pub fn prepared_at(&self, transaction: TreeId) -> Result<usize, Error> {
        self.prepared.iter().position(|(tree, _)| *tree == transaction).ok_or_else(|| {
            Error::new(
                mjolnir_store::ErrorKind::NotFound,
                format!("no transaction {} is prepared", transaction.0),
            )
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
        let mut changed: Vec<TreeId> = remaps
            .iter()
            .flat_map(|remap| match *remap {
                Remap::Trim { tree, .. } => [tree, tree],
                Remap::Clone { to, .. } => [to, to],
                Remap::Move { from, to, .. } => [from, to],
            })
            .collect();
        changed.sort();
        changed.dedup();
        self.wholly(&changed, |state| remaps.iter().try_for_each(|remap| state.apply_remap(remap)))
    }

    /// Makes a change of several steps to these trees wholly or not at all. A later step may need an absent
    /// node that an earlier one shared into place, so the trees are kept (a snapshot costs nothing) until
    /// all are taken.
    fn wholly(
        &mut self,
        changed: &[TreeId],
        change: impl FnOnce(&mut Self) -> Result<(), Hurdle>,
    ) -> Result<(), Hurdle> {
        // They hold what changes, while it may still have to be undone.
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

/// The blocks that so many bytes take.
pub(crate) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_SIZE)
}

/// How many bytes less so many are than the blocks that they take.
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
