//! The SYSTOR '17 traces: `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Timestamp (since 1970) and response time in seconds with decimals, offset and size in bytes. A
//! request that was never answered has an empty response time.

use super::{ParseResult, Parsed, Raw, is_header, read_or_write};
use crate::trace::columns::{commas, wrong};
use crate::trace::digits::{decimal, whole};
use crate::trace::report::PassedOver;

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([time, response, kind, lun, offset, size], count) = commas(line);
    if count != 6 {
        return Err(wrong(line, count, "6 (Timestamp,Response,IOType,LUN,Offset,Size)"));
    }
    if is_header(line, "timestamp") {
        return Ok(Parsed::Passed(PassedOver::Header));
    }
    let op = read_or_write(kind, "the type (column 3)")?;
    let latency_ns = match response {
        [] => None,
        response => Some(decimal(response, 9, "the response time (column 2)")?),
    };
    Ok(Parsed::Request(Raw {
        time: decimal(time, 9, "the timestamp (column 1)")?,
        volume: lun,
        op,
        offset: whole(offset, "the offset (column 5)")?,
        length: whole(size, "the size (column 6)")?,
        latency_ns,
        flush_first: false,
    }))
}
