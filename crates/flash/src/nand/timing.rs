//! How long NAND operations take.

use serde::Deserialize;

/// Times of one kind of NAND, in nanoseconds.
///
/// Times by page type are lists: the program unit (see
/// [`pages_per_program`](super::Geometry::pages_per_program)) with number `i` in its erase block
/// takes entry `i mod length` for programs, and page `i` takes entry `i mod length` for reads. A
/// single entry is for NAND whose pages are all alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// From the cells to the page register, by page type.
    pub read_ns: Vec<u64>,
    /// From the page register to the cells, by page type, for a whole program unit.
    pub program_ns: Vec<u64>,
    /// Erase of an erase block.
    pub erase_ns: u64,
    /// Transfer of one byte over a channel's bus.
    pub bus_ns_per_byte: f64,
    /// What a command and its address take of the bus, before each transfer.
    #[serde(default)]
    pub command_ns: u64,
    /// Whether reads suspend an erase that is running; otherwise it blocks its die.
    #[serde(default)]
    pub erase_suspend: bool,
    /// From the arrival of a read to the moment when the die has put its erase aside.
    #[serde(default)]
    pub suspend_ns: u64,
    /// Time that an erase loses by each suspension.
    #[serde(default)]
    pub resume_ns: u64,
    /// Reads that may go before one erase or the rest of it; those beyond wait for its end, so
    /// that it comes to one.
    #[serde(default = "suspends")]
    pub suspends_max: u32,
}

fn suspends() -> u32 {
    16
}
