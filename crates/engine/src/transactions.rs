//! Transactions of a coordinator: prepared, then committed or aborted, through any crash.
//!
//! A transaction's writes are staged in a tree hidden from clients. Its changes are kept in the
//! state, and on the medium in a record and then in each checkpoint's manifest. Until commit or
//! abort the transaction holds its targets and names (`prepared.rs`), so its commit, a single
//! record, cannot be refused. A commit counts as freeing space, for which a reserve is kept.
//! Members presume abort: only commits are remembered.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_store::{
    COMMITTED_MAX, Change, Error, ErrorKind, Member, PREPARED_MAX, TransactionId, TransactionInfo,
    TransactionState, check_name,
};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, ByteSize, TreeId};

use crate::client::place_staged;
use crate::drive::{Engine, State};
use crate::format::group::FIXED_BYTES;
use crate::format::manifest::TreeKind;
use crate::format::record::{Record, Remap};
use crate::format::transaction::{CHANGES_MAX, Prepared};
use crate::prepared::{new_name, targets};
use crate::volumes::check_size;

impl<D: Device, R: Runtime> Member for Engine<D, R> {
    async fn prepare(&self, id: TransactionId, changes: Vec<Change>) -> Result<(), Error> {
        self.state().check_new(id)?;
        let (ops, kinds): (Vec<_>, Vec<_>) = split(changes);
        let (remaps, writes) = self.check_vector(ops)?;
        let blocks: u64 = writes.iter().map(|data| data.len() as u64 / BLOCK_SIZE).sum();
        let staged = self.stage(&writes, blocks.max(1)).await?;
        let mut remaps = place_staged(remaps, Some(staged.tree)).into_iter();
        let mut changes = Vec::with_capacity(kinds.len());
        for kind in kinds {
            changes.push(match kind {
                Some(change) => self.state().record_of(change)?,
                None => Record::Remap(remaps.next().expect("one for each operation")),
            });
        }
        let record =
            Record::Prepare(Prepared { id: id.0, staging: staged.tree, changes: changes.clone() });
        if changes.len() > CHANGES_MAX || FIXED_BYTES + record.encoded_bytes() > BLOCK_BYTES {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} changes do not fit one transaction: with their names they take {} bytes, and at most {} \
                     do; prepare several transactions",
                    changes.len(),
                    record.encoded_bytes(),
                    BLOCK_BYTES - FIXED_BYTES
                ),
            ));
        }
        let staging = staged.tree;
        let sequence = self
            .log_record(record, |state| {
                state.check_new(id)?;
                state.check_changes(&changes, staging)
            })
            .await?;
        staged.taken_over();
        self.flush_to(sequence).await
    }

    async fn commit(&self, id: TransactionId) -> Result<(), Error> {
        let sequence = self
            .log_step(|state| {
                state.check_health()?;
                let Some(Prepared { staging, changes, .. }) =
                    state.transactions.find(id.0).cloned()
                else {
                    return match state.transactions.committed.contains(&id.0) {
                        true => Ok(state.log.sequence),
                        false => Err(unknown(id).into()),
                    };
                };
                // Older versions held no targets for their prepared vectors.
                state.check_changes(&changes, staging)?;
                state.log_together(&[Record::Commit { staging }])
            })
            .await?;
        self.flush_to(sequence).await?;
        self.call_reclaim();
        Ok(())
    }

    async fn abort(&self, id: TransactionId) -> Result<(), Error> {
        let sequence = self
            .log_step(|state| {
                state.check_health()?;
                if state.transactions.committed.contains(&id.0) {
                    return Err(committed(id).into());
                }
                match state.transactions.find(id.0).map(|prepared| prepared.staging) {
                    Some(staging) => state.log_together(&[Record::Abort { staging }]),
                    None => Ok(state.log.sequence),
                }
            })
            .await?;
        self.flush_to(sequence).await?;
        self.call_reclaim();
        Ok(())
    }

    async fn forget(&self, id: TransactionId) -> Result<(), Error> {
        self.log_step(|state| {
            state.check_health()?;
            if state.transactions.find(id.0).is_some() {
                return Err(undecided(id).into());
            }
            match state.transactions.committed.contains(&id.0) {
                true => state.log_together(&[Record::Forget { transaction: id.0 }]),
                false => Ok(state.log.sequence),
            }
        })
        .await?;
        Ok(())
    }

    fn transaction(&self, id: TransactionId) -> TransactionState {
        let state = self.state();
        if state.transactions.find(id.0).is_some() {
            TransactionState::Prepared
        } else if state.transactions.committed.contains(&id.0) {
            TransactionState::Committed
        } else {
            TransactionState::Unknown
        }
    }

    fn transactions(&self) -> Vec<TransactionInfo> {
        let state = self.state();
        let prepared = state.transactions.prepared.iter().map(|prepared| TransactionInfo {
            id: TransactionId(prepared.id),
            state: TransactionState::Prepared,
            changes: prepared.changes.iter().map(|change| state.in_words(change)).collect(),
            staged_bytes: staged_bytes(prepared),
        });
        let committed = state.transactions.committed.iter().map(|id| TransactionInfo {
            id: TransactionId(*id),
            state: TransactionState::Committed,
            changes: Vec::new(),
            staged_bytes: 0,
        });
        prepared.chain(committed).collect()
    }
}

/// The operations on bytes, and in their places `None` among the other changes.
fn split(changes: Vec<Change>) -> (Vec<mjolnir_store::Op>, Vec<Option<Change>>) {
    let mut ops = Vec::new();
    let kinds = changes
        .into_iter()
        .map(|change| match change {
            Change::Bytes(op) => {
                ops.push(op);
                None
            }
            other => Some(other),
        })
        .collect();
    (ops, kinds)
}

fn staged_bytes(prepared: &Prepared) -> u64 {
    let staged = |change: &Record| match change {
        Record::Remap(Remap::Move { from, bytes, .. }) if *from == prepared.staging => *bytes,
        _ => 0,
    };
    prepared.changes.iter().map(staged).sum()
}

impl State {
    /// Refuses a known id, and a new transaction past the limits.
    fn check_new(&self, id: TransactionId) -> Result<(), Error> {
        let transactions = &self.transactions;
        if transactions.find(id.0).is_some() {
            return Err(Error::new(
                ErrorKind::Exists,
                format!("transaction {id} is prepared already; commit or abort it"),
            ));
        }
        if transactions.committed.contains(&id.0) {
            return Err(Error { kind: ErrorKind::Exists, ..committed(id) });
        }
        if transactions.prepared.len() >= PREPARED_MAX {
            return Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "{PREPARED_MAX} transactions are prepared, and no more can be prepared: commit or abort \
                     one; `mjolnir transaction list` names them"
                ),
            ));
        }
        if transactions.committed.len() + transactions.prepared.len() >= COMMITTED_MAX {
            return Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "{} transactions are remembered as committed, and no more can be remembered: forget \
                     those that every member has committed; `mjolnir transaction list` names them",
                    transactions.committed.len()
                ),
            ));
        }
        Ok(())
    }

    /// The record of a change to a whole volume or snapshot. A tree that the change creates gets
    /// its id here.
    fn record_of(&mut self, change: Change) -> Result<Record, Error> {
        let snapshot = |volume: &str, name: &str| format!("{volume}@{name}");
        Ok(match change {
            Change::Bytes(_) => unreachable!("operations on bytes were split off"),
            Change::CreateVolume { name, bytes } => {
                Record::CreateVolume { tree: self.catalog.next_id()?, bytes, name }
            }
            Change::DeleteVolume { name } => Record::Delete { tree: self.find_volume(&name)? },
            Change::ResizeVolume { name, bytes, shrink } => {
                let tree = self.find_volume(&name)?;
                let size = self.size(tree)?;
                if bytes < size && !shrink {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!(
                            "{name} has {}, and {} is smaller: the bytes past that would be lost",
                            ByteSize(size),
                            ByteSize(bytes)
                        ),
                    ));
                }
                if bytes < size && !bytes.is_multiple_of(BLOCK_SIZE) {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "a transaction cannot shrink {name} to {bytes} bytes, which is no multiple of \
                             {BLOCK_SIZE}; resize it by itself"
                        ),
                    ));
                }
                Record::Resize { tree, bytes, tail: None }
            }
            Change::RenameVolume { name, new } => {
                Record::Rename { tree: self.find_volume(&name)?, name: new }
            }
            Change::CloneVolume { source, new } => {
                let of = self.catalog.find(&source)?;
                Record::CloneVolume { tree: self.catalog.next_id()?, of, name: new }
            }
            Change::CreateSnapshot { volume, name } => {
                let of = self.find_volume(&volume)?;
                Record::CreateSnapshot { tree: self.catalog.next_id()?, of, name }
            }
            Change::DeleteSnapshot { volume, name } => {
                Record::Delete { tree: self.catalog.find(&snapshot(&volume, &name))? }
            }
            Change::RestoreSnapshot { volume, name } => Record::Restore {
                tree: self.find_volume(&volume)?,
                from: self.catalog.find(&snapshot(&volume, &name))?,
            },
        })
    }

    /// Refuses changes that cannot be applied to the current state one after another.
    fn check_changes(&mut self, changes: &[Record], staging: TreeId) -> Result<(), Error> {
        // Trees changed as a whole, trees deleted (a subset), and names given.
        let (mut exclusive, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        let mut names = BTreeSet::new();
        for change in changes {
            for target in targets(change).filter(|target| target.tree != staging) {
                let name = self.target(target.tree)?.name;
                if exclusive.contains(&target.tree) {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!(
                            "a transaction cannot change {name} after it deletes, resizes, restores or renames it; \
                             make that the last change of {name}"
                        ),
                    ));
                }
                if target.is_exclusive {
                    exclusive.insert(target.tree);
                }
            }
            if let Some(name) = new_name(change, &self.catalog) {
                self.catalog.check_free(&name)?;
                if !names.insert(name.clone()) {
                    let why = format!("a transaction cannot give the name {name:?} twice");
                    return Err(Error::new(ErrorKind::Invalid, why));
                }
            }
            match change {
                Record::Remap(remap) => self.check_remaps_of(remap, staging)?,
                Record::CreateVolume { bytes, name, .. } => {
                    check_name(name)?;
                    check_size(*bytes)?;
                }
                Record::CreateSnapshot { name, .. }
                | Record::CloneVolume { name, .. }
                | Record::Rename { name, .. } => check_name(name)?,
                Record::Resize { bytes, .. } => check_size(*bytes)?,
                Record::Delete { tree } => {
                    self.check_snapshots_gone(*tree, &deleted, changes)?;
                    deleted.insert(*tree);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_remaps_of(&mut self, remap: &Remap, staging: TreeId) -> Result<(), Error> {
        match *remap {
            // A staged tree always has the range that is moved out of it.
            Remap::Move { from, to, to_lba, bytes, .. } if from == staging => {
                self.check_remaps(&[Remap::Trim { tree: to, lba: to_lba, bytes }])
            }
            other => self.check_remaps(&[other]),
        }
    }

    /// Refuses to delete a volume that would still have snapshots.
    fn check_snapshots_gone(
        &self,
        volume: TreeId,
        deleted: &BTreeSet<TreeId>,
        changes: &[Record],
    ) -> Result<(), Error> {
        let left = self.catalog.snapshots_of(volume).iter().any(|tree| !deleted.contains(tree));
        let made =
            |change: &Record| matches!(change, Record::CreateSnapshot { of, .. } if *of == volume);
        if left || changes.iter().any(made) {
            let name = self.target(volume)?.name;
            return Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "{name} has snapshots; delete them by changes before, in the same transaction"
                ),
            ));
        }
        Ok(())
    }

    /// Describes a change for people.
    fn in_words(&self, change: &Record) -> String {
        let name = |tree: TreeId| match self.catalog.get(tree).map(|entry| &entry.kind) {
            Some(TreeKind::Staging) => "the transaction's staged data".to_owned(),
            _ => self.catalog.full_name(tree).unwrap_or_else(|| format!("(tree {})", tree.0)),
        };
        let at = |lba: u64, bytes: u64| format!("{}+{bytes}", lba * BLOCK_SIZE);
        match change {
            Record::Remap(Remap::Trim { tree, lba, bytes }) => {
                format!("trim {}:{}", name(*tree), at(*lba, *bytes))
            }
            Record::Remap(Remap::Clone { from, from_lba, to, to_lba, bytes }) => format!(
                "clone {}:{} to {}:{}",
                name(*from),
                at(*from_lba, *bytes),
                name(*to),
                to_lba * BLOCK_SIZE
            ),
            Record::Remap(Remap::Move { from, from_lba, to, to_lba, bytes }) => {
                match self.catalog.get(*from).map(|entry| &entry.kind) {
                    Some(TreeKind::Staging) => {
                        format!("write {}:{}", name(*to), at(*to_lba, *bytes))
                    }
                    _ => format!(
                        "move {}:{} to {}:{}",
                        name(*from),
                        at(*from_lba, *bytes),
                        name(*to),
                        to_lba * BLOCK_SIZE
                    ),
                }
            }
            Record::CreateVolume { name, bytes, .. } => {
                format!("create volume {name} of {bytes} bytes")
            }
            Record::CreateSnapshot { of, name: new, .. } => {
                format!("create snapshot {}@{new}", name(*of))
            }
            Record::CloneVolume { of, name: new, .. } => format!("clone {} as {new}", name(*of)),
            Record::Restore { tree, from } => {
                format!("restore {} from {}", name(*tree), name(*from))
            }
            Record::Delete { tree } => format!("delete {}", name(*tree)),
            Record::Resize { tree, bytes, .. } => {
                format!("resize {} to {bytes} bytes", name(*tree))
            }
            Record::Rename { tree, name: new } => format!("rename {} to {new}", name(*tree)),
            other => format!("{other:?}"),
        }
    }
}

fn unknown(id: TransactionId) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "there is no transaction {id}: it was never prepared, or it was aborted or forgotten"
        ),
    )
}

fn committed(id: TransactionId) -> Error {
    Error::new(ErrorKind::Invalid, format!("transaction {id} was committed"))
}

fn undecided(id: TransactionId) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!(
            "transaction {id} is prepared, and cannot be forgotten before it is committed or aborted"
        ),
    )
}
