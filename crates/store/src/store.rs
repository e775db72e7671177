//! The Store contract.

use bytes::Bytes;
use mjolnir_units::TreeId;

use crate::{Chunks, Durability, Error, Extent, Op, TargetInfo, ZeroMode};

/// Volumes and snapshots, and what can be done to their bytes.
///
/// # Contract
///
/// * Offsets and lengths are bytes, at any alignment, but for clone, move and atomic vectors,
///   which work on whole blocks. Each is checked; a range past the end is
///   [`Invalid`](crate::ErrorKind::Invalid) and changes nothing.
/// * A read sees every change that was acknowledged before it began.
/// * A block is never torn: it holds the bytes of one write or of another.
/// * A flush that completes makes durable every change acknowledged before it began, through any
///   connection; so does an operation with [`Durability::Durable`].
/// * A clone, move, trim, snapshot or atomic vector happens wholly or not at all.
/// * A future that is dropped leaves its operation done, undone, or (a long write) done in part
///   at block granularity. One that was polled once is polled whenever it is woken, or dropped:
///   else all who write to the store may wait behind it.
#[allow(async_fn_in_trait)] // One thread by design: no future of a store is ever `Send`.
pub trait Store: 'static {
    /// All volumes and snapshots, by name.
    fn targets(&self) -> Vec<TargetInfo>;

    /// The volume or snapshot called `name`; the store's default volume if `name` is empty (its
    /// only volume, or the one named `default`).
    fn find(&self, name: &str) -> Result<TargetInfo, Error>;

    /// The present state of a target found earlier; [`NotFound`](crate::ErrorKind::NotFound) once
    /// it was deleted.
    fn info(&self, id: TreeId) -> Result<TargetInfo, Error>;

    /// Reads a range as a list of chunks that add up to `length`.
    async fn read(&self, id: TreeId, offset: u64, length: u64) -> Result<Chunks, Error>;

    /// Writes bytes. Whole blocks that start at a block boundary, in `data` as in memory, are not
    /// copied.
    async fn write(
        &self,
        id: TreeId,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<(), Error>;

    /// Makes a range read as zeroes. Never slower than a write; with whole blocks, as fast as a
    /// trim. Nothing is written where zeroes are read already: a part of a hole stays a hole.
    async fn write_zeroes(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        mode: ZeroMode,
        durability: Durability,
    ) -> Result<(), Error>;

    /// Gives the whole blocks of a range back; they read as zeroes. Partial blocks at its ends
    /// keep their bytes.
    async fn trim(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
    ) -> Result<(), Error>;

    /// Makes every acknowledged change durable.
    async fn flush(&self) -> Result<(), Error>;

    /// What of a range is mapped, in address order; at most `limit` extents (at least one), which
    /// may end before the range does.
    async fn extents(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        limit: usize,
    ) -> Result<Vec<Extent>, Error>;

    /// Brings a range into the cache where there is one. A hint.
    async fn cache(&self, id: TreeId, offset: u64, length: u64) -> Result<(), Error>;

    /// Applies all operations, in order, wholly or not at all. Refuses vectors longer than
    /// [`atomic_limit`](Store::atomic_limit).
    async fn atomic(&self, ops: Vec<Op>, durability: Durability) -> Result<(), Error>;

    /// The most operations in one atomic vector, and the most payload bytes.
    fn atomic_limit(&self) -> (usize, u64);
}
