//! Roots and node images of the map, and its use once they are in memory:
//! `cargo +nightly fuzz run map`, from the repository's root.
#![no_main]

#[allow(dead_code)] // The crate's tests use more of it.
#[path = "../../crates/map/tests/drive/mod.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    drive::drive(bytes);
});
