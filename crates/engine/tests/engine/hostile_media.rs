//! Bytes that no engine wrote, where a root, a header, a footer or a manifest should be: none
//! makes a decoder panic or take absurd memory, not even with the right checksum.
//!
//! The corpus in `fuzz/corpus/log` is also what the fuzzer starts from (`fuzz/targets/log.rs`).

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use mjolnir_engine::fuzz::decode_everything;

#[test]
fn every_file_of_the_corpus_and_its_mutations_are_endured() {
    // Structures in memory are at most some twelve times as large as on media (a record of two
    // bytes cannot be; a tree without a name is), and several are held at once.
    let allowed = |length: usize| 64 * length + (64 << 10);
    replay::replay("log", 1, 60_000, allowed, decode_everything);
}
