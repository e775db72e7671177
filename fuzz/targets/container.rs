//! The frame of a container (labels and root slots): `cargo +nightly fuzz run container`, from the
//! repository's root.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mjolnir_backends::fuzz::decode_everything(bytes));
