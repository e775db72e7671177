//! Records: changes of the map, in the terms of the Store contract.

use mjolnir_units::{BLOCK_SIZE, TreeId, ZoneId};

use crate::format::transaction::Prepared;
use crate::format::{Decoder, Encoder, Malformed};

/// One change, applied wholly or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The next `blocks` payload blocks of the group are the content of `lba..`.
    Write { tree: TreeId, lba: u64, blocks: u32 },
    /// As `Write`, for blocks that reclaim moved, with their first address in a tree and the time
    /// of that write. Has no sequence number and is not replayed: the next checkpoint holds the new
    /// address, and until then the old copy stays.
    Moved { tree: TreeId, lba: u64, blocks: u32, birth: u64 },
    /// An append to this segment failed: nothing counts in it from this block on. What was to lie
    /// there is logged again elsewhere. Has no sequence number.
    Cut { zone: ZoneId, incarnation: u64, block: u32 },
    /// A range change.
    Remap(Remap),
    /// Several range changes; then the staged tree is dropped.
    Vector { staging: Option<TreeId>, remaps: Vec<Remap> },
    /// Prepares a transaction, kept until it is committed or aborted.
    Prepare(Prepared),
    /// Commits the transaction that owns this staged tree. Its id is remembered until it is
    /// forgotten.
    Commit { staging: TreeId },
    /// Aborts the transaction that owns this staged tree.
    Abort { staging: TreeId },
    /// Forgets a committed transaction: no member will ask for it again.
    Forget { transaction: u128 },
    /// A tree of blocks staged for a vector, not visible to clients.
    Stage { tree: TreeId, blocks: u64 },
    /// A new empty volume of this size.
    CreateVolume { tree: TreeId, bytes: u64, name: String },
    /// `tree` is a read-only copy of `of`, called `name` there.
    CreateSnapshot { tree: TreeId, of: TreeId, name: String },
    /// `tree` is a writable copy of `of`.
    CloneVolume { tree: TreeId, of: TreeId, name: String },
    /// The volume takes the content and size of the snapshot.
    Restore { tree: TreeId, from: TreeId },
    /// Removes a volume or snapshot.
    Delete { tree: TreeId },
    /// The volume's new size. If `tail` is given, the one block of that staged tree replaces the
    /// volume's last block, and holds zeroes past the new size; then the staged tree is dropped.
    Resize { tree: TreeId, bytes: u64, tail: Option<TreeId> },
    /// The new name of the volume or snapshot.
    Rename { tree: TreeId, name: String },
}

/// A change of ranges that writes no payload. If `bytes` is not a multiple of the block size, the
/// range ends at the end of all volumes named, and its last block changes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    Trim { tree: TreeId, lba: u64, bytes: u64 },
    Clone { from: TreeId, from_lba: u64, to: TreeId, to_lba: u64, bytes: u64 },
    Move { from: TreeId, from_lba: u64, to: TreeId, to_lba: u64, bytes: u64 },
}

/// The most remaps that one record can hold and still fit a group header.
pub const REMAPS_MAX: usize = 100;

impl Remap {
    fn encode(&self, out: &mut Encoder) {
        match *self {
            Remap::Trim { tree, lba, bytes } => {
                out.u8(4);
                out.u32(tree.0);
                out.u64(lba);
                out.u64(bytes);
            }
            Remap::Clone { from, from_lba, to, to_lba, bytes }
            | Remap::Move { from, from_lba, to, to_lba, bytes } => {
                out.u8(if matches!(self, Remap::Clone { .. }) { 5 } else { 6 });
                out.u32(from.0);
                out.u64(from_lba);
                out.u32(to.0);
                out.u64(to_lba);
                out.u64(bytes);
            }
        }
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = input.u8()?;
        // Up to version 2 of the format, the length was in blocks.
        let length = |input: &mut Decoder<'_>| match kind {
            1..=3 => bytes_of_blocks(input),
            _ => input.u64(),
        };
        if matches!(kind, 1 | 4) {
            let tree = TreeId(input.u32()?);
            return Ok(Remap::Trim { tree, lba: input.u64()?, bytes: length(input)? });
        }
        let (from, from_lba) = (TreeId(input.u32()?), input.u64()?);
        let (to, to_lba) = (TreeId(input.u32()?), input.u64()?);
        let bytes = length(input)?;
        match kind {
            2 | 5 => Ok(Remap::Clone { from, from_lba, to, to_lba, bytes }),
            3 | 6 => Ok(Remap::Move { from, from_lba, to, to_lba, bytes }),
            other => Err(Malformed(format!("unknown remap {other}"))),
        }
    }
}

/// A number of blocks, in bytes.
fn bytes_of_blocks(input: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let blocks = input.u64()?;
    let bytes = blocks.checked_mul(BLOCK_SIZE);
    bytes.ok_or_else(|| Malformed(format!("{blocks} blocks are more than there can be")))
}

pub(crate) fn encode_remaps(remaps: &[Remap], out: &mut Encoder) {
    out.u8(remaps.len() as u8);
    for remap in remaps {
        remap.encode(out);
    }
}

pub(crate) fn decode_remaps(input: &mut Decoder<'_>) -> Result<Vec<Remap>, Malformed> {
    let count = input.u8()?;
    (0..count).map(|_| Remap::decode(input)).collect()
}

/// The first bytes of all records except [`Record::Remap`].
fn begin(out: &mut Encoder, kind: u8, tree: TreeId) {
    out.u8(kind);
    out.u32(tree.0);
}

impl Record {
    /// Whether the record has a sequence number. [`Record::Moved`] and [`Record::Cut`] have none:
    /// they are not replayed.
    pub fn is_sequenced(&self) -> bool {
        !matches!(self, Record::Moved { .. } | Record::Cut { .. })
    }

    /// Whether the record may be part of a transaction.
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Record::Remap(_)
                | Record::CreateVolume { .. }
                | Record::CreateSnapshot { .. }
                | Record::CloneVolume { .. }
                | Record::Restore { .. }
                | Record::Delete { .. }
                | Record::Resize { tail: None, .. }
                | Record::Rename { .. }
        )
    }

    /// Payload blocks that belong to the record.
    pub fn payload_blocks(&self) -> u64 {
        match self {
            Record::Write { blocks, .. } | Record::Moved { blocks, .. } => u64::from(*blocks),
            _ => 0,
        }
    }

    /// Whether the record's purpose is to free space, so that a full store accepts it. A resize may
    /// shrink a volume.
    pub fn frees_space(&self) -> bool {
        match self {
            Record::Vector { staging: None, remaps } => {
                remaps.iter().all(|remap| matches!(remap, Remap::Trim { .. }))
            }
            _ => matches!(
                self,
                Record::Remap(Remap::Trim { .. })
                    | Record::Delete { .. }
                    | Record::Commit { .. }
                    | Record::Abort { .. }
                    | Record::Forget { .. }
                    | Record::Restore { .. }
            ),
        }
    }

    pub(super) fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Write { tree, lba, blocks } => {
                begin(out, 1, *tree);
                out.u64(*lba);
                out.u32(*blocks);
            }
            Record::Moved { tree, lba, blocks, birth } => {
                begin(out, 2, *tree);
                out.u64(*lba);
                out.u32(*blocks);
                out.u64(*birth);
            }
            Record::Cut { zone, incarnation, block } => {
                out.u8(20);
                out.u32(zone.0);
                out.u64(*incarnation);
                out.u32(*block);
            }
            Record::Remap(remap) => {
                out.u8(3);
                remap.encode(out);
            }
            Record::Vector { staging, remaps } => {
                begin(out, 4, staging.unwrap_or(TreeId(0)));
                encode_remaps(remaps, out);
            }
            Record::Prepare(prepared) => {
                out.u8(18);
                prepared.encode(out);
            }
            Record::Commit { staging } => begin(out, 6, *staging),
            Record::Abort { staging } => begin(out, 7, *staging),
            Record::Forget { transaction } => {
                out.u8(19);
                out.u128(*transaction);
            }
            Record::Stage { tree, blocks } => {
                begin(out, 8, *tree);
                out.u64(*blocks);
            }
            Record::CreateVolume { tree, bytes, name } => {
                begin(out, 16, *tree);
                out.u64(*bytes);
                out.text(name);
            }
            Record::CreateSnapshot { tree, of, name } => {
                begin(out, 10, *tree);
                out.u32(of.0);
                out.text(name);
            }
            Record::CloneVolume { tree, of, name } => {
                begin(out, 11, *tree);
                out.u32(of.0);
                out.text(name);
            }
            Record::Restore { tree, from } => {
                begin(out, 12, *tree);
                out.u32(from.0);
            }
            Record::Delete { tree } => {
                begin(out, 13, *tree);
            }
            Record::Resize { tree, bytes, tail } => {
                begin(out, 17, *tree);
                out.u64(*bytes);
                out.u32(tail.map_or(0, |tree| tree.0));
            }
            Record::Rename { tree, name } => {
                begin(out, 15, *tree);
                out.text(name);
            }
        }
    }

    /// Appends the record's encoding.
    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        let mut out = Encoder(std::mem::take(bytes));
        self.encode(&mut out);
        *bytes = out.0;
    }

    /// Decodes a record that fills `bytes`.
    pub fn decode_whole(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Decoder(bytes);
        let record = Record::decode(&mut input)?;
        match input.0.is_empty() {
            true => Ok(record),
            false => Err(Malformed(format!("{} bytes follow a record", input.0.len()))),
        }
    }

    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = input.u8()?;
        match kind {
            3 => return Ok(Record::Remap(Remap::decode(input)?)),
            18 => return Ok(Record::Prepare(Prepared::decode(input)?)),
            19 => return Ok(Record::Forget { transaction: input.u128()? }),
            20 => {
                let (zone, incarnation) = (ZoneId(input.u32()?), input.u64()?);
                return Ok(Record::Cut { zone, incarnation, block: input.u32()? });
            }
            _ => {}
        }
        let tree = TreeId(input.u32()?);
        Ok(match kind {
            1 => Record::Write { tree, lba: input.u64()?, blocks: input.u32()? },
            2 => {
                let (lba, blocks) = (input.u64()?, input.u32()?);
                Record::Moved { tree, lba, blocks, birth: input.u64()? }
            }
            4 => Record::Vector {
                staging: (tree.0 != 0).then_some(tree),
                remaps: decode_remaps(input)?,
            },
            5 => Record::Prepare(Prepared::of_vector(tree, decode_remaps(input)?)),
            6 => Record::Commit { staging: tree },
            7 => Record::Abort { staging: tree },
            8 => Record::Stage { tree, blocks: input.u64()? },
            9 => Record::CreateVolume { tree, bytes: bytes_of_blocks(input)?, name: input.text()? },
            10 => Record::CreateSnapshot { tree, of: TreeId(input.u32()?), name: input.text()? },
            11 => Record::CloneVolume { tree, of: TreeId(input.u32()?), name: input.text()? },
            12 => Record::Restore { tree, from: TreeId(input.u32()?) },
            13 => Record::Delete { tree },
            14 => Record::Resize { tree, bytes: bytes_of_blocks(input)?, tail: None },
            15 => Record::Rename { tree, name: input.text()? },
            16 => Record::CreateVolume { tree, bytes: input.u64()?, name: input.text()? },
            17 => {
                let (bytes, tail) = (input.u64()?, TreeId(input.u32()?));
                Record::Resize { tree, bytes, tail: (tail.0 != 0).then_some(tail) }
            }
            other => return Err(Malformed(format!("unknown record {other}"))),
        })
    }

    /// Bytes that the record takes in a group header, its sequence number included.
    pub fn encoded_bytes(&self) -> usize {
        match self {
            // This runs for each run that reclaim moves.
            Record::Moved { .. } => MOVED_BYTES,
            _ => self.counted_bytes(),
        }
    }

    fn counted_bytes(&self) -> usize {
        let mut out = Encoder::default();
        self.encode(&mut out);
        out.0.len() + 4
    }
}

/// Bytes of a [`Record::Moved`] in a group header: sequence number, kind, tree, lba, blocks, birth.
const MOVED_BYTES: usize = 4 + 1 + 4 + 8 + 4 + 8;

#[cfg(test)]
pub(super) mod tests {
    use super::super::group::{FIXED_BYTES, GroupHeader};
    use super::*;
    use mjolnir_units::{BLOCK_BYTES, ZoneId};

    pub(in super::super) fn every_kind() -> Vec<Record> {
        let (a, b) = (TreeId(1), TreeId(2));
        let remaps = vec![
            Remap::Trim { tree: a, lba: 1, bytes: 8192 },
            Remap::Clone { from: a, from_lba: 3, to: b, to_lba: 4, bytes: 512 },
            Remap::Move { from: b, from_lba: 6, to: a, to_lba: 7, bytes: 8704 },
        ];
        vec![
            Record::Write { tree: a, lba: 1 << 40, blocks: 3 },
            Record::Moved { tree: a, lba: 5, blocks: 1, birth: 1 << 50 },
            Record::Remap(remaps[1]),
            Record::Vector { staging: None, remaps: remaps.clone() },
            Record::Vector { staging: Some(b), remaps: vec![] },
            Record::Prepare(Prepared {
                id: 7 << 90,
                staging: b,
                changes: vec![
                    Record::Remap(remaps[2]),
                    Record::CreateSnapshot { tree: b, of: a, name: "s".into() },
                    Record::Resize { tree: a, bytes: 4096, tail: None },
                ],
            }),
            Record::Prepare(Prepared { id: 1, staging: a, changes: vec![] }),
            Record::Commit { staging: a },
            Record::Abort { staging: a },
            Record::Forget { transaction: 9 << 100 },
            Record::Stage { tree: a, blocks: 9 },
            Record::CreateVolume { tree: a, bytes: 9 * 512, name: "v".into() },
            Record::CreateSnapshot { tree: a, of: b, name: "monday".into() },
            Record::CloneVolume { tree: a, of: b, name: "c".into() },
            Record::Restore { tree: a, from: b },
            Record::Delete { tree: a },
            Record::Resize { tree: a, bytes: 10 * 512, tail: None },
            Record::Resize { tree: a, bytes: 10 * 512, tail: Some(b) },
            Record::Rename { tree: a, name: "w".into() },
        ]
    }

    /// Numbered as in a group late in a store's life; moved records have no sequence number.
    pub(crate) fn numbered(records: Vec<Record>) -> Vec<(u64, Record)> {
        let number = |(record, number): (Record, u64)| {
            (if record.is_sequenced() { number } else { 0 }, record)
        };
        records.into_iter().zip((1 << 40)..).map(number).collect()
    }

    #[test]
    fn every_record_survives_the_round_trip_in_a_group() {
        let header = GroupHeader {
            uuid: [7; 16],
            zone: ZoneId(4),
            offset: 17,
            incarnation: 8,
            epoch: 2,
            durable: 40,
            checksums: vec![1, 2, 3, 4],
            records: numbered(every_kind()),
        };
        let block = header.encode();
        assert_eq!(GroupHeader::decode(&block), Ok(header));
        assert!(every_kind().iter().all(|r| r.encoded_bytes() == r.counted_bytes()));
    }

    #[test]
    fn the_longest_vector_fits_a_group_header() {
        let remap =
            Remap::Clone { from: TreeId(1), from_lba: 0, to: TreeId(1), to_lba: 0, bytes: 4096 };
        let record = Record::Vector { staging: None, remaps: vec![remap; REMAPS_MAX] };
        assert!(FIXED_BYTES + record.encoded_bytes() <= BLOCK_BYTES);
    }

    /// Versions 1 and 2 wrote all sizes and lengths in blocks.
    #[test]
    fn sizes_in_blocks_are_read() {
        let encoded = |kind: u8, fields: &[&[u8]]| [&[kind], &fields.concat()[..]].concat();
        let (a, b) = (1u32.to_le_bytes(), 2u32.to_le_bytes());
        let number = u64::to_le_bytes;
        let remaps = [
            encoded(1, &[&a, &number(1), &number(2)]),
            encoded(2, &[&a, &number(3), &b, &number(4), &number(5)]),
            encoded(3, &[&b, &number(6), &a, &number(7), &number(8)]),
        ];
        let vector = [&[4][..], &b, &[3], &remaps.concat()].concat();
        let records = [
            (encoded(9, &[&a, &number(9), b"\x01v"]), 9 * 4096, "CreateVolume"),
            (encoded(14, &[&a, &number(10)]), 10 * 4096, "Resize"),
        ];
        for (bytes, size, kind) in records {
            let record = Record::decode(&mut Decoder(&bytes)).unwrap();
            let read = match &record {
                Record::CreateVolume { bytes, .. } | Record::Resize { bytes, tail: None, .. } => {
                    *bytes
                }
                other => panic!("{other:?}"),
            };
            assert!(read == size && format!("{record:?}").starts_with(kind), "{record:?}");
        }
        let (a, b) = (TreeId(1), TreeId(2));
        let remaps = vec![
            Remap::Trim { tree: a, lba: 1, bytes: 2 * 4096 },
            Remap::Clone { from: a, from_lba: 3, to: b, to_lba: 4, bytes: 5 * 4096 },
            Remap::Move { from: b, from_lba: 6, to: a, to_lba: 7, bytes: 8 * 4096 },
        ];
        let read = Record::decode(&mut Decoder(&vector));
        assert_eq!(read, Ok(Record::Vector { staging: Some(b), remaps }));
        let absurd = encoded(14, &[&1u32.to_le_bytes(), &[0xff; 8]]);
        assert!(Record::decode(&mut Decoder(&absurd)).is_err());
    }

    #[test]
    fn a_vector_that_version_3_prepared_is_a_transaction_of_its_staged_tree() {
        let remap = Remap::Trim { tree: TreeId(1), lba: 0, bytes: 4096 };
        let mut out = Encoder::default();
        out.u8(5);
        out.u32(7);
        encode_remaps(&[remap], &mut out);
        let prepared = Prepared { id: 7, staging: TreeId(7), changes: vec![Record::Remap(remap)] };
        assert_eq!(Record::decode_whole(&out.0), Ok(Record::Prepare(prepared)));
    }

    #[test]
    fn what_is_no_change_cannot_be_part_of_a_transaction() {
        let within = Record::Commit { staging: TreeId(3) };
        let record = Record::Prepare(Prepared { id: 1, staging: TreeId(2), changes: vec![within] });
        let mut bytes = Vec::new();
        record.encode_into(&mut bytes);
        assert!(Record::decode_whole(&bytes).unwrap_err().0.contains("no part of a transaction"));
    }

    #[test]
    fn as_many_snapshots_as_are_taken_at_once_fit_a_group_header() {
        let record =
            Record::CreateSnapshot { tree: TreeId(1), of: TreeId(2), name: "n".repeat(128) };
        let bytes = crate::volumes::SNAPSHOTS_AT_ONCE_MAX * record.encoded_bytes();
        assert!(FIXED_BYTES + bytes <= BLOCK_BYTES);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..next() % 80).map(|_| (next() % 20) as u8).collect();
            let _ = Record::decode(&mut Decoder(&bytes));
        }
    }
}
