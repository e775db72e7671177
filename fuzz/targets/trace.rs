//! What a trace may hold, in any format: `cargo +nightly fuzz run trace`, from the repository's
//! root.
#![no_main]

#[allow(dead_code)] // The crate's tests use more of it.
#[path = "../../crates/workload/tests/support/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::drive(bytes));
