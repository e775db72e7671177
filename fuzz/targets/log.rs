//! What the log keeps on media (root, segment header and footer, group header, manifest):
//! `cargo +nightly fuzz run log`, from the repository's root.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mjolnir_engine::fuzz::decode_everything(bytes));
