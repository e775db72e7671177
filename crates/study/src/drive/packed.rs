//! What a drive keeps of a block whole, in few bytes: every byte comes back as it was.
//!
//! A packer knows roughly what the engine puts on media (`docs/internals/format.md`): which
//! checksums a group header or a footer is bound to list, and after how many bytes things repeat. A
//! wrong guess costs memory, never a byte of content.
//!
//! ```text
//! packed  a byte: how
//!         AS_IT_IS: the block
//!         HEADER: a group header, as [`header`] packs it
//!         ALONE: 4 bytes, the end of the block, then as any other
//!         regions, each: rows (u16), stride (u8), then its chunks of at most 64 rows
//!         chunk: a bit for each column of the stride, set if the whole column is one byte;
//!                then each column: that byte, or a byte a row
//!         rows = 0 ends it; the bytes of the block after the last region are zero
//! ```

use mjolnir_engine::bind;
use mjolnir_units::{BLOCK_BYTES, Pba};

use super::header;

const GROUP_MAGIC: u32 = 0x5052_474d;
const SEGMENT_MAGIC: u32 = 0x4745_534d;
const FOOTER_MAGIC: u32 = 0x544f_4f46;
/// Where checksums begin in a group header, and in a footer.
const GROUP_CHECKSUMS: usize = 68;
const FOOTER_CHECKSUMS: usize = 24;
/// Bytes of a record of a write, and of one of a move, with its sequence number.
const RECORD_STRIDES: [usize; 2] = [21, 29];
/// Where a segment's first block says of what it says, and which stream fills it.
const COMMON: std::ops::Range<usize> = 4..28;
const STREAM: usize = 44;
/// The stream of the map.
pub(crate) const MAP_STREAM: u8 = 0;
/// How a block is packed.
const PLAIN: u8 = 0;
const ALONE: u8 = 1;
const HEADER: u8 = 2;
/// Not at all.
const AS_IT_IS: u8 = 3;
const STRIDE_MAX: usize = 32;
const CHUNK_ROWS: usize = 64;

/// What is known of a zone that blocks are packed in: all that unpacking needs again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zone {
    /// Its first block.
    pub start: u64,
    /// Which life of the segment this is, as its first block says.
    pub incarnation: u64,
    /// Where its footer begins.
    pub footer: Option<u32>,
    /// Which stream fills it, as its first block says.
    pub stream: Option<u8>,
    /// What its first block and its group headers all say after their magic number.
    common: [u8; 24],
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

impl Zone {
    /// Learns of a block that is written at an offset.
    pub fn note(&mut self, offset: u32, block: &[u8]) {
        if offset == 0 {
            self.footer = None;
            self.incarnation = 0;
            self.stream = None;
            if u32_at(block, 0) == SEGMENT_MAGIC {
                self.common.copy_from_slice(&block[COMMON]);
                self.stream = Some(block[STREAM]);
                self.incarnation =
                    u64::from(u32_at(block, 28)) | u64::from(u32_at(block, 32)) << 32;
            }
        } else if self.footer.is_none() && u32_at(block, 0) == FOOTER_MAGIC {
            // The first counts, even if it is a map node's chance: what is packed before it and
            // what after it must never change.
            self.footer = Some(offset);
        }
    }

    /// Whether an offset is one of the footer's.
    pub fn in_footer(&self, offset: u32) -> bool {
        self.footer.is_some_and(|footer| offset >= footer)
    }

    /// The checksum that a block with a tag is likely to have been given.
    fn checksum(&self, offset: u64, tag_sum: u32) -> u32 {
        bind(Pba(self.start + offset), self.incarnation) ^ tag_sum
    }

    /// Takes out of a block the checksums that it is bound to list; done twice, it is undone.
    /// `sum_of` is the sum of the tag at an offset, and `None` where no tag is.
    fn fold(&self, offset: u32, block: &mut [u8], sum_of: &mut dyn FnMut(u64) -> Option<u32>) {
        let mut list = |from: usize, count: usize, first: u64, block: &mut [u8]| {
            let room = (BLOCK_BYTES - from) / 4;
            for (at, word) in (first..).zip(block[from..].chunks_exact_mut(4)).take(count.min(room))
            {
                if let Some(sum) = sum_of(at) {
                    let folded = u32_at(word, 0) ^ self.checksum(at, sum);
                    word.copy_from_slice(&folded.to_le_bytes());
                }
            }
        };
        if let Some(footer) = self.footer
            && offset >= footer
        {
            let before = (offset - footer) as usize * BLOCK_BYTES;
            let (from, first) = match before {
                0 => (FOOTER_CHECKSUMS, 0),
                before => (0, (before - FOOTER_CHECKSUMS) / 4),
            };
            list(from, (footer as usize).saturating_sub(first), first as u64, block);
        } else if u32_at(block, 0) == GROUP_MAGIC {
            let count = usize::from(u16::from_le_bytes([block[64], block[65]]));
            list(GROUP_CHECKSUMS, count, u64::from(offset) + 1, block);
        }
    }

    /// The regions of a block as likely: bytes from where they begin, and the stride.
    fn regions(&self, offset: u32, block: &[u8]) -> [(usize, usize); 3] {
        let end = (BLOCK_BYTES, 1);
        if self.in_footer(offset) {
            let from = if self.footer == Some(offset) { FOOTER_CHECKSUMS } else { 0 };
            return [(from, 4), end, end];
        }
        if u32_at(block, 0) != GROUP_MAGIC {
            return [(0, 8), end, end];
        }
        let count = usize::from(u16::from_le_bytes([block[64], block[65]]));
        let records = (GROUP_CHECKSUMS + 4 * count).min(BLOCK_BYTES);
        // The kind of the second record tells how long records are; the first may be another's.
        let stride = RECORD_STRIDES.into_iter().zip([1, 2]).find(|(stride, kind)| {
            block.get(records + stride + 4) == Some(kind) && block.get(records + 4) == Some(kind)
        });
        [(GROUP_CHECKSUMS, 4), (records, stride.map_or(8, |(stride, _)| stride)), end]
    }

    /// What a group header at an offset begins with.
    fn beginning(&self, offset: u32) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        bytes[COMMON].copy_from_slice(&self.common);
        bytes[28..32].copy_from_slice(&offset.to_le_bytes());
        bytes[32..].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }

    /// Packs the block that is written at an offset, after [`note`](Self::note), to the end of
    /// `out`.
    pub fn pack(
        &self,
        offset: u32,
        block: &[u8],
        out: &mut Vec<u8>,
        mut sum_of: impl FnMut(u64) -> Option<u32>,
    ) {
        let mut folded = [0; BLOCK_BYTES];
        folded.copy_from_slice(block);
        self.fold(offset, &mut folded, &mut sum_of);
        if !self.in_footer(offset) && folded.starts_with(&self.beginning(offset)) {
            let begun = out.len();
            out.push(HEADER);
            if header::pack(&folded, out) {
                return;
            }
            out.truncate(begun);
        }
        let regions = self.regions(offset, block);
        // The checksum at the end of a group header stands alone.
        let alone = folded[..4] == GROUP_MAGIC.to_le_bytes();
        out.push(if alone { ALONE } else { PLAIN });
        if alone {
            out.extend_from_slice(&folded[BLOCK_BYTES - 4..]);
            folded[BLOCK_BYTES - 4..].fill(0);
        }
        let used = folded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut at = 0;
        // What comes before the first region repeats after no known number of bytes.
        let mut begun = 1;
        for next in regions {
            let end = next.0.min(used);
            if end > at {
                pack_region(&folded, at, end, begun, out);
                at = end;
            }
            begun = next.1;
        }
        out.extend_from_slice(&[0, 0]);
    }

    /// The block that was packed at an offset.
    pub fn unpack(
        &self,
        offset: u32,
        packed: &[u8],
        block: &mut [u8],
        mut sum_of: impl FnMut(u64) -> Option<u32>,
    ) {
        if packed[0] == AS_IT_IS {
            return block.copy_from_slice(&packed[1..]);
        }
        block.fill(0);
        let (alone, mut rest) = (packed[0] == ALONE, &packed[1..]);
        if packed[0] == HEADER {
            let beginning = self.beginning(offset);
            block[..beginning.len()].copy_from_slice(&beginning);
            header::unpack(rest, block);
            self.fold(offset, block, &mut sum_of);
            return;
        }
        let mut last = [0; 4];
        if alone {
            last.copy_from_slice(&rest[..4]);
            rest = &rest[4..];
        }
        let mut at = 0;
        loop {
            let rows = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
            if rows == 0 {
                break;
            }
            let stride = usize::from(rest[2]);
            rest = &rest[3..];
            let mut row = 0;
            while row < rows {
                let count = CHUNK_ROWS.min(rows - row);
                rest = unpack_chunk(rest, block, at + row * stride, stride, count);
                row += count;
            }
            at += rows * stride;
        }
        if alone {
            block[BLOCK_BYTES - 4..].copy_from_slice(&last);
        }
        self.fold(offset, block, &mut sum_of);
    }
}

/// Puts a block as it is to the end of `out`.
pub(crate) fn copy(block: &[u8], out: &mut Vec<u8>) {
    out.push(AS_IT_IS);
    out.extend_from_slice(block);
}

/// Packs the bytes from `at` to before `end` in rows of `stride`, and what is left over as single
/// bytes.
fn pack_region(block: &[u8], at: usize, end: usize, stride: usize, out: &mut Vec<u8>) {
    let rows = (end - at) / stride;
    if rows > 0 {
        out.extend_from_slice(&(rows as u16).to_le_bytes());
        out.push(stride as u8);
        let mut row = 0;
        while row < rows {
            let count = CHUNK_ROWS.min(rows - row);
            let from = at + row * stride;
            pack_chunk(&block[from..from + count * stride], stride, out);
            row += count;
        }
    }
    let rest = at + rows * stride;
    if rest < end {
        pack_region(block, rest, end, 1, out);
    }
}

/// Packs rows column by column.
fn pack_chunk(rows: &[u8], stride: usize, out: &mut Vec<u8>) {
    let (first, others) = rows.split_at(stride);
    let mut differ = [0u8; STRIDE_MAX];
    for row in others.chunks_exact(stride) {
        for ((differ, a), b) in differ.iter_mut().zip(first).zip(row) {
            *differ |= a ^ b;
        }
    }
    let bit = |(column, differ): (usize, &u8)| u32::from(*differ == 0) << column;
    let same = differ[..stride].iter().enumerate().map(bit).fold(0, |all, bit| all | bit);
    out.extend_from_slice(&same.to_le_bytes()[..stride.div_ceil(8)]);
    for column in 0..stride {
        if same >> column & 1 == 1 {
            out.push(first[column]);
        } else {
            out.extend(rows[column..].iter().step_by(stride));
        }
    }
}

/// Undoes [`pack_chunk`]: writes `count` rows to `block` from byte `at` on. Returns what follows.
fn unpack_chunk<'a>(
    packed: &'a [u8],
    block: &mut [u8],
    at: usize,
    stride: usize,
    count: usize,
) -> &'a [u8] {
    let (bits, mut rest) = packed.split_at(stride.div_ceil(8));
    for column in 0..stride {
        let places = block[at + column..].iter_mut().step_by(stride).take(count);
        if bits[column / 8] >> (column % 8) & 1 == 1 {
            places.for_each(|place| *place = rest[0]);
            rest = &rest[1..];
        } else {
            places.zip(rest).for_each(|(place, byte)| *place = *byte);
            rest = &rest[count..];
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use mjolnir_vtime::Chance;

    fn zone() -> Zone {
        let mut zone = Zone { start: 5 << 20, ..Zone::default() };
        let mut block = vec![0; BLOCK_BYTES];
        block[..4].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        block[COMMON].copy_from_slice(&[3; 24]);
        block[28] = 77;
        zone.note(0, &block);
        zone
    }

    /// Packs and unpacks; returns the packed length.
    fn round_trip(zone: &Zone, offset: u32, block: &[u8]) -> usize {
        let sum_of = |at: u64| (!at.is_multiple_of(100)).then_some(9);
        let mut packed = Vec::new();
        zone.pack(offset, block, &mut packed, sum_of);
        let mut back = vec![0xaa; BLOCK_BYTES];
        zone.unpack(offset, &packed, &mut back, sum_of);
        assert!(back == block, "offset {offset}");
        let length = packed.len();
        packed.clear();
        copy(block, &mut packed);
        zone.unpack(offset, &packed, &mut back, sum_of);
        assert!(back == block, "offset {offset}, as it is");
        length
    }

    /// A group header of moved blocks, as the engine's format has it.
    fn group(chance: &mut Chance, zone: &Zone, offset: u32, count: u16) -> Vec<u8> {
        let mut block = Vec::from(zone.beginning(offset));
        block.resize(64, 3);
        block.extend_from_slice(&count.to_le_bytes());
        block.extend_from_slice(&count.to_le_bytes());
        for at in 1..=u64::from(count) {
            let sum = zone.checksum(u64::from(offset) + at, 9);
            block.extend_from_slice(&sum.to_le_bytes());
        }
        let mut birth = chance.below(1 << 30);
        for _ in 0..count {
            let kind = 1 + u8::from(chance.below(5) > 0);
            block.extend_from_slice(&[0, 0, 0, 0, kind, 1, 0, 0, 0]);
            block.extend_from_slice(&chance.below(1 << 23).to_le_bytes());
            block.extend_from_slice(&[1, 0, 0, 0]);
            if kind == 2 {
                birth += chance.below(16);
                block.extend_from_slice(&birth.to_le_bytes());
            }
        }
        block.resize(BLOCK_BYTES - 4, 0);
        block.extend_from_slice(&(chance.bits() as u32).to_le_bytes());
        block
    }

    #[test]
    fn a_header_takes_little_more_than_what_is_chance_in_it() {
        let (zone, mut chance) = (zone(), Chance::new(1));
        let block = group(&mut chance, &zone, 901, 90);
        let packed = round_trip(&zone, 901, &block);
        assert!(packed < 90 * 4 + 50, "{packed} bytes");
    }

    #[test]
    fn a_footer_takes_next_to_nothing() {
        let mut zone = zone();
        let mut block = Vec::from(FOOTER_MAGIC.to_le_bytes());
        block.resize(FOOTER_CHECKSUMS, 1);
        let sums = (0..4_000).map(|at| match at % 100 {
            0 => 0,
            _ => zone.checksum(at, 9),
        });
        let sums: Vec<u8> = sums.flat_map(u32::to_le_bytes).collect();
        block.extend_from_slice(&sums);
        block.resize(4 * BLOCK_BYTES, 0);
        zone.note(4_000, &block);
        let blocks = block.chunks_exact(BLOCK_BYTES).zip(4_000..);
        let packed: usize = blocks.map(|(block, at)| round_trip(&zone, at, block)).sum();
        assert!(packed < 1_000, "{packed} bytes");
    }

    #[test]
    fn any_bytes_come_back_as_they_were() {
        let mut chance = Chance::new(2);
        for round in 0..2_000u64 {
            let mut zone = zone();
            zone.footer = (round % 5 == 0).then_some(900);
            let offset = 880 + chance.below(40) as u32;
            let mut block = match round % 3 {
                0 => group(&mut chance, &zone, offset, 1 + (round % 110) as u16),
                _ => vec![0; BLOCK_BYTES],
            };
            block.resize(BLOCK_BYTES, 0);
            for _ in 0..chance.below(3_000) {
                let at = chance.below(BLOCK_BYTES as u64) as usize;
                block[at] = chance.bits() as u8;
            }
            if round % 3 == 0 && round % 2 == 0 {
                // Whole, and so packed as a header.
                block = group(&mut chance, &zone, offset, 1 + (round % 110) as u16);
            }
            if round % 7 == 0 {
                block[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
            }
            round_trip(&zone, offset, &block);
        }
    }
}
