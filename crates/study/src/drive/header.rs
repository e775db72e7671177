//! What a group header says, in few bytes: columns of numbers in as many bits as they need.
//!
//! Headers of client writes and of moves alone are known here, as `docs/internals/format.md` has
//! them; for any other block [`pack`] declines.
//!
//! ```text
//! packed  epoch, durable, base sequence, payload blocks, records (varints), checksum (u32),
//!         the payload's checksums as they are if they are not all 0,
//!         columns: sequence, kind, tree, lba, blocks; births in pieces of PIECE_ROWS
//! column  a byte: bits a number, plus 128 for differences
//!         the least number (varint); for differences the first number, and the least difference
//!         what each is more than the least, in so many bits
//! ```

use mjolnir_units::BLOCK_BYTES;

/// Where the fields begin that no zone knows beforehand, and the checksums.
const FIELDS: usize = 40;
const CHECKSUMS: usize = 68;
/// Where the checksum of the header itself lies.
const SUM: usize = BLOCK_BYTES - 4;
/// Bytes of a record of a write, and of one of a move.
const WRITE_BYTES: usize = 21;
const MOVED_BYTES: usize = 29;
/// Records that a header has room for.
const ROWS_MAX: usize = (SUM - CHECKSUMS) / WRITE_BYTES;
/// Births rise as far as blocks come out of one segment; each next one begins anew.
const PIECE_ROWS: usize = 24;

/// The columns of a header's records.
struct Columns {
    rows: usize,
    of: [[u64; ROWS_MAX]; 5],
    births: [u64; ROWS_MAX],
    born: usize,
}

impl Columns {
    fn new() -> Self {
        Columns { rows: 0, of: [[0; ROWS_MAX]; 5], births: [0; ROWS_MAX], born: 0 }
    }
}

fn number(block: &[u8], at: usize, bytes: usize) -> u64 {
    let mut all = [0; 8];
    all[..bytes].copy_from_slice(&block[at..at + bytes]);
    u64::from_le_bytes(all)
}

/// Bytes and place of each field of a record: sequence, kind, tree, lba, blocks.
const PLACES: [(usize, usize); 5] = [(0, 4), (4, 1), (5, 4), (9, 8), (17, 4)];

/// Packs the header of a group to the end of `out`, if it is one that can be packed here. The first
/// 40 bytes are the caller's to know.
pub(crate) fn pack(block: &[u8; BLOCK_BYTES], out: &mut Vec<u8>) -> bool {
    let (blocks, records) = (number(block, 64, 2) as usize, number(block, 66, 2) as usize);
    let mut at = CHECKSUMS + 4 * blocks;
    if at > SUM || records > ROWS_MAX {
        return false;
    }
    let mut columns = Columns::new();
    for row in 0..records {
        let length = match block.get(at + 4) {
            Some(1) => WRITE_BYTES,
            Some(2) => MOVED_BYTES,
            _ => return false,
        };
        if at + length > SUM {
            return false;
        }
        for (column, (place, bytes)) in columns.of.iter_mut().zip(PLACES) {
            column[row] = number(block, at + place, bytes);
        }
        if length == MOVED_BYTES {
            columns.births[columns.born] = number(block, at + WRITE_BYTES, 8);
            columns.born += 1;
        }
        at += length;
    }
    if block[at..SUM].iter().any(|byte| *byte != 0) {
        return false;
    }
    columns.rows = records;
    for field in 0..3 {
        put_varint(number(block, FIELDS + 8 * field, 8), out);
    }
    let sums = &block[CHECKSUMS..CHECKSUMS + 4 * blocks];
    let summed = sums.iter().any(|byte| *byte != 0);
    put_varint(2 * blocks as u64 + u64::from(summed), out);
    put_varint(records as u64, out);
    out.extend_from_slice(&block[SUM..]);
    if summed {
        out.extend_from_slice(sums);
    }
    for column in &columns.of {
        put_column(&column[..records], out);
    }
    columns.births[..columns.born].chunks(PIECE_ROWS).for_each(|piece| put_column(piece, out));
    true
}

/// Undoes [`pack`] in a block of zeroes, but for the first 40 bytes.
pub(crate) fn unpack(mut packed: &[u8], block: &mut [u8]) {
    let from = &mut packed;
    for field in 0..3 {
        let at = FIELDS + 8 * field;
        block[at..at + 8].copy_from_slice(&varint(from).to_le_bytes());
    }
    let (blocks, records) = (varint(from), varint(from) as usize);
    let (blocks, summed) = (blocks as usize / 2, blocks % 2 == 1);
    block[64..66].copy_from_slice(&(blocks as u16).to_le_bytes());
    block[66..68].copy_from_slice(&(records as u16).to_le_bytes());
    block[SUM..].copy_from_slice(take(from, 4));
    let mut at = CHECKSUMS + 4 * blocks;
    if summed {
        block[CHECKSUMS..at].copy_from_slice(take(from, 4 * blocks));
    }
    let mut columns = Columns::new();
    for column in &mut columns.of {
        column_of(&mut column[..records], from);
    }
    columns.born = columns.of[1][..records].iter().filter(|kind| **kind == 2).count();
    let births = &mut columns.births[..columns.born];
    births.chunks_mut(PIECE_ROWS).for_each(|piece| column_of(piece, from));
    let mut births = births.iter();
    for row in 0..records {
        for (column, (place, bytes)) in columns.of.iter().zip(PLACES) {
            let at = at + place;
            block[at..at + bytes].copy_from_slice(&column[row].to_le_bytes()[..bytes]);
        }
        at += WRITE_BYTES;
        if columns.of[1][row] == 2 {
            let birth = births.next().copied().unwrap_or(0);
            block[at..at + 8].copy_from_slice(&birth.to_le_bytes());
            at += MOVED_BYTES - WRITE_BYTES;
        }
    }
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint(from: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(from, 1)[0];
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(count);
    *from = rest;
    taken
}

fn bits_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// What is less by signed order comes out less.
fn ordered(difference: u64) -> u64 {
    difference ^ (1 << 63)
}

const DIFFERENCES: u8 = 128;

fn put_column(values: &[u64], out: &mut Vec<u8>) {
    let Some(&first) = values.first() else { return };
    let spread = |least: u64, most: u64| bits_of(most - least);
    let (least, most) = values.iter().fold((first, first), |(a, b), v| (a.min(*v), b.max(*v)));
    let differences = || values.windows(2).map(|pair| ordered(pair[1].wrapping_sub(pair[0])));
    let (low, high) = differences().fold((u64::MAX, 0), |(a, b), v| (a.min(v), b.max(v)));
    if values.len() > 1 && spread(low, high) < spread(least, most) {
        let bits = spread(low, high);
        out.push(bits as u8 | DIFFERENCES);
        put_varint(first, out);
        // Small ones of either sign in few bytes.
        let low_signed = ordered(low) as i64;
        put_varint((low_signed << 1 ^ low_signed >> 63) as u64, out);
        put_bits(differences().map(|difference| difference - low), bits, out);
    } else {
        let bits = spread(least, most);
        out.push(bits as u8);
        put_varint(least, out);
        put_bits(values.iter().map(|value| value - least), bits, out);
    }
}

fn put_bits(values: impl Iterator<Item = u64>, bits: u32, out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let (mut held, mut count) = (0u128, 0);
    for value in values {
        held |= u128::from(value) << count;
        count += bits;
        while count >= 32 {
            out.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            count -= 32;
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..count.div_ceil(8) as usize]);
}

/// Undoes [`put_column`].
fn column_of(values: &mut [u64], from: &mut &[u8]) {
    if values.is_empty() {
        return;
    }
    let head = take(from, 1)[0];
    let bits = u32::from(head & !DIFFERENCES);
    let least = varint(from);
    if head & DIFFERENCES == 0 {
        take_bits(values, bits, from);
        values.iter_mut().for_each(|value| *value += least);
        return;
    }
    let low = varint(from);
    let low = (low >> 1) ^ (low & 1).wrapping_neg();
    values[0] = least;
    take_bits(&mut values[1..], bits, from);
    for row in 1..values.len() {
        values[row] = values[row - 1].wrapping_add(values[row]).wrapping_add(low);
    }
}

fn take_bits(values: &mut [u64], bits: u32, from: &mut &[u8]) {
    if bits == 0 {
        values.fill(0);
        return;
    }
    let mut bytes = take(from, (values.len() * bits as usize).div_ceil(8)).iter();
    let (mut held, mut count) = (0u128, 0);
    let mask = u64::MAX >> (64 - bits);
    for value in values {
        while count < bits {
            held |= u128::from(bytes.next().copied().unwrap_or(0)) << count;
            count += 8;
        }
        *value = held as u64 & mask;
        held >>= bits;
        count -= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mjolnir_vtime::Chance;

    #[test]
    fn any_column_comes_back() {
        let mut chance = Chance::new(3);
        for round in 0..20_000u64 {
            let rows = 1 + chance.below(ROWS_MAX as u64) as usize;
            let bits = 1 + chance.below(64) as u32;
            let mut last = chance.bits();
            let values: Vec<u64> = (0..rows)
                .map(|_| {
                    let value = chance.bits() >> (64 - bits);
                    last = match round % 3 {
                        0 => value,
                        1 => last.wrapping_add(value),
                        _ => last.wrapping_sub(value),
                    };
                    last
                })
                .collect();
            let mut packed = Vec::new();
            put_column(&values, &mut packed);
            let least = values.len() * bits as usize / 8;
            assert!(round % 3 > 0 || packed.len() <= least + 13, "{} for {least}", packed.len());
            let (mut back, mut rest) = (vec![7; rows], packed.as_slice());
            column_of(&mut back, &mut rest);
            assert_eq!((back, rest.len()), (values, 0), "round {round}");
        }
    }
}
