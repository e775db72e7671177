//! What a page-mapped FTL is like.

use serde::Deserialize;

/// The firmware FTL of a drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlSpec {
    /// Share of each plane's erase blocks that is not offered to the host: the spare factor,
    /// (physical - logical) / physical.
    pub over_provisioning: f64,
    /// Share of a plane's erase blocks at which cleaning begins: when no more than these are free,
    /// but never fewer than one.
    pub low_watermark: f64,
    /// Logical pages in a row that go to one die before the next one's turn.
    pub stripe_pages: u32,
    /// Whether cleaning copies pages within a plane without the bus; otherwise they cross it
    /// twice.
    pub copy_back: bool,
    /// Whether the last page of each erase block is written with a summary, and holds no data.
    #[serde(default)]
    pub summary_page: bool,
    /// Bytes of a summary page that cross the bus.
    #[serde(default)]
    pub summary_bytes: u32,
    /// Which erase block cleaning chooses: a victim policy of `mjolnir-policy`, as a text or a table.
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    pub victim: String,
    /// Which append point of a plane a page goes to: a placement policy of `mjolnir-policy`, as a text
    /// or a table. Absent: `together`, one for all.
    #[serde(default = "together", deserialize_with = "mjolnir_policy::text_or_table")]
    pub placement: String,
    /// Static wear levelling: where erases of two erase blocks of a plane differ by more than
    /// this, the data of the less worn one moves. Absent: it never moves for that.
    pub wear_gap_max: Option<u32>,
}

fn together() -> String {
    "together".to_owned()
}
