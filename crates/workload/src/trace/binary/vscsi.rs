//! VMware's vscsiStats, as CloudPhysics uses it: one SCSI command a record, little-endian.
//!
//! | version 1 | version 2 | what |
//! |---|---|---|
//! | 0 (4) | 4 (4) | serial number, not read |
//! | 4 (4) | 8 (4) | length in bytes |
//! | 8 (4) | 12 (4) | scatter-gather elements, not read |
//! | 12 (2) | 0 (2) | SCSI operation code |
//! | 14 (2) | 2 (2) | version, in the high byte |
//! | 16 (8) | 16 (8) | address in sectors of 512 bytes |
//! | 24 (8) | 24 (8) | time in microseconds |
//! | | 32 (8) | response time in microseconds |

use crate::Op;
use crate::trace::fault::{Fault, Malformed};
use crate::trace::format::Format;
use crate::trace::report::PassedOver;
use crate::trace::text::{ParseResult, Parsed, Raw, SECTOR};

pub(crate) const BYTES_1: usize = 32;
pub(crate) const BYTES_2: usize = 40;

/// Which version these records are of, if they are.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    const RECORDS: usize = 64;
    let all = |bytes: usize, at: usize, version: u8| {
        let mut records = head.chunks_exact(bytes).take(RECORDS).peekable();
        records.peek().is_some()
            && records.all(|record| record[at] == 0 && record[at + 1] == version)
    };
    // The version's low byte is 0, which no text has.
    if all(BYTES_2, 2, 2) {
        Some(Format::Vscsi2)
    } else if all(BYTES_1, 14, 1) {
        Some(Format::Vscsi1)
    } else {
        None
    }
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"))
}

/// Parses a record of version 1.
pub(crate) fn parse_1(record: &[u8]) -> ParseResult<'static> {
    let head = (u32_at(record, 4), u16_at(record, 12), u16_at(record, 14));
    parse(head, 1, u64_at(record, 16), u64_at(record, 24), None)
}

/// Parses a record of version 2.
pub(crate) fn parse_2(record: &[u8]) -> ParseResult<'static> {
    let head = (u32_at(record, 8), u16_at(record, 0), u16_at(record, 2));
    parse(head, 2, u64_at(record, 16), u64_at(record, 24), Some(u64_at(record, 32)))
}

fn parse(
    (length, command, version): (u32, u16, u16),
    wanted: u16,
    sector: u64,
    time: u64,
    latency_us: Option<u64>,
) -> ParseResult<'static> {
    if version >> 8 != wanted {
        return Err(Malformed::new(
            Fault::Damaged,
            format!("the record's version is {}, not {wanted}", version >> 8),
        ));
    }
    let op = match command {
        // READ and WRITE of 6, 10, 12 and 16 bytes.
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Op::Write,
        // SYNCHRONIZE CACHE.
        0x35 | 0x91 => Op::Flush,
        // WRITE SAME and UNMAP among them: the record does not say what or where.
        0..=0xff => return Ok(Parsed::Passed(PassedOver::OtherCommand)),
        _ => {
            return Err(Malformed::new(
                Fault::Operation,
                format!("{command:#06x} is no SCSI operation code"),
            ));
        }
    };
    let too_large = |what: &str, value: u64| {
        Malformed::new(Fault::TooLarge, format!("the {what} is {value}: too large"))
    };
    let (offset, length) = match op {
        Op::Flush => (0, 0),
        _ => (
            sector.checked_mul(SECTOR).ok_or_else(|| too_large("sector", sector))?,
            u64::from(length),
        ),
    };
    let latency_ns = match latency_us {
        Some(us) => Some(us.checked_mul(1000).ok_or_else(|| too_large("response time in µs", us))?),
        None => None,
    };
    Ok(Parsed::Request(Raw {
        time,
        volume: b"0",
        op,
        offset,
        length,
        latency_ns,
        flush_first: false,
    }))
}
