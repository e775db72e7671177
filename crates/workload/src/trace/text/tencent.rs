//! Tencent Cloud block storage: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! The timestamp in whole seconds since 1970, offset and size in sectors of 512 bytes; IOType 0
//! reads and 1 writes.

use super::{ParseResult, Parsed, Raw, is_header, sectors, unknown_op};
use crate::Op;
use crate::trace::columns::{commas, wrong};
use crate::trace::digits::whole;
use crate::trace::report::PassedOver;

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([time, offset, size, kind, volume], count) = commas(line);
    if count != 5 {
        return Err(wrong(line, count, "5 (Timestamp,Offset,Size,IOType,VolumeID)"));
    }
    if is_header(line, "timestamp") {
        return Ok(Parsed::Passed(PassedOver::Header));
    }
    let op = match kind {
        b"0" => Op::Read,
        b"1" => Op::Write,
        _ => return Err(unknown_op(kind, "the type (column 4)", "0 (read), 1 (write)")),
    };
    whole(volume, "the volume (column 5)")?;
    Ok(Parsed::Request(Raw {
        time: whole(time, "the timestamp (column 1)")?,
        volume,
        op,
        offset: sectors(offset, "the offset (column 2)")?,
        length: sectors(size, "the size (column 3)")?,
        latency_ns: None,
        flush_first: false,
    }))
}
