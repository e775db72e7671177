//! The header of a group: the records and checksums of blocks that were appended together.

use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::format::record::Record;
use crate::format::{Decoder, Encoder, Malformed, VERSION, nearly};

/// The most payload blocks in a group: 1 MiB. Each group costs a header, a word of the map and a
/// slot of checksums; larger groups would delay a flush of small writes.
pub(crate) const GROUP_BLOCKS_MAX: u32 = 256;

const MAGIC: u32 = 0x5052_474d;

// "MGRP"

/// Bytes of a group header before its checksums and records, its own checksum included.
pub const FIXED_BYTES: usize = 76;

/// One block that precedes `checksums.len()` payload blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Identity of the container, never told to a client: so payload in a place where a header is
    /// searched is not mistaken for one.
    pub uuid: [u8; 16],
    /// The zone it lies in.
    pub zone: ZoneId,
    /// The header's offset in the zone, in blocks.
    pub offset: u32,
    /// The segment's incarnation.
    pub incarnation: u64,
    /// The recovery epoch.
    pub epoch: u64,
    /// Every record up to this sequence number was durable when the group was written.
    pub durable: u64,
    /// One checksum for each payload block, bound to its place (see [`super::bind`]).
    pub checksums: Vec<u32>,
    /// Sequence numbers and records. Write and Moved records take payload blocks in order. The
    /// number is 0 where the record has none.
    pub records: Vec<(u64, Record)>,
}

/// Where a group header is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// Identity of the container.
    pub uuid: [u8; 16],
    /// The zone.
    pub zone: ZoneId,
    /// Offset in the zone, in blocks.
    pub offset: u32,
    /// The segment's incarnation.
    pub incarnation: u64,
}

/// A header's first bytes. They are known for each place, so they identify a damaged header.
fn begin(out: &mut Encoder, uuid: &[u8; 16], zone: ZoneId, offset: u32, incarnation: u64) {
    out.u32(MAGIC);
    out.u32(VERSION);
    out.bytes(uuid);
    out.u32(zone.0);
    out.u32(offset);
    out.u64(incarnation);
}

impl GroupHeader {
    /// Encodes the header into one block. The caller keeps the records and checksums within it.
    pub fn encode(&self) -> Vec<u8> {
        let numbered = self.records.iter().filter(|(_, record)| record.is_sequenced());
        let base = numbered.map(|(sequence, _)| *sequence).min().unwrap_or(0);
        let mut out = Encoder(Vec::with_capacity(BLOCK_BYTES));
        begin(&mut out, &self.uuid, self.zone, self.offset, self.incarnation);
        out.u64(self.epoch);
        out.u64(self.durable);
        out.u64(base);
        out.u16(self.checksums.len() as u16);
        out.u16(self.records.len() as u16);
        for checksum in &self.checksums {
            out.u32(*checksum);
        }
        for (sequence, record) in &self.records {
            let number = if record.is_sequenced() { sequence - base } else { 0 };
            out.u32(u32::try_from(number).expect("a group spans few sequence numbers"));
            record.encode(&mut out);
        }
        assert!(out.0.len() + 4 <= BLOCK_BYTES, "group header overflows its block");
        out.0.resize(BLOCK_BYTES - 4, 0);
        out.seal()
    }

    /// Whether the header was written for that place.
    pub fn is_at(&self, place: &GroupPlace) -> bool {
        (&self.uuid, self.zone, self.offset, self.incarnation)
            == (&place.uuid, place.zone, place.offset, place.incarnation)
    }

    /// Whether the block is a damaged header of that place.
    pub fn is_damaged(block: &[u8], place: &GroupPlace) -> bool {
        let mut expected = Encoder::default();
        begin(&mut expected, &place.uuid, place.zone, place.offset, place.incarnation);
        nearly(block, &expected.0) && Decoder::unseal(block).is_err()
    }

    /// Reads a header back.
    pub fn decode(block: &[u8]) -> Result<Self, Malformed> {
        if block.len() != BLOCK_BYTES || block[..4] != MAGIC.to_le_bytes() {
            return Err(Malformed("no group header".into()));
        }
        let mut input = Decoder::unseal(block)?;
        input.take(4)?;
        if input.u32()? != VERSION {
            return Err(Malformed("group header of another version".into()));
        }
        let mut header = GroupHeader {
            uuid: input.uuid()?,
            zone: ZoneId(input.u32()?),
            offset: input.u32()?,
            incarnation: input.u64()?,
            epoch: input.u64()?,
            durable: input.u64()?,
            checksums: Vec::new(),
            records: Vec::new(),
        };
        let base = input.u64()?;
        let (blocks, records) = (input.u16()?, input.u16()?);
        let (checksums, _) = input.take(4 * usize::from(blocks))?.as_chunks();
        header.checksums.extend(checksums.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        // The count is trusted only up to what a block can hold: a record takes more than 8 bytes.
        header.records.reserve_exact(usize::from(records).min(BLOCK_BYTES / 8));
        let mut payload = 0;
        for _ in 0..records {
            let sequence = base
                .checked_add(u64::from(input.u32()?))
                .ok_or_else(|| Malformed("a sequence number overflows".into()))?;
            let record = Record::decode(&mut input)?;
            payload += record.payload_blocks();
            header.records.push((if record.is_sequenced() { sequence } else { 0 }, record));
        }
        if payload > u64::from(blocks) {
            return Err(Malformed("its records name more payload than it has".into()));
        }
        Ok(header)
    }
}
