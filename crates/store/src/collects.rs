//! Collectors of garbage that take orders when to run: an engine, or a drive that collects by
//! itself.

use serde::{Deserialize, Serialize};

use crate::Error;

/// A collector of its own garbage that a coordinator directs (Harmonia, MSST'11). Apart from the
/// Store contract, since plain drives have collectors, too.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Collects {
    /// The scarcity of space, and the space that a collection could win.
    fn pressure(&self) -> Pressure;

    /// Takes an order, which holds until the next one.
    ///
    /// * [`Hold`](CollectOrder::Hold) applies while more is free than the hard threshold: below it,
    ///   collection begins by itself.
    /// * [`Collect`](CollectOrder::Collect) returns when `free_bytes` are free, or no more space
    ///   can be won. After that the store collects at its own pace.
    async fn order(&self, order: CollectOrder) -> Result<Pressure, Error>;
}

/// The scarcity of space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Below this many free bytes, collection begins unless it is held back.
    pub soft_bytes: u64,
    /// Below this many free bytes, collection begins whatever the order.
    pub hard_bytes: u64,
    /// Bytes that a collection could win, as far as known.
    pub winnable_bytes: u64,
    /// Whether a collection runs now.
    pub collecting: bool,
    /// Whether collection is held back.
    pub held: bool,
}

/// An order to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectOrder {
    /// Begin no collection while more is free than the hard threshold.
    Hold,
    /// Collect until `free_bytes` are free.
    Collect {
        /// The free bytes to reach.
        free_bytes: u64,
    },
    /// Collect at the collector's own pace.
    Free,
}
