//! Where the pages of the node table lie.

use mjolnir_units::Pba;

/// Where the pages of the node table lie; 0 for a page that never held anything.
#[derive(Default)]
pub(crate) struct NodeTableMedia {
    pub pages: Vec<u64>,
    /// Where the manifest of the newest durable checkpoint lies.
    pub manifest: Vec<(Pba, u32)>,
}
