//! Volumes and snapshots as a whole: made, deleted, resized, renamed, copied, compared.

use serde::{Deserialize, Serialize};

use crate::{Error, Store, TargetInfo};

/// The size of a volume is a multiple of this: disks and their images have sectors of this size.
pub const SECTOR_BYTES: u64 = 512;

/// Operations on volumes and snapshots as a whole. Names are those that people use: `volume`, or
/// `volume@snapshot` where either will do.
///
/// # Contract
///
/// * Each operation happens wholly or not at all, and is durable when it returns.
/// * A name that does not exist is [`NotFound`](crate::ErrorKind::NotFound), a taken name is
///   [`Exists`](crate::ErrorKind::Exists), and a target that a prepared transaction holds
///   ([`Member`](crate::Member)) is [`Busy`](crate::ErrorKind::Busy).
/// * Snapshots and clones take constant time, whatever the size of the volume.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Volumes: Store {
    /// Makes an empty, thin volume.
    async fn create_volume(&self, name: &str, bytes: u64) -> Result<TargetInfo, Error>;

    /// Removes a volume, and its snapshots if `with_snapshots`. Its space comes back gradually.
    async fn delete_volume(&self, name: &str, with_snapshots: bool) -> Result<(), Error>;

    /// Grows a volume, or shrinks it if `shrink` permits: the data past a smaller size is lost. Any
    /// multiple of [`SECTOR_BYTES`] is a size.
    async fn resize_volume(
        &self,
        name: &str,
        bytes: u64,
        shrink: bool,
    ) -> Result<TargetInfo, Error>;

    /// Gives a volume another name.
    async fn rename_volume(&self, name: &str, new: &str) -> Result<TargetInfo, Error>;

    /// Makes a writable copy of a volume or snapshot.
    async fn clone_volume(&self, source: &str, new: &str) -> Result<TargetInfo, Error>;

    /// Takes a snapshot, which includes every write acknowledged before.
    async fn create_snapshot(&self, volume: &str, name: &str) -> Result<TargetInfo, Error>;

    /// Takes snapshots of several volumes, each given with the snapshot's name, at one instant: all of them or none.
    async fn create_snapshots(
        &self,
        snapshots: &[(String, String)],
    ) -> Result<Vec<TargetInfo>, Error>;

    /// Removes a snapshot. Its space comes back gradually.
    async fn delete_snapshot(&self, volume: &str, name: &str) -> Result<(), Error>;

    /// Gives the volume the content and size of the snapshot. The snapshot stays.
    async fn restore_snapshot(&self, volume: &str, name: &str) -> Result<TargetInfo, Error>;

    /// Up to `limit` extents in which `new` differs from `old`, from byte `from` on. Skips shared
    /// parts without a look.
    async fn diff(&self, old: &str, new: &str, from: u64, limit: usize) -> Result<DiffPage, Error>;

    /// Mapped bytes of a target, from byte `from` on.
    async fn mapped_from(&self, name: &str, from: u64) -> Result<u64, Error>;
}

/// A range that differs between two targets, and the newer target's content there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffExtent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether the newer target has data there (else a hole).
    pub data: bool,
}

/// A part of a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffPage {
    /// The differing ranges, in address order.
    pub extents: Vec<DiffExtent>,
    /// Where to continue, if there may be more.
    pub next: Option<u64>,
}
