//! The Store contract.

use bytes::Bytes;
use mjolnir_units::TreeId;

use crate::{Chunks, Durability, Error, Extent, Op, TargetInfo, ZeroMode};

/// Volumes and snapshots, and the operations on their bytes.
///
/// # Contract
///
/// * Offsets and lengths are bytes, at any alignment; clone, move and atomic vectors work on whole
///   blocks only. Each is checked; a range past the end is [`Invalid`](crate::ErrorKind::Invalid)
///   and changes nothing.
/// * A read sees every change that was acknowledged before it began.
/// * A block is never torn: it holds the bytes of one write or of another.
/// * A flush that completes makes durable every change acknowledged before it began, through any
///   connection; so does an operation with [`Durability::Durable`].
/// * A clone, move, trim, snapshot or atomic vector happens wholly or not at all.
/// * Dropping a future leaves its operation done, undone, or (a long write) done in part at block
///   granularity. A caller that has polled a future once must poll it whenever it is woken, or drop
///   it: else all writers of the store may wait behind it.
#[allow(async_fn_in_trait)] // One thread by design: no future of a store is ever `Send`.
pub trait Store: 'static {
    /// All volumes and snapshots, by name.
    fn targets(&self) -> Vec<TargetInfo>;

    /// The volume or snapshot called `name`; the store's default volume if `name` is empty (its
    /// only volume, or the one named `default`).
    fn find(&self, name: &str) -> Result<TargetInfo, Error>;

    /// The present state of a target found earlier; [`NotFound`](crate::ErrorKind::NotFound) after
    /// its deletion.
    fn info(&self, id: TreeId) -> Result<TargetInfo, Error>;

    /// Reads a range as a list of chunks that add up to `length`.
    async fn read(&self, id: TreeId, offset: u64, length: u64) -> Result<Chunks, Error>;

    /// Writes bytes. Whole blocks that start at a block boundary, in the target and in memory, are
    /// not copied.
    async fn write(
        &self,
        id: TreeId,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<(), Error>;

    /// Makes a range read as zeroes. Never slower than a write; with whole blocks, as fast as a
    /// trim. Writes nothing where the target reads as zeroes already: a part of a hole stays a
    /// hole.
    async fn write_zeroes(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        mode: ZeroMode,
        durability: Durability,
    ) -> Result<(), Error>;

    /// Frees the whole blocks of a range; they read as zeroes. Partial blocks at its ends keep
    /// their bytes.
    async fn trim(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
    ) -> Result<(), Error>;

    /// Makes every acknowledged change durable.
    async fn flush(&self) -> Result<(), Error>;

    /// The extents of a range in address order. At most `limit` (at least one), so they may end
    /// before the range does.
    async fn extents(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        limit: usize,
    ) -> Result<Vec<Extent>, Error>;

    /// Reads a range into the cache, if there is one. A hint.
    async fn cache(&self, id: TreeId, offset: u64, length: u64) -> Result<(), Error>;

    /// Applies all operations, in order, wholly or not at all. Refuses vectors longer than
    /// [`atomic_limit`](Store::atomic_limit).
    async fn atomic(&self, ops: Vec<Op>, durability: Durability) -> Result<(), Error>;

    /// The most operations in one atomic vector, and the most payload bytes.
    fn atomic_limit(&self) -> (usize, u64);
}
