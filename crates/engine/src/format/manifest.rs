//! The manifest: a checkpoint's data besides the map's nodes and node table.

use mjolnir_units::{BLOCK_SIZE, TreeId, ZoneId};

use crate::format::record::decode_remaps;
use crate::format::transaction::Prepared;
use crate::format::{Decoder, Encoder, Malformed};

const MAGIC: &[u8; 8] = b"MJMANIF\0";

/// The version of manifests that this engine writes. Version 2: volumes may be shorter than their
/// blocks. Version 3: callers name their transactions. Version 4: the list of bad segments.
const VERSION: u32 = 4;

const OLDEST: u32 = 1;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Zones that the store uses.
    pub zones: u32,
    /// The next tree id to give out.
    pub next_tree: u32,
    /// Whether the store was closed with this checkpoint, so that no record was logged after it.
    pub closed: bool,
    /// Segments in use, with their state.
    pub segments: Vec<SegmentEntry>,
    /// Free segments in the order in which they will be opened. No other segment is opened until
    /// the next checkpoint is durable, so recovery finds every segment opened since by trying these
    /// in order.
    pub free: Vec<ZoneId>,
    /// Segments whose groups may hold records newer than the checkpoint: open when the map was
    /// frozen, or opened between then and now.
    pub scan: Vec<ZoneId>,
    /// Volumes, snapshots and staged trees.
    pub trees: Vec<TreeEntry>,
    /// Transactions that were prepared and neither committed nor aborted.
    pub prepared: Vec<Prepared>,
    /// Transactions that were committed and not forgotten, in order.
    pub committed: Vec<u128>,
    /// Where each page of the node table lies, as packed node addresses; 0 for none.
    pub pages: Vec<u64>,
    /// Segments that the device failed to write to, each with how often. Those among them that are
    /// not in use are not free either.
    pub bad: Vec<(ZoneId, u8)>,
}

/// One segment in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Its zone.
    pub zone: ZoneId,
    /// The stream that filled it.
    pub stream: u8,
    /// Its incarnation.
    pub incarnation: u64,
    /// Blocks in use, footer included; for an open segment, so far.
    pub used: u32,
    /// Of those, blocks of payload.
    pub payload: u32,
    /// Offset of its footer; 0 if it has none.
    pub footer: u32,
    /// Log sequence number when it was sealed.
    pub sealed: u64,
}

/// The kind of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// A volume, with its name.
    Volume(String),
    /// A snapshot of a volume, with its name there.
    Snapshot(TreeId, String),
    /// Blocks staged for a vector.
    Staging,
}

/// One tree in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its id.
    pub tree: TreeId,
    /// Its kind.
    pub kind: TreeKind,
    /// The log sequence number of its creation.
    pub created: u64,
    /// Bytes by which the tree is shorter than its blocks.
    pub short: u16,
    /// The map's root, in the map's own encoding.
    pub root: Vec<u8>,
}

impl Manifest {
    /// The most bytes that each zone of a store takes: its entry, its number in the list of segments
    /// to scan, and its entry in the list of bad ones.
    pub const SEGMENT_BYTES_MAX: u64 = 33 + 4 + 5;

    /// All segments that may have been opened since, in that order, including those by which the
    /// device has grown to its present number of `zones`.
    pub fn order(&self, zones: u32) -> Vec<ZoneId> {
        self.free.iter().copied().chain((self.zones..zones).map(ZoneId)).collect()
    }

    /// Encodes the manifest.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.bytes(MAGIC);
        out.u32(VERSION);
        out.u32(self.zones);
        out.u32(self.next_tree);
        out.u8(u8::from(self.closed));
        out.u32(self.segments.len() as u32);
        for segment in &self.segments {
            out.u32(segment.zone.0);
            out.u8(segment.stream);
            out.u64(segment.incarnation);
            out.u32(segment.used);
            out.u32(segment.payload);
            out.u32(segment.footer);
            out.u64(segment.sealed);
        }
        for list in [&self.free, &self.scan] {
            out.u32(list.len() as u32);
            list.iter().for_each(|zone| out.u32(zone.0));
        }
        out.u32(self.trees.len() as u32);
        for entry in &self.trees {
            out.u32(entry.tree.0);
            out.u64(entry.created);
            out.u16(entry.short);
            match &entry.kind {
                TreeKind::Volume(name) => {
                    out.u8(1);
                    out.text(name);
                }
                TreeKind::Snapshot(of, name) => {
                    out.u8(2);
                    out.u32(of.0);
                    out.text(name);
                }
                TreeKind::Staging => out.u8(3),
            }
            out.u8(entry.root.len() as u8);
            out.bytes(&entry.root);
        }
        out.u32(self.prepared.len() as u32);
        self.prepared.iter().for_each(|prepared| prepared.encode(&mut out));
        out.u32(self.committed.len() as u32);
        self.committed.iter().for_each(|transaction| out.u128(*transaction));
        out.u32(self.pages.len() as u32);
        self.pages.iter().for_each(|page| out.u64(*page));
        out.u32(self.bad.len() as u32);
        for (zone, failures) in &self.bad {
            out.u32(zone.0);
            out.u8(*failures);
        }
        out.seal()
    }

    /// Decodes a manifest.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder::unseal(bytes)?;
        if input.take(8)? != MAGIC {
            return Err(Malformed("it does not start as a manifest".into()));
        }
        let version = input.u32()?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Malformed(format!(
                "it is of version {version}; this program reads versions {OLDEST} to {VERSION}"
            )));
        }
        let mut manifest =
            Manifest { zones: input.u32()?, next_tree: input.u32()?, ..Manifest::default() };
        manifest.closed = version > 1 && input.u8()? != 0;
        for _ in 0..input.count(33)? {
            manifest.segments.push(SegmentEntry {
                zone: ZoneId(input.u32()?),
                stream: input.u8()?,
                incarnation: input.u64()?,
                used: input.u32()?,
                payload: input.u32()?,
                footer: input.u32()?,
                sealed: input.u64()?,
            });
        }
        for list in [&mut manifest.free, &mut manifest.scan] {
            for _ in 0..input.count(4)? {
                list.push(ZoneId(input.u32()?));
            }
        }
        for _ in 0..input.count(14)? {
            let (tree, created) = (TreeId(input.u32()?), input.u64()?);
            let short = if version == 1 { 0 } else { input.u16()? };
            if !short.is_multiple_of(512) || u64::from(short) >= BLOCK_SIZE {
                return Err(Malformed(format!("tree {} is shorter by {short} bytes", tree.0)));
            }
            let kind = match input.u8()? {
                1 => TreeKind::Volume(input.text()?),
                2 => TreeKind::Snapshot(TreeId(input.u32()?), input.text()?),
                3 => TreeKind::Staging,
                other => return Err(Malformed(format!("unknown kind of tree {other}"))),
            };
            let length = usize::from(input.u8()?);
            let root = input.take(length)?.to_vec();
            manifest.trees.push(TreeEntry { tree, kind, created, short, root });
        }
        for _ in 0..input.count(5)? {
            manifest.prepared.push(match version {
                1 | 2 => Prepared::of_vector(TreeId(input.u32()?), decode_remaps(&mut input)?),
                _ => Prepared::decode(&mut input)?,
            });
        }
        if version > 2 {
            for _ in 0..input.count(16)? {
                manifest.committed.push(input.u128()?);
            }
        }
        for _ in 0..input.count(8)? {
            manifest.pages.push(input.u64()?);
        }
        if version > 3 {
            for _ in 0..input.count(5)? {
                manifest.bad.push((ZoneId(input.u32()?), input.u8()?));
            }
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{Record, Remap, encode_remaps};

    #[test]
    fn a_manifest_survives_the_round_trip() {
        let manifest = Manifest {
            zones: 40,
            next_tree: 9,
            closed: true,
            segments: vec![SegmentEntry {
                zone: ZoneId(3),
                stream: 1,
                incarnation: 12,
                payload: 7,
                used: 60,
                footer: 59,
                sealed: 1000,
            }],
            free: vec![ZoneId(5), ZoneId(1)],
            scan: vec![ZoneId(3)],
            trees: vec![
                TreeEntry {
                    tree: TreeId(1),
                    kind: TreeKind::Volume("v".into()),
                    created: 1,
                    short: 2048,
                    root: vec![1, 2, 3],
                },
                TreeEntry {
                    tree: TreeId(2),
                    kind: TreeKind::Snapshot(TreeId(1), "s".into()),
                    created: 2,
                    short: 0,
                    root: vec![],
                },
                TreeEntry {
                    tree: TreeId(4),
                    kind: TreeKind::Staging,
                    created: 3,
                    short: 0,
                    root: vec![9],
                },
            ],
            prepared: vec![Prepared {
                id: 5 << 80,
                staging: TreeId(4),
                changes: vec![Record::Delete { tree: TreeId(1) }],
            }],
            committed: vec![3, 7 << 120],
            pages: vec![0, 77],
            bad: vec![(ZoneId(3), 1), (ZoneId(8), 4)],
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        for cut in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..cut]).is_err());
        }
    }

    const REMAP: Remap = Remap::Trim { tree: TreeId(1), lba: 0, bytes: 512 };

    /// A manifest as versions 1 and 2 wrote it, with a prepared vector.
    fn of_one_volume(version: u32, short: Option<u16>) -> Vec<u8> {
        let mut out = Encoder::default();
        out.bytes(MAGIC);
        // Version, zones, next tree id; no segments, no free ones, none to scan; one tree.
        [version, 16, 2].into_iter().for_each(|field| out.u32(field));
        short.into_iter().for_each(|_| out.u8(1));
        [0, 0, 0, 1, 1].into_iter().for_each(|field| out.u32(field));
        out.u64(5);
        short.into_iter().for_each(|short| out.u16(short));
        out.u8(1);
        out.text("v");
        out.u8(0);
        out.u32(1);
        out.u32(6);
        encode_remaps(&[REMAP], &mut out);
        out.u32(0);
        out.seal()
    }

    #[test]
    fn a_manifest_of_version_1_is_read() {
        let read = Manifest::decode(&of_one_volume(1, None)).unwrap();
        let kind = TreeKind::Volume("v".into());
        let entry = TreeEntry { tree: TreeId(1), kind, created: 5, short: 0, root: vec![] };
        assert_eq!((read.trees, read.closed), (vec![entry], false));
        let read = Manifest::decode(&of_one_volume(2, Some(3584))).unwrap();
        assert_eq!((read.trees[0].short, read.closed), (3584, true));
        let prepared = Prepared::of_vector(TreeId(6), vec![REMAP]);
        assert_eq!((read.prepared, read.committed), (vec![prepared], vec![]));
        for short in [1, 4096, 65_024] {
            assert!(Manifest::decode(&of_one_volume(2, Some(short))).is_err(), "{short}");
        }
    }
}
