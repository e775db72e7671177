//! The Storage Performance Council's trace format: `ASU,LBA,Size,Opcode,Timestamp[,...]`.
//!
//! The address in sectors of 512 bytes, the size in bytes, the timestamp in seconds with decimals.
//! The ASU (application storage unit) is the volume. Further columns are optional and not read.

use super::{ParseResult, Parsed, Raw, is_header, read_or_write, sectors};
use crate::trace::columns::{commas, wrong};
use crate::trace::digits::{decimal, whole};
use crate::trace::report::PassedOver;

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([asu, lba, size, opcode, time], count) = commas(line);
    if count < 5 {
        return Err(wrong(line, count, "at least 5 (ASU,LBA,Size,Opcode,Timestamp)"));
    }
    if is_header(line, "asu") {
        return Ok(Parsed::Passed(PassedOver::Header));
    }
    let op = read_or_write(opcode, "the opcode (column 4)")?;
    whole(asu, "the ASU (column 1)")?;
    Ok(Parsed::Request(Raw {
        time: decimal(time, 9, "the timestamp (column 5)")?,
        volume: asu,
        op,
        offset: sectors(lba, "the LBA (column 2)")?,
        length: whole(size, "the size (column 3)")?,
        latency_ns: None,
        flush_first: false,
    }))
}
