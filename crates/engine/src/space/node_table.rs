//! Addresses of the node table's pages.

use mjolnir_units::Pba;

/// Address of each page of the node table; 0 for a page that was never written.
#[derive(Default)]
pub(crate) struct NodeTableMedia {
    pub pages: Vec<u64>,
    /// Chunks of the newest durable checkpoint's manifest.
    pub manifest: Vec<(Pba, u32)>,
}
