//! The catalog: which trees of the map are volumes or snapshots, and their names.

use std::collections::BTreeMap;

use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, TreeId};

use crate::format::manifest::TreeKind;

/// Ids from here on belong to temporary trees and are not given out.
pub(crate) const IDS_END: u32 = u32::MAX - 1024;

/// One named (or staged) tree.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub kind: TreeKind,
    /// Log sequence number of its creation.
    pub created: u64,
    /// Bytes by which the tree is shorter than its blocks. Its last block holds zeroes past the
    /// tree's end.
    pub short: u16,
}

/// All trees, by id and by name.
#[derive(Default)]
pub(crate) struct Catalog {
    entries: BTreeMap<TreeId, Entry>,
    names: BTreeMap<String, TreeId>,
    next: u32,
}

impl Catalog {
    /// The next tree id; ids are never given out twice.
    pub fn next_id(&mut self) -> Result<TreeId, Error> {
        let next = self.peek_next();
        if next >= IDS_END {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the store has used up its ids for volumes, snapshots and vectors; copy its volumes to \
                 a new store",
            ));
        }
        self.next = next + 1;
        Ok(TreeId(next))
    }

    pub fn peek_next(&self) -> u32 {
        self.next.max(1)
    }

    /// The size in bytes of a tree with `blocks` blocks in the map.
    pub fn size(&self, tree: TreeId, blocks: u64) -> u64 {
        let short = self.entries.get(&tree).map_or(0, |entry| u64::from(entry.short));
        (blocks * BLOCK_SIZE).saturating_sub(short)
    }

    /// Reserves all ids below `next` (used by replay and by loading a manifest).
    pub fn reserve_ids(&mut self, next: u32) {
        self.next = self.next.max(next);
    }

    /// Number of trees, staged ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, tree: TreeId) -> Option<&Entry> {
        self.entries.get(&tree)
    }

    pub fn get_mut(&mut self, tree: TreeId) -> Option<&mut Entry> {
        self.entries.get_mut(&tree)
    }

    pub fn iter(&self) -> impl Iterator<Item = (TreeId, &Entry)> {
        self.entries.iter().map(|(tree, entry)| (*tree, entry))
    }

    /// `volume` or `volume@snapshot`; `None` for a staged tree.
    pub fn full_name(&self, tree: TreeId) -> Option<String> {
        match &self.entries.get(&tree)?.kind {
            TreeKind::Volume(name) => Some(name.clone()),
            TreeKind::Snapshot(of, name) => Some(format!("{}@{name}", self.full_name(*of)?)),
            TreeKind::Staging => None,
        }
    }

    pub fn find(&self, name: &str) -> Result<TreeId, Error> {
        self.names.get(name).copied().ok_or_else(|| {
            let what = if name.contains('@') { "snapshot" } else { "volume" };
            Error::new(
                ErrorKind::NotFound,
                format!("there is no {what} named {name:?}; `{what} list` names them all"),
            )
        })
    }

    /// Refuses a name that is taken.
    pub fn check_free(&self, name: &str) -> Result<(), Error> {
        if self.names.contains_key(name) {
            return Err(Error::new(
                ErrorKind::Exists,
                format!("the name {name:?} is taken; choose another, or delete the present owner"),
            ));
        }
        Ok(())
    }

    pub fn insert(&mut self, tree: TreeId, entry: Entry) {
        self.reserve_ids(tree.0.saturating_add(1));
        self.entries.insert(tree, entry);
        if let Some(name) = self.full_name(tree) {
            self.names.insert(name, tree);
        }
    }

    pub fn remove(&mut self, tree: TreeId) {
        if let Some(name) = self.full_name(tree) {
            self.names.remove(&name);
        }
        self.entries.remove(&tree);
    }

    /// Numbers of volumes and of snapshots.
    pub fn counts(&self) -> (u64, u64) {
        let count = |volume: bool| {
            let wanted = |kind: &TreeKind| match kind {
                TreeKind::Volume(_) => volume,
                TreeKind::Snapshot(..) => !volume,
                TreeKind::Staging => false,
            };
            self.entries.values().filter(|entry| wanted(&entry.kind)).count() as u64
        };
        (count(true), count(false))
    }

    /// Snapshots of a volume, oldest first.
    pub fn snapshots_of(&self, volume: TreeId) -> Vec<TreeId> {
        self.iter()
            .filter(|(_, entry)| matches!(&entry.kind, TreeKind::Snapshot(of, _) if *of == volume))
            .map(|(tree, _)| tree)
            .collect()
    }

    /// Renames a volume (and so its snapshots' full names) or a snapshot.
    pub fn rename(&mut self, tree: TreeId, new: &str) {
        let mut affected = self.snapshots_of(tree);
        affected.push(tree);
        for each in &affected {
            if let Some(name) = self.full_name(*each) {
                self.names.remove(&name);
            }
        }
        if let Some(entry) = self.entries.get_mut(&tree) {
            match &mut entry.kind {
                TreeKind::Volume(name) | TreeKind::Snapshot(_, name) => *name = new.to_owned(),
                TreeKind::Staging => {}
            }
        }
        for each in affected {
            if let Some(name) = self.full_name(each) {
                self.names.insert(name, each);
            }
        }
    }
}
