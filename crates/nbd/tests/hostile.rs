//! Bytes that no honest client would send: from the seed corpus, mutated, and at random. None
//! may panic, keep a connection from ending, or take more memory than a connection is allowed.
//!
//! The corpus in `fuzz/corpus/nbd` is also what the fuzzer starts from (`fuzz/targets/nbd.rs`).
//! `MJOLNIR_WRITE_CORPUS=1 cargo test -p mjolnir-nbd --test hostile` writes its seeds anew.

#[path = "../../../fuzz/replay.rs"]
mod replay;
mod support;

use mjolnir_nbd::DisconnectKind;
use mjolnir_nbd::protocol::option;
use proptest::prelude::*;
use replay::held::peak;
use support::client::{FLAGS, info_data, meta_data, option_bytes, request_bytes};
use support::drive::{BYTES_IN_FLIGHT_MAX, SIZE, STREAM_BYTES, decode, drive};

/// Drives and decodes, and holds both to their memory.
fn endure(bytes: &[u8]) {
    // The stream's copy of the client's bytes, the stream back, two volumes and their maps, the
    // input buffer, what may be in flight, and the odds and ends of a connection.
    let allowed = 2 * bytes.len()
        + 2 * STREAM_BYTES
        + 2 * SIZE as usize
        + (256 << 10)
        + BYTES_IN_FLIGHT_MAX as usize
        + (512 << 10);
    let held = peak(|| {
        let end = drive(bytes);
        if let Err(error) = end {
            assert_ne!(error.kind, DisconnectKind::Transport, "{error}");
            assert!(!error.message.is_empty());
        }
    });
    assert!(held <= allowed, "{held} bytes held, {allowed} allowed");
    let held = peak(|| decode(bytes));
    assert_eq!(held, 0, "bytes held to decode {}", bytes.len());
}

/// What honest and dishonest clients say, by name.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let flags = FLAGS.to_be_bytes().to_vec();
    let go = |structured: bool| {
        let mut bytes = flags.clone();
        if structured {
            bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
            let context = meta_data("", &["base:allocation"]);
            bytes.extend(option_bytes(option::SET_META_CONTEXT, &context));
        }
        bytes.extend(option_bytes(option::GO, &info_data("", &[1, 2, 3])));
        bytes
    };
    let goodbye = request_bytes(0, 2, 0, 0, 0);
    let write = |offset: u64, length: u32| {
        [request_bytes(0, 1, 3, offset, length), vec![0x77; length as usize]].concat()
    };
    let every_command = (0..9).flat_map(|command| {
        let flags = [0, 1, 2, 4, 8, 16];
        flags.into_iter().flat_map(move |flag| {
            let mut bytes = request_bytes(flag, command, 1, 512, 1024);
            bytes.extend([5; 1024].iter().take(if command == 1 { 1024 } else { 0 }));
            if command == 2 { Vec::new() } else { bytes }
        })
    });
    let every_command: Vec<u8> = every_command.collect();
    let reads = (0..200).flat_map(|cookie| request_bytes(0, 0, cookie, 0, SIZE as u32));
    let with = |parts: &[&[u8]]| parts.concat();
    vec![
        ("list", with(&[&flags, &option_bytes(option::LIST, &[]), &option_bytes(2, &[])])),
        ("info", with(&[&flags, &option_bytes(option::INFO, &info_data("default@monday", &[3]))])),
        ("export_name", with(&[&flags, &option_bytes(1, b"default"), &write(1, 99), &goodbye])),
        ("export_name_unfixed", with(&[&[0; 4], &option_bytes(1, b""), &goodbye])),
        (
            "list_meta_context",
            with(&[
                &flags,
                &option_bytes(option::STRUCTURED_REPLY, &[]),
                &option_bytes(option::LIST_META_CONTEXT, &meta_data("", &["base:", "x:y"])),
            ]),
        ),
        ("every_option", {
            let options =
                (0..13).flat_map(|number| option_bytes(number * (number != 1) as u32, &[]));
            with(&[&flags, &options.collect::<Vec<u8>>(), &go(true)[4..], &goodbye])
        }),
        ("simple_commands", with(&[&go(false), &every_command, &goodbye])),
        ("structured_commands", with(&[&go(true), &every_command, &goodbye])),
        ("large_write", with(&[&go(true), &write(0, 40_000), &write(4096, 40_000), &goodbye])),
        ("many_reads", with(&[&go(true), &write(0, 60_000), &reads.collect::<Vec<u8>>()])),
        ("write_past_end", with(&[&go(true), &write(SIZE - 1, 5000), &goodbye])),
        ("absurd_write", with(&[&go(true), &request_bytes(0, 1, 1, 0, u32::MAX)])),
        ("wrong_request_magic", with(&[&go(true), &[0; 28]])),
        ("wrong_option_magic", with(&[&flags, &[0x49; 16]])),
        ("unknown_client_flags", vec![0xff; 4]),
        ("lying_meta_count", {
            let data = with(&[&[0; 4], &[0xff; 4], &[0; 64]]);
            let structured = option_bytes(option::STRUCTURED_REPLY, &[]);
            with(&[&flags, &structured, &option_bytes(option::SET_META_CONTEXT, &data)])
        }),
        ("lying_name_length", with(&[&flags, &option_bytes(option::GO, &[0xff; 12])])),
        ("lying_option_length", with(&[&flags, b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"])),
        ("too_long_option", with(&[&flags, &option_bytes(option::LIST, &vec![0; 70_000])])),
        ("cut_within_payload", go(true).into_iter().chain(write(0, 9000)).take(3000).collect()),
        ("cut_within_option", go(true)[..40].to_vec()),
        ("nothing", Vec::new()),
    ]
}

#[test]
fn the_corpus_holds_the_seeds() {
    replay::seeds::hold("nbd", seeds());
}

#[test]
fn every_file_of_the_corpus_is_endured() {
    let files = replay::corpus("nbd");
    files.values().for_each(|bytes| endure(bytes));
    assert!(files.len() >= seeds().len());
}

#[test]
fn seeds_end_as_they_should() {
    for (name, bytes) in seeds() {
        let end = drive(&bytes);
        let kind = end.as_ref().err().map(|error| error.kind);
        let expected = match name {
            "list" | "export_name" | "export_name_unfixed" | "every_option" => None,
            "simple_commands" | "structured_commands" | "large_write" | "write_past_end" => None,
            "absurd_write"
            | "wrong_request_magic"
            | "wrong_option_magic"
            | "unknown_client_flags"
            | "lying_option_length" => Some(DisconnectKind::Protocol),
            _ => Some(DisconnectKind::Vanished),
        };
        assert_eq!(kind, expected, "{name}: {end:?}");
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(usize, u8),
    Flip(usize, u8),
    Cut(usize, usize),
    Repeat(usize, usize),
    Number(usize, u32),
    Splice(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || any::<usize>();
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (at(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        (at(), 0..100usize).prop_map(|(at, length)| Mutation::Cut(at, length)),
        (at(), 0..100usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        (at(), prop_oneof![Just(0), Just(u32::MAX), Just(1 << 31), 0..70_000u32])
            .prop_map(|(at, number)| Mutation::Number(at, number)),
        (at(), at()).prop_map(|(at, from)| Mutation::Splice(at, from)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], mutation: &Mutation) {
    let length = bytes.len();
    let index = |at: usize| at % (length + 1);
    match *mutation {
        Mutation::Set(at, byte) => {
            if let Some(place) = bytes.get_mut(index(at)) {
                *place = byte;
            }
        }
        Mutation::Flip(at, bit) => {
            if let Some(place) = bytes.get_mut(index(at)) {
                *place ^= 1 << bit;
            }
        }
        Mutation::Cut(at, count) => {
            bytes.drain(index(at)..length.min(index(at) + count));
        }
        Mutation::Repeat(at, count) => {
            let piece = bytes[index(at)..length.min(index(at) + count)].to_vec();
            bytes.splice(index(at)..index(at), piece);
        }
        Mutation::Number(at, number) => {
            let number = number.to_be_bytes();
            for (place, byte) in bytes[index(at)..].iter_mut().zip(number) {
                *place = byte;
            }
        }
        Mutation::Splice(at, from) => {
            bytes.truncate(index(at));
            bytes.extend(&other[from % (other.len() + 1)..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn mutated_sessions_are_endured(
        seed in prop::sample::select(seeds()),
        other in prop::sample::select(seeds()),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut bytes = seed.1;
        for mutation in &mutations {
            mutate(&mut bytes, &other.1, mutation);
        }
        endure(&bytes);
    }

    #[test]
    fn random_bytes_are_endured(
        begin in prop::sample::select(seeds()),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        endure(&bytes);
        endure(&[&begin.1[..], &bytes].concat());
    }
}
