//! What a client may send over NBD: `cargo +nightly fuzz run nbd`, from the repository's root.
#![no_main]

#[allow(dead_code)] // The crate's tests use more of it.
#[path = "../../crates/nbd/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::drive::decode(bytes);
    let _ = support::drive::drive(bytes);
});
