//! What nodes are called, and where they lie.

use std::fmt;

/// Names a node of the map, whatever its version and wherever it lies. 0 is never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Where a node's image lies on media. The map does not interpret it; it is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(pub u64);

/// An operation needs this node, which is not in memory. Nothing was changed: read the image at
/// [`Map::address`](crate::Map::address), [`install`](crate::Map::install) it, and repeat the
/// operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} of the map is not in memory; install its image and repeat the operation")]
pub struct Absent(pub NodeId);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}
