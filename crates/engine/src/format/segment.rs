//! The first block of a segment, and the footer at its end.

use std::ops::Range;

use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::format::{Decoder, Encoder, Malformed, VERSION, nearly};

const HEADER_MAGIC: u32 = 0x4745_534d;

// "MSEG"
const FOOTER_MAGIC: u32 = 0x544f_4f46;

// "FOOT"

/// The header of a segment, in its block 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Identity of the container.
    pub uuid: [u8; 16],
    /// The zone it fills.
    pub zone: ZoneId,
    /// Never used twice: each opening of any segment gets the next number.
    pub incarnation: u64,
    /// The recovery epoch it was opened in.
    pub epoch: u64,
    /// The stream that fills it.
    pub stream: u8,
}

/// A header's first bytes. They are known for each zone, so they identify a damaged header.
fn begin(out: &mut Encoder, uuid: &[u8; 16], zone: ZoneId) {
    out.u32(HEADER_MAGIC);
    out.u32(VERSION);
    out.bytes(uuid);
    out.u32(zone.0);
}

impl SegmentHeader {
    /// Bytes in use, the checksum included.
    pub const BYTES: usize = 49;

    /// Encodes the header into one block.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        begin(&mut out, &self.uuid, self.zone);
        out.u64(self.incarnation);
        out.u64(self.epoch);
        out.u8(self.stream);
        let mut bytes = out.seal();
        bytes.resize(BLOCK_BYTES, 0);
        bytes
    }

    /// Whether the block is a damaged header of that zone, opened after `incarnation`.
    pub fn is_damaged(block: &[u8], uuid: &[u8; 16], zone: ZoneId, incarnation: u64) -> bool {
        let mut expected = Encoder::default();
        begin(&mut expected, uuid, zone);
        let Some(own) = block.get(28..36) else { return false };
        let own = u64::from_le_bytes(own.try_into().expect("eight bytes"));
        // A number higher than any that could have been given out since belongs to a stale header
        // with a damaged number.
        nearly(block, &expected.0)
            && (incarnation + 1..=incarnation + u64::from(u32::MAX)).contains(&own)
            && block.get(..Self::BYTES).is_some_and(|header| Decoder::unseal(header).is_err())
    }

    /// Decodes a header; `None` if the block does not hold one.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let mut input = Decoder::unseal(block.get(..Self::BYTES)?).ok()?;
        (input.u32().ok()? == HEADER_MAGIC && input.u32().ok()? == VERSION).then_some(())?;
        Some(SegmentHeader {
            uuid: input.uuid().ok()?,
            zone: ZoneId(input.u32().ok()?),
            incarnation: input.u64().ok()?,
            epoch: input.u64().ok()?,
            stream: input.u8().ok()?,
        })
    }
}

/// The end of a sealed segment: all its checksums, and the offsets of its groups. Redundant: the
/// group headers hold the same data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The segment's incarnation.
    pub incarnation: u64,
    /// Checksum of each block from 0 up to the footer; 0 for headers.
    pub checksums: Vec<u32>,
    /// Offsets of the group headers, in order.
    pub groups: Vec<u32>,
}

/// The part of a footer that holds the checksums of some blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FooterSlice {
    /// Blocks of the footer.
    pub blocks: Range<u64>,
    /// Byte offset of the first checksum in those blocks.
    begin: usize,
    count: usize,
}

impl FooterSlice {
    /// Extracts the checksums from the bytes of those blocks. The footer's own checksum does not
    /// cover a part of it: these checksums may only be compared with a block's.
    pub fn checksums(&self, bytes: &[u8]) -> Option<Vec<u32>> {
        let words = bytes.get(self.begin..self.begin + 4 * self.count)?.chunks_exact(4);
        Some(words.map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect())
    }
}

impl Footer {
    /// Bytes before the first checksum.
    const HEAD: usize = 24;

    /// The part of the footer with the checksums of these blocks of the segment.
    pub fn slice(range: &Range<u64>) -> FooterSlice {
        let byte = |block: u64| Self::HEAD as u64 + 4 * block;
        let size = BLOCK_BYTES as u64;
        let blocks = byte(range.start) / size..byte(range.end).div_ceil(size);
        let begin = (byte(range.start) % size) as usize;
        FooterSlice { blocks, begin, count: (range.end - range.start) as usize }
    }

    /// Number of blocks of a footer for a segment of `blocks` blocks with `groups` groups.
    pub fn blocks(blocks: u64, groups: usize) -> u64 {
        (28 + 4 * blocks + 4 * groups as u64).div_ceil(BLOCK_BYTES as u64)
    }

    /// Encodes the footer into whole blocks.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u32(FOOTER_MAGIC);
        out.u32(VERSION);
        out.u64(self.incarnation);
        out.u32(self.checksums.len() as u32);
        out.u32(self.groups.len() as u32);
        for value in self.checksums.iter().chain(&self.groups) {
            out.u32(*value);
        }
        let mut bytes = out.seal();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }

    /// Decodes a footer.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut head = Decoder(bytes);
        if head.u32()? != FOOTER_MAGIC || head.u32()? != VERSION {
            return Err(Malformed("no segment footer".into()));
        }
        head.u64()?;
        let total = Self::HEAD + 4 * (head.u32()? as usize + head.u32()? as usize) + 4;
        let mut input = Decoder::unseal(
            bytes.get(..total).ok_or_else(|| Malformed("footer cut short".into()))?,
        )?;
        input.take(8)?;
        let incarnation = input.u64()?;
        let (blocks, groups) = (input.u32()?, input.u32()?);
        let mut list = |count| (0..count).map(|_| input.u32()).collect::<Result<Vec<_>, _>>();
        Ok(Footer { incarnation, checksums: list(blocks)?, groups: list(groups)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_round_trip_and_noise_is_none() {
        let header =
            SegmentHeader { uuid: [3; 16], zone: ZoneId(9), incarnation: 77, epoch: 4, stream: 2 };
        let mut block = header.encode();
        assert_eq!(block.len(), BLOCK_BYTES);
        assert_eq!(SegmentHeader::decode(&block), Some(header));
        block[30] ^= 1;
        assert_eq!(SegmentHeader::decode(&block), None);
        assert_eq!(SegmentHeader::decode(&[0; 4096]), None);
        assert_eq!(SegmentHeader::decode(&[]), None);
    }

    #[test]
    fn a_footer_survives_the_round_trip_in_the_blocks_it_promised() {
        let footer =
            Footer { incarnation: 5, checksums: (0..3000).collect(), groups: vec![1, 100, 2000] };
        let mut bytes = footer.encode();
        assert_eq!(bytes.len() as u64, Footer::blocks(3000, 3) * BLOCK_BYTES as u64);
        assert_eq!(Footer::decode(&bytes), Ok(footer));
        for range in [0..1, 1017..1018, 1018..1019, 1000..2500, 2999..3000] {
            let slice = Footer::slice(&range);
            let size = BLOCK_BYTES as u64;
            let of = (slice.blocks.start * size) as usize..(slice.blocks.end * size) as usize;
            let expected: Vec<u32> = (range.start as u32..range.end as u32).collect();
            assert_eq!(slice.checksums(&bytes[of]), Some(expected), "{range:?}");
            assert_eq!(slice.checksums(&bytes[..3]), None);
        }
        bytes[5000] ^= 1;
        assert!(Footer::decode(&bytes).is_err());
        assert!(Footer::decode(&bytes[..100]).is_err());
    }
}
