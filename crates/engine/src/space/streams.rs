//! The streams of the log, by number.

/// The stream of the map's own blocks.
pub(crate) const MAP_STREAM: u8 = 0;

/// The stream of relocated blocks.
pub(crate) const RECLAIM_STREAM: u8 = 1;

/// The stream of clients' records that free space and of small changes, when the store is too full
/// for other writes.
pub(crate) const RELIEF_STREAM: u8 = 2;

/// The first stream of client writes, and of blocks that a placement policy puts beside them.
pub(crate) const CLIENT_STREAM: u8 = 3;
