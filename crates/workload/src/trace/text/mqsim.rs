//! MQSim's ASCII format: `arrival device sector sectors type`.
//!
//! The arrival in whole nanoseconds, address and count in sectors of 512 bytes, type 0 writes and
//! 1 reads.

use super::{ParseResult, Parsed, Raw, sectors, unknown_op};
use crate::Op;
use crate::trace::columns::{blanks, wrong};
use crate::trace::digits::whole;

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([time, device, sector, count_sectors, kind], count) = blanks(line);
    if count != 5 {
        return Err(wrong(line, count, "5 (arrival device sector sectors type)"));
    }
    let op = match kind {
        b"0" => Op::Write,
        b"1" => Op::Read,
        _ => return Err(unknown_op(kind, "the type (column 5)", "0 (write), 1 (read)")),
    };
    whole(device, "the device (column 2)")?;
    Ok(Parsed::Request(Raw {
        time: whole(time, "the arrival (column 1)")?,
        volume: device,
        op,
        offset: sectors(sector, "the sector (column 3)")?,
        length: sectors(count_sectors, "the count of sectors (column 4)")?,
        latency_ns: None,
        flush_first: false,
    }))
}
