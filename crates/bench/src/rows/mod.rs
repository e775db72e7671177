//! The rows of the table, a file for each group.

mod cleaning;
mod disk;
pub mod lab;
mod map_mark;
mod map_memory;
mod map_trees;
mod nbd;
mod pacing;
mod recording;
pub mod recovery;
mod scan;
mod snapshots;
mod steady;
mod store_cost;

use crate::table::Row;

/// All rows, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Row> {
    [
        cleaning::ROWS,
        map_trees::ROWS,
        snapshots::ROWS,
        map_mark::ROWS,
        scan::ROWS,
        map_memory::ROWS,
        store_cost::ROWS,
        recording::ROWS,
        nbd::ROWS,
        disk::ROWS,
        steady::ROWS,
        pacing::ROWS,
        recovery::ROWS,
        lab::ROWS,
    ]
    .into_iter()
    .flatten()
}

/// A line of `/proc/meminfo`, in KiB; 0 where there is none.
pub fn meminfo(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A number of bytes, with the largest unit that gives a whole number.
pub fn size_text(bytes: u64) -> String {
    mjolnir_units::ByteSize(bytes).to_string()
}

/// A number of bytes, in MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}
