//! Simulated flash in virtual time: NAND, the drives built of it, and their firmware.
//!
//! * [`nand`]: channels, dies, planes, erase blocks and pages; what operations take, who waits for
//!   whom; wear and failures.
//! * [`Device`]: a drive as a TOML file, each figure with its source. Six are shipped.
//! * [`ftl`]: the plain page-mapped firmware of DiskSim's SSD extension, with victim policies from
//!   `mjolnir-policy`.
//! * [`Ssd`]: the controller on top: host queue, link, write buffer; a request and its time of
//!   arrival go in, its time of completion comes out.
//!
//! **Imports** `units`, `policy`. **Leaves out** I/O, clocks, threads and randomness: time is a
//! number of nanoseconds that is handed in, chance is seeded, payload is not simulated.
//!
//! **Invariants**: times handed in never run backwards; no die, bus or link does two things at
//! once; equal devices, seeds and requests give equal results; no call runs forever.
//!
//! # DiskSim's published response times, explained
//!
//! With DiskSim's SSD extension come six mean response times, which `tests/disksim.rs` holds this
//! crate to. They follow from its validation files and these parts of its model:
//!
//! * Arrivals are open: the time between two requests is uniform between 0 and 1 ms, whatever the
//!   drive does. Sizes of random requests are exponential with mean 8 sectors, rounded up to pages
//!   of 8 sectors (draws below one sector are drawn again): 1.58 pages on average. Sequential runs
//!   keep the size of their first request, one page.
//! * 16 bytes of metadata cross the pins with each sector: a page takes 4224 × 25 ns = 105.6 µs. An
//!   element (die) is busy for the whole of each operation, transfer included. Link: 0.2384 µs a
//!   sector. So a sequential read takes 25 + 105.6 + 1.9 = 132.5 µs.
//! * The last page of each erase block is a summary, written with the page before it: 200 µs and
//!   13.2 µs of transfer for each 63 pages. So a sequential write takes
//!   105.6 + 200 + 1.9 + 213.2 / 63 = 310.9 µs.
//! * Random requests add transfers of further pages and waiting for a busy element.
//! * Random writes go to the first eighth of the drive only (877,363 pages of 7,019,712: a limit in
//!   pages was taken for one in sectors), which is why its cleaning moves as few as 13.5 pages a
//!   victim at 15 % spare. An element cleans one erase block of a plane, by copy-back, whenever 102
//!   or fewer of the plane's 2,048 are free; a request that finds it cleaning waits.

mod chance;
pub mod controller;
mod device;
mod disksim;
pub mod ftl;
pub mod nand;

pub use controller::{Completion, Request, RequestError, RequestKind, Ssd};
pub use device::{Device, DeviceError};
pub use disksim::ValidationLoad;
