//! DiskSim's ASCII format: `arrival device block blocks flags`.
//!
//! The arrival in milliseconds with decimals, address and count in sectors of 512 bytes, flags in
//! hexadecimal, of which bit 0 says read.

use super::{ParseResult, Parsed, Raw, sectors};
use crate::Op;
use crate::trace::columns::{blanks, wrong};
use crate::trace::digits::{decimal, hex_is_odd, whole};

pub(super) fn parse(line: &[u8]) -> ParseResult<'_> {
    let ([time, device, block, blocks, flags], count) = blanks(line);
    if count != 5 {
        return Err(wrong(line, count, "5 (arrival device block blocks flags)"));
    }
    let op = if hex_is_odd(flags, "the flags (column 5)")? { Op::Read } else { Op::Write };
    whole(device, "the device (column 2)")?;
    Ok(Parsed::Request(Raw {
        time: decimal(time, 6, "the arrival (column 1)")?,
        volume: device,
        op,
        offset: sectors(block, "the block (column 3)")?,
        length: sectors(blocks, "the count of blocks (column 4)")?,
        latency_ns: None,
        flush_first: false,
    }))
}
