//! The bytes of a warm log: a head of one block, a ring of entries, then memory for payload.
//! Numbers are little-endian. The words of the head that are stored and loaded as a whole have the
//! machine's own byte order: only a process on the same machine reads them.
//!
//! | offset | length | what |
//! |---|---|---|
//! | 0 | 8 | magic `MJWARM\0\1` |
//! | 8 | 16 | boot id |
//! | 24 | 16 | uuid of the container |
//! | 40 | 8, 8 | the opening of the store: recovery epoch and random number |
//! | 56 | 4 | checksum of bytes 0 to 55 |
//! | 512 | 8 | bytes of the ring that are no longer needed, of all that were ever written |
//! | 520 | 8 | bytes of the ring that were ever written |
//! | 4096 | 2 MiB | the ring: byte *n* of all that were ever written lies at *n* modulo its length |
//! | behind | | payload |
//!
//! An entry: bytes in all 4 (a multiple of 8), of the record 4, sequence number 8, payload's offset in the
//! file 8, its bytes 4, its checksum 4, checksum of all but these four bytes 4, unused 4; the record.

use mjolnir_device::{Opening, SharedPage};

use super::Key;

pub const RING_AT: usize = 4096;
pub const RING_BYTES: usize = 2 << 20;
/// Bytes before the payload.
pub const PAGE_BYTES: usize = RING_AT + RING_BYTES;
pub const FIRST_AT: usize = 512;
pub const END_AT: usize = 520;
const MAGIC: &[u8; 8] = b"MJWARM\0\x01";
const KEY_BYTES: usize = 56;
const ENTRY_BYTES: usize = 40;
const SUM_AT: usize = 32;

/// What the first block says.
pub struct Head {
    pub key: Key,
    pub opening: Opening,
    /// Where the first entry begins that counts, in bytes ever written.
    pub first: u64,
    /// Where the last one ends.
    pub end: u64,
}

/// One entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub sequence: u64,
    pub record: Vec<u8>,
    pub payload_at: usize,
    pub payload_bytes: usize,
    pub checksum: u32,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.key.boot);
        out.extend_from_slice(&self.key.uuid);
        out.extend_from_slice(&self.opening.epoch.to_le_bytes());
        out.extend_from_slice(&self.opening.number.to_le_bytes());
        let sum = crc32c::crc32c(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Writes it to a page that holds nothing that counts. What tells that it counts comes last.
    pub fn write(&self, page: &mut SharedPage) {
        page.store(FIRST_AT, self.first);
        page.store(END_AT, self.end);
        let bytes = self.encode();
        page.write(8, &bytes[8..]);
        page.store(0, u64::from_ne_bytes(*MAGIC));
    }

    /// Reads it back; `None` if the page has none.
    pub fn read(page: &SharedPage) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES + 4];
        page.read(0, &mut bytes);
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let id = |at: usize| bytes[at..at + 16].try_into().expect("sixteen bytes");
        let key = Key { boot: id(8), uuid: id(24) };
        let (first, end) = (page.load(FIRST_AT), page.load(END_AT));
        let opening = Opening { epoch: word(40), number: word(48) };
        let head = Head { key, opening, first, end };
        (head.encode() == bytes).then_some(head)
    }
}

/// Appends an entry.
pub fn encode(
    out: &mut Vec<u8>,
    sequence: u64,
    record: &[u8],
    payload_at: usize,
    payload_bytes: usize,
    checksum: u32,
) {
    let all = (ENTRY_BYTES + record.len()).next_multiple_of(8);
    let begin = out.len();
    out.extend_from_slice(&(all as u32).to_le_bytes());
    out.extend_from_slice(&(record.len() as u32).to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&(payload_at as u64).to_le_bytes());
    out.extend_from_slice(&(payload_bytes as u32).to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(record);
    out.resize(begin + all, 0);
    let sum = crc32c::crc32c(&out[begin..]);
    out[begin + SUM_AT..begin + SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The entry that `bytes` begin with, and how long it is.
pub fn decode(bytes: &[u8]) -> Option<(Entry, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (all, record_bytes) = (word(0)? as usize, word(4)? as usize);
    let mut whole = bytes.get(..all)?.to_vec();
    let record = whole.get(ENTRY_BYTES..)?.get(..record_bytes)?.to_vec();
    whole[SUM_AT..SUM_AT + 4].fill(0);
    if crc32c::crc32c(&whole) != word(SUM_AT)? || !all.is_multiple_of(8) {
        return None;
    }
    let payload_at = usize::try_from(long(16)?).ok()?;
    let (payload_bytes, checksum) = (word(24)? as usize, word(28)?);
    Some((Entry { sequence: long(8)?, record, payload_at, payload_bytes, checksum }, all))
}

/// Writes to the ring what comes behind `at` bytes ever written.
pub fn put(page: &mut SharedPage, at: u64, bytes: &[u8]) {
    let from = (at % RING_BYTES as u64) as usize;
    let (head, tail) = bytes.split_at(bytes.len().min(RING_BYTES - from));
    page.write(RING_AT + from, head);
    page.write(RING_AT, tail);
}

/// The entries between two places in all that was ever written. What makes no sense ends them.
pub fn entries(page: &SharedPage, first: u64, end: u64) -> Vec<Entry> {
    let Some(length) = end.checked_sub(first).filter(|length| *length <= RING_BYTES as u64) else {
        return Vec::new();
    };
    let mut ring = vec![0; RING_BYTES];
    page.read(RING_AT, &mut ring);
    ring.rotate_left((first % RING_BYTES as u64) as usize);
    let mut rest = &ring[..length as usize];
    let mut found: Vec<Entry> = Vec::new();
    while let Some((entry, bytes)) = decode(rest) {
        if found.last().is_some_and(|last| last.sequence >= entry.sequence) {
            break;
        }
        found.push(entry);
        rest = &rest[bytes..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_the_round_trip_and_no_flipped_bit_does() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 77, b"a record", 1 << 33, 8192, 5);
        let whole = Entry {
            sequence: 77,
            record: b"a record".to_vec(),
            payload_at: 1 << 33,
            payload_bytes: 8192,
            checksum: 5,
        };
        assert_eq!(decode(&bytes), Some((whole, bytes.len())));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bad), None, "bit {bit}");
        }
        assert!((0..bytes.len()).all(|cut| decode(&bytes[..cut]).is_none()));
    }
}
