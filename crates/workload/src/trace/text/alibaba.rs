//! Alibaba Cloud block traces: `device,opcode,offset,length,timestamp`.
//!
//! Offset and length in bytes, the timestamp in microseconds since 1970. The device is a number,
//! the opcode `R` or `W`.

use super::{ParseResult, Parsed, Raw, is_header, read_or_write};
use crate::trace::columns::{commas, wrong};
use crate::trace::digits::whole;
use crate::trace::report::PassedOver;

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([device, opcode, offset, length, time], count) = commas(line);
    if count != 5 {
        return Err(wrong(line, count, "5 (device,opcode,offset,length,timestamp)"));
    }
    if is_header(line, "device") {
        return Ok(Parsed::Passed(PassedOver::Header));
    }
    let op = read_or_write(opcode, "the opcode (column 2)")?;
    whole(device, "the device (column 1)")?;
    Ok(Parsed::Request(Raw {
        time: whole(time, "the timestamp (column 5)")?,
        volume: device,
        op,
        offset: whole(offset, "the offset (column 3)")?,
        length: whole(length, "the length (column 4)")?,
        latency_ns: None,
        flush_first: false,
    }))
}
