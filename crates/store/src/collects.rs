//! What reclaims space by itself, and can be told when: an engine, and a drive with a collector of its own.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Something that collects its own garbage, and whose collection others coordinate (Harmonia, MSST'11). Apart from
/// the Store contract, since plain drives have it too.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Collects {
    /// How scarce space is, and what could be won.
    fn pressure(&self) -> Pressure;

    /// Takes an order, which holds until the next one.
    ///
    /// * [`Hold`](CollectOrder::Hold) is heeded while more is free than the hard threshold: below it, collection
    ///   begins by itself.
    /// * [`Collect`](CollectOrder::Collect) returns when so much is free, or nothing more can be won; then the
    ///   store is free to collect as it likes.
    async fn order(&self, order: CollectOrder) -> Result<Pressure, Error>;
}

/// How scarce space is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// With less than this free, collection begins unless it is held back.
    pub soft_bytes: u64,
    /// With less than this free, collection begins whatever was ordered.
    pub hard_bytes: u64,
    /// Bytes that a collection could win, as far as is known.
    pub winnable_bytes: u64,
    /// Whether it collects now.
    pub collecting: bool,
    /// Whether it is held back.
    pub held: bool,
}

/// What a collector is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectOrder {
    /// Begin no collection while more is free than the hard threshold.
    Hold,
    /// Collect until so many bytes are free.
    Collect {
        /// Bytes that are to be free.
        free_bytes: u64,
    },
    /// Collect as its own pacing says.
    Free,
}
