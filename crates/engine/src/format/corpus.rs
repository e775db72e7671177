//! The seeds in `fuzz/corpus/log`: one of each structure, and some invalid ones, each with its own
//! error. `MJOLNIR_WRITE_CORPUS=1 cargo test -p mjolnir-engine --lib corpus` rewrites them.

#[path = "../../../../fuzz/seeds.rs"]
mod files;

use mjolnir_units::{Pba, TreeId, ZoneId};

use super::group::GroupHeader;
use super::manifest::{Manifest, SegmentEntry, TreeEntry, TreeKind};
use super::record::{REMAPS_MAX, Record, Remap, tests::every_kind, tests::numbered};
use super::root::{MANIFEST_CHUNKS_MAX, Root};
use super::segment::{Footer, SegmentHeader};
use super::transaction::Prepared;

fn group(checksums: Vec<u32>, records: Vec<(u64, Record)>) -> Vec<u8> {
    GroupHeader {
        uuid: [7; 16],
        zone: ZoneId(4),
        offset: 17,
        incarnation: 8,
        epoch: 2,
        durable: 40,
        checksums,
        records,
    }
    .encode()
}

fn manifest() -> Manifest {
    let entry = |zone, stream, footer| SegmentEntry {
        zone: ZoneId(zone),
        stream,
        incarnation: 7 + u64::from(zone),
        used: 60,
        payload: 50,
        footer,
        sealed: 99,
    };
    let tree = |tree, kind| TreeEntry {
        tree: TreeId(tree),
        kind,
        created: 5,
        short: 1024,
        root: vec![1; 16],
    };
    let (a, b) = (TreeId(1), TreeId(2));
    Manifest {
        zones: 16,
        next_tree: 5,
        closed: true,
        segments: vec![entry(0, 0, 0), entry(1, 3, 57), entry(2, 1, 59)],
        free: (3..15).map(ZoneId).collect(),
        scan: vec![ZoneId(0), ZoneId(2)],
        trees: vec![
            tree(1, TreeKind::Volume("v".into())),
            tree(2, TreeKind::Snapshot(a, "monday".into())),
            tree(3, TreeKind::Staging),
        ],
        prepared: vec![Prepared {
            id: 9 << 64,
            staging: TreeId(3),
            changes: vec![
                Record::Remap(Remap::Trim { tree: a, lba: 1, bytes: 8192 }),
                Record::CreateSnapshot { tree: TreeId(4), of: a, name: "s".into() },
                Record::Remap(Remap::Clone { from: b, from_lba: 3, to: a, to_lba: 4, bytes: 512 }),
            ],
        }],
        committed: vec![1, 2 << 100],
        pages: vec![0, 1 << 18 | 1],
        bad: vec![(ZoneId(2), 1), (ZoneId(15), 4)],
    }
}

fn root(chunks: usize) -> Vec<u8> {
    Root {
        uuid: [7; 16],
        zone_blocks: 64,
        checkpoint: 3,
        epoch: 2,
        sequence: 99,
        incarnation: 12,
        manifest_bytes: 5000,
        manifest: vec![(Pba(70), 1); chunks],
        durable: 99,
        opening: 77,
    }
    .encode()
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let header =
        SegmentHeader { uuid: [7; 16], zone: ZoneId(4), incarnation: 8, epoch: 2, stream: 3 };
    let footer = Footer { incarnation: 8, checksums: (0..20).collect(), groups: vec![1, 9] };
    let records = numbered(every_kind());
    let remap =
        Remap::Clone { from: TreeId(1), from_lba: 0, to: TreeId(1), to_lba: 0, bytes: 4096 };
    let vector = Record::Vector { staging: None, remaps: vec![remap; REMAPS_MAX] };
    let write = Record::Write { tree: TreeId(1), lba: u64::MAX, blocks: u32::MAX };
    let with = |mut bytes: Vec<u8>, at: usize, value: &[u8]| {
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let trimmed = |mut bytes: Vec<u8>, length: usize| {
        bytes.truncate(length);
        bytes
    };
    let footer = trimmed(footer.encode(), 28 + 4 * 22);
    let whole = manifest().encode();
    vec![
        ("root", root(2)),
        ("root_longest", root(MANIFEST_CHUNKS_MAX)),
        ("root_too_many_chunks", with(root(2), 76, &[0xff; 4])),
        ("root_newer_version", with(root(2), 8, &[9])),
        ("root_cut", trimmed(root(2), 60)),
        ("segment_header", trimmed(header.encode(), SegmentHeader::BYTES)),
        ("segment_header_cut", trimmed(header.encode(), 40)),
        ("footer", footer.clone()),
        ("footer_lying_counts", with(footer.clone(), 16, &[0xff; 8])),
        ("footer_cut", trimmed(footer, 60)),
        ("group_every_record", group(vec![1, 2, 3, 4], records)),
        ("group_of_the_map", group((0..256).collect(), vec![])),
        ("group_longest_vector", group(vec![], vec![(1, vector)])),
        ("group_write_without_payload", group(vec![1], vec![(1, write)])),
        ("group_lying_counts", with(group(vec![1], vec![]), 64, &[0xff; 4])),
        (
            "group_sequence_overflow",
            with(group(vec![], vec![(1, Record::Delete { tree: TreeId(1) })]), 56, &[0xff; 12]),
        ),
        ("manifest", whole.clone()),
        ("manifest_of_nothing", Manifest::default().encode()),
        ("manifest_lying_count", with(whole.clone(), 20, &[0xff; 4])),
        ("manifest_cut", trimmed(whole, 150)),
        ("nothing", Vec::new()),
    ]
}

#[test]
fn the_corpus_holds_the_seeds() {
    files::hold("log", seeds());
}
