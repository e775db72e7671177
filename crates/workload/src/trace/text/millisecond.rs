//! The cut of the MSR Cambridge traces that SSD studies pass around:
//! `milliseconds device offset size flag`.
//!
//! Offset and size in bytes, flag 1 reads and 0 writes. It has the shape of DiskSim's format and
//! other units; the detection tells them apart by sizes.

use super::{ParseResult, Parsed, Raw, unknown_op};
use crate::Op;
use crate::trace::columns::{blanks, wrong};
use crate::trace::digits::{decimal, whole};

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([time, device, offset, size, flag], count) = blanks(line);
    if count != 5 {
        return Err(wrong(line, count, "5 (milliseconds device offset size flag)"));
    }
    let op = match flag {
        b"0" => Op::Write,
        b"1" => Op::Read,
        _ => return Err(unknown_op(flag, "the flag (column 5)", "0 (write), 1 (read)")),
    };
    whole(device, "the device (column 2)")?;
    Ok(Parsed::Request(Raw {
        time: decimal(time, 6, "the time (column 1)")?,
        volume: device,
        op,
        offset: whole(offset, "the offset (column 3)")?,
        length: whole(size, "the size (column 4)")?,
        latency_ns: None,
        flush_first: false,
    }))
}
