//! Ids and addresses of nodes.

use std::fmt;

/// Names a node of the map, independent of its version and address. 0 is never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The address of a node's image on media, never 0. The map does not interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(pub u64);

/// An operation needs this node, which is not in memory. The operation changed nothing: read the
/// image at [`Map::address`](crate::Map::address), [`install`](crate::Map::install) it, and repeat
/// the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} of the map is not in memory; install its image and repeat the operation")]
pub struct Absent(pub NodeId);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}
