//! Transactions: the prepared ones, the trees and names that they hold until commit or abort, and
//! the committed ones that are still remembered.

use std::collections::BTreeSet;

use mjolnir_store::{Error, ErrorKind, TransactionId};
use mjolnir_units::{BLOCK_SIZE, TreeId};

use crate::catalog::Catalog;
use crate::format::manifest::TreeKind;
use crate::format::record::{Record, Remap};
use crate::format::transaction::Prepared;

/// See the module.
#[derive(Default)]
pub(crate) struct Transactions {
    /// In the order of their preparation.
    pub prepared: Vec<Prepared>,
    /// Committed and not forgotten yet.
    pub committed: BTreeSet<u128>,
}

impl Transactions {
    /// Bytes of map nodes that one of the commits to come makes dirty, at most. Room for them is kept, so that no
    /// commit is refused for lack of space.
    pub fn commit_bytes(&self) -> u64 {
        let of = |prepared: &Prepared| prepared.changes.iter().map(dirty_bytes).sum();
        self.prepared.iter().map(of).max().unwrap_or(0)
    }

    /// A prepared transaction.
    pub fn find(&self, id: u128) -> Option<&Prepared> {
        self.prepared.iter().find(|prepared| prepared.id == id)
    }

    /// The prepared transaction that owns this staged tree.
    pub fn of_staging(&self, staging: TreeId) -> Option<&Prepared> {
        self.prepared.iter().find(|prepared| prepared.staging == staging)
    }

    /// Removes the prepared transaction that owns this staged tree.
    pub fn take(&mut self, staging: TreeId) -> Option<Prepared> {
        let at = self.prepared.iter().position(|prepared| prepared.staging == staging)?;
        Some(self.prepared.remove(at))
    }

    /// Refuses a change that would make the commit of a prepared transaction impossible.
    pub fn check(&self, record: &Record, catalog: &Catalog) -> Result<(), Error> {
        if self.prepared.is_empty() || matches!(record, Record::Remap(_)) {
            return Ok(());
        }
        let is_prepare = matches!(record, Record::Prepare(_));
        for prepared in &self.prepared {
            for wanted in parts(record).flat_map(targets) {
                // A volume that a transaction will delete may get no snapshot; clients may still
                // write to it.
                let is_hindrance = is_prepare || matches!(record, Record::CreateSnapshot { .. });
                let held = prepared.changes.iter().flat_map(targets).find(|held| {
                    held.tree == wanted.tree
                        && (wanted.is_exclusive || is_hindrance && held.is_exclusive)
                });
                if let Some(held) = held.filter(|held| held.tree != prepared.staging) {
                    let name = catalog.full_name(held.tree).unwrap_or_default();
                    return Err(held_by(prepared.id, &name));
                }
            }
            let names: BTreeSet<String> =
                prepared.changes.iter().filter_map(|change| new_name(change, catalog)).collect();
            let taken = parts(record).filter_map(|part| new_name(part, catalog));
            if let Some(name) = taken.into_iter().find(|name| names.contains(name)) {
                return Err(held_by(prepared.id, &format!("the name {name:?}")));
            }
        }
        Ok(())
    }
}

/// Bytes of map nodes that a change makes dirty, at most: leaves at both ends of each range, and a node above them.
fn dirty_bytes(change: &Record) -> u64 {
    const RANGE_BYTES: u64 = 3 * BLOCK_SIZE;
    match change {
        Record::Remap(Remap::Trim { .. }) => RANGE_BYTES,
        Record::Remap(Remap::Clone { .. } | Remap::Move { .. }) => 2 * RANGE_BYTES,
        _ => BLOCK_SIZE,
    }
}

fn held_by(id: u128, what: &str) -> Error {
    let id = TransactionId(id);
    Error::new(
        ErrorKind::Busy,
        format!(
            "transaction {id} holds {what} until it is committed or aborted; `mjolnir transaction list` says what it \
             changes"
        ),
    )
}

/// The changes of a record.
fn parts(record: &Record) -> impl Iterator<Item = &Record> {
    match record {
        Record::Prepare(prepared) => prepared.changes.iter(),
        other => std::slice::from_ref(other).iter(),
    }
}

/// A tree that a change names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub tree: TreeId,
    /// Whether the change affects the tree as a whole, so that no other change may depend on its
    /// state.
    pub is_exclusive: bool,
}

/// The trees that a change names, except those it creates.
pub(crate) fn targets(change: &Record) -> impl Iterator<Item = Target> + use<> {
    let used = |tree| Some(Target { tree, is_exclusive: false });
    let exclusive = |tree| Some(Target { tree, is_exclusive: true });
    let named = match *change {
        Record::Remap(Remap::Trim { tree, .. }) => [used(tree), None],
        Record::Remap(Remap::Clone { from, to, .. } | Remap::Move { from, to, .. }) => {
            [used(from), used(to)]
        }
        Record::CreateSnapshot { of, .. } | Record::CloneVolume { of, .. } => [used(of), None],
        Record::Restore { tree, from } => [exclusive(tree), used(from)],
        Record::Delete { tree } | Record::Resize { tree, .. } | Record::Rename { tree, .. } => {
            [exclusive(tree), None]
        }
        _ => [None, None],
    };
    named.into_iter().flatten()
}

/// The name that a change gives: `volume`, or `volume@snapshot`.
pub(crate) fn new_name(change: &Record, catalog: &Catalog) -> Option<String> {
    match change {
        Record::CreateVolume { name, .. } | Record::CloneVolume { name, .. } => Some(name.clone()),
        Record::CreateSnapshot { of, name, .. } => {
            Some(format!("{}@{name}", catalog.full_name(*of)?))
        }
        Record::Rename { tree, name } => match &catalog.get(*tree)?.kind {
            TreeKind::Snapshot(of, _) => Some(format!("{}@{name}", catalog.full_name(*of)?)),
            _ => Some(name.clone()),
        },
        _ => None,
    }
}
