//! Labels and root slots that no program of ours wrote: none makes a decoder panic or take absurd
//! memory, and a container that has them is refused in words.
//!
//! The corpus in `fuzz/corpus/container` is also what the fuzzer starts from
//! (`fuzz/targets/container.rs`). Its seeds are frames of real containers:
//! `MJOLNIR_WRITE_CORPUS=1 cargo test -p mjolnir-backends --test hostile_frame` writes them anew.

#![allow(clippy::disallowed_methods)] // The outside world; see clippy.toml.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use std::os::unix::fs::FileExt;

use bytes::Bytes;
use mjolnir_backends::fuzz::decode_everything;
use mjolnir_backends::{CreateOptions, FileDevice, OpenOptions};
use mjolnir_device::Device;

/// The frame of a container in a file: its labels and root slots, less what is zero behind.
fn frame() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.mj");
    let options = CreateOptions {
        bytes: Some(4 << 20),
        zone_blocks: 32,
        preallocate: false,
        uuid: *b"frame to decode ",
        overwrite: false,
    };
    FileDevice::create(&path, options).unwrap();
    mjolnir_host::run(async |runtime: mjolnir_host::HostRuntime| {
        let device = FileDevice::open(&path, OpenOptions::default(), &runtime).unwrap();
        device.write_root(Bytes::from_static(b"the first root")).await.unwrap();
        device.write_root(Bytes::from_static(b"the second root, which counts")).await.unwrap();
        Ok::<_, mjolnir_device::DeviceError>(())
    })
    .unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let mut frame = vec![0; 4 * 4096];
    for (block, at) in frame.chunks_exact_mut(4096).zip([0, 64 << 10, 128 << 10, 192 << 10]) {
        file.read_exact_at(block, at).unwrap();
    }
    frame
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let frame = frame();
    // Changed, and cut where that does not need what follows.
    let with = |at: usize, value: &[u8], blocks: usize| {
        let mut bytes = frame[..blocks * 4096].to_vec();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    vec![
        ("frame", frame.clone()),
        ("label_alone", frame[..4096].to_vec()),
        ("first_label_damaged", with(17, &[0xff], 2)),
        ("both_labels_damaged", with(17, &[0xff; 4096], 2)),
        ("newer_version", with(8, &[2], 1)),
        ("absurd_zones", with(32, &[0xff; 12], 1)),
        ("no_zones", with(32, &[0; 12], 1)),
        ("root_of_absurd_length", with(2 * 4096 + 16, &[0xff; 4], 3)),
        ("root_of_another", with(2 * 4096 + 24, b"T", 3)),
        ("nothing", Vec::new()),
    ]
}

#[test]
fn the_corpus_holds_the_seeds() {
    replay::seeds::hold("container", seeds());
}

#[test]
fn every_file_of_the_corpus_and_its_mutations_are_endured() {
    let allowed = |length: usize| 4 * length + (64 << 10);
    replay::replay("container", 3, 4_000, allowed, decode_everything);
}
