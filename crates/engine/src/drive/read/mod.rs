//! Verified reads: of blocks, of map nodes, of groups of the log.

pub(crate) mod checksums;
pub(crate) mod device;
pub(crate) mod groups;
pub(crate) mod headers_ahead;
pub(crate) mod load_checksums;
pub(crate) mod nodes;
pub(crate) mod pins;
pub(crate) mod sources;
pub(crate) mod verify;
