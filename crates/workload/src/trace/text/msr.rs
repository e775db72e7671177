//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Timestamp and response time in units of 100 ns (the timestamp a Windows file time, since 1601),
//! offset and size in bytes, the type `Read` or `Write`. Host and disk together are the volume:
//! `hm,0`.

use super::{ParseResult, Parsed, Raw, is_header, unknown_op};
use crate::Op;
use crate::trace::columns::{commas, wrong};
use crate::trace::digits::whole;
use crate::trace::fault::{Fault, Malformed};
use crate::trace::report::PassedOver;

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([time, host, disk, kind, offset, size, response], count) = commas(line);
    if count != 7 {
        return Err(wrong(
            line,
            count,
            "7 (Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime)",
        ));
    }
    if is_header(line, "timestamp") {
        return Ok(Parsed::Passed(PassedOver::Header));
    }
    let op = match kind {
        b"Read" | b"read" | b"R" => Op::Read,
        b"Write" | b"write" | b"W" => Op::Write,
        _ => return Err(unknown_op(kind, "the type (column 4)", "Read, Write")),
    };
    let ticks = whole(response, "the response time (column 7)")?;
    let latency_ns = ticks.checked_mul(100).ok_or_else(|| {
        Malformed::value(Fault::TooLarge, "the response time (column 7)", response, "too long")
    })?;
    whole(disk, "the disk (column 3)")?;
    Ok(Parsed::Request(Raw {
        time: whole(time, "the timestamp (column 1)")?,
        volume: spanning(line, host, disk),
        op,
        offset: whole(offset, "the offset (column 5)")?,
        length: whole(size, "the size (column 6)")?,
        latency_ns: Some(latency_ns),
        flush_first: false,
    }))
}

/// The part of the line from the start of one column to the end of another.
fn spanning<'a>(line: &'a [u8], first: &[u8], last: &[u8]) -> &'a [u8] {
    let base = line.as_ptr() as usize;
    &line[first.as_ptr() as usize - base..last.as_ptr() as usize - base + last.len()]
}
