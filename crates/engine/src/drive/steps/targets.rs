//! A tree's properties as clients see them: its size, its kind, whether it may be changed, and its
//! valid ranges.

use mjolnir_store::{Error, ErrorKind, TargetInfo};
use mjolnir_units::{BLOCK_SIZE, ByteSize, TreeId};

use crate::drive::state::State;
use crate::format::manifest::TreeKind;

impl State {
    /// A tree's description for clients; an error if the tree is gone or internal.
    pub fn target(&self, tree: TreeId) -> Result<TargetInfo, Error> {
        let name = self.catalog.full_name(tree).ok_or_else(gone)?;
        let read_only = matches!(self.kind(tree)?, TreeKind::Snapshot(..));
        Ok(TargetInfo { name, id: tree, size: self.size(tree)?, read_only })
    }

    /// Whether a tree holds blocks that wait for a vector or a transaction. Clients do not know of it.
    pub fn is_staged(&self, tree: TreeId) -> bool {
        matches!(self.kind(tree), Ok(TreeKind::Staging))
    }

    fn kind(&self, tree: TreeId) -> Result<&TreeKind, Error> {
        self.catalog.get(tree).map(|entry| &entry.kind).ok_or_else(gone)
    }

    /// Bytes of a tree that clients see; an error if it is gone or internal.
    pub fn size(&self, tree: TreeId) -> Result<u64, Error> {
        match self.kind(tree)? {
            TreeKind::Staging => Err(gone()),
            _ => self.bytes_of(tree),
        }
    }

    fn bytes_of(&self, tree: TreeId) -> Result<u64, Error> {
        Ok(self.catalog.size(tree, self.map.blocks(tree).ok_or_else(gone)?))
    }

    /// Bytes of a tree that may be changed.
    pub fn writable(&self, tree: TreeId) -> Result<u64, Error> {
        self.check_health()?;
        match self.kind(tree)? {
            TreeKind::Snapshot(..) => Err(Error::new(
                ErrorKind::ReadOnly,
                format!(
                    "{} is a snapshot and cannot be changed; clone it first",
                    self.target(tree)?.name
                ),
            )),
            TreeKind::Volume(_) | TreeKind::Staging => self.bytes_of(tree),
        }
    }

    /// Refuses to read a byte range outside the tree.
    pub fn check_read(&self, tree: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        self.check_range(tree, self.size(tree)?, offset, length)
    }

    /// Refuses a client that would change a byte range outside the tree, a read-only tree, or blocks that are staged.
    pub fn check_write(&self, tree: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        if self.is_staged(tree) {
            return Err(gone());
        }
        self.check_range(tree, self.writable(tree)?, offset, length)
    }

    fn check_range(&self, tree: TreeId, size: u64, offset: u64, length: u64) -> Result<(), Error> {
        if offset.checked_add(length).is_none_or(|end| end > size) {
            let name = self.catalog.full_name(tree).unwrap_or_else(|| "(staged)".into());
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the range {offset}+{length} passes the end of {name}, which has {size} bytes \
                     ({})",
                    ByteSize(size)
                ),
            ));
        }
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "the volume or snapshot was deleted")
}

impl State {
    /// The bytes in a range of a tree's blocks, less those past its end in its last block.
    pub fn clip(&self, tree: TreeId, lba: u64, blocks: u64) -> u64 {
        let end = (lba + blocks) * BLOCK_SIZE;
        let size = self.map.blocks(tree).map_or(end, |blocks| self.catalog.size(tree, blocks));
        end.min(size).saturating_sub(lba * BLOCK_SIZE)
    }
}
