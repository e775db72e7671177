//! The default output of `blkparse`: `device cpu sequence seconds pid action RWBS sector + sectors
//! [process]`.
//!
//! One request shows up once for each stage it passes (queued, issued, completed ...): one action
//! is read, the others are passed over. RWBS is an optional `F` (flush first), then the operation
//! (`R`, `W`, `WZ`, `D` discard, `F` flush, `N` none), then attributes, which are not kept. A flush that
//! was made into a request of its own is `FN`. Commands that were passed through to the device show
//! their bytes, or `(the command)`, instead of sectors; they are passed over.

use super::{ParseResult, Parsed, Raw, sectors, unknown_op};
use crate::Op;
use crate::trace::columns::{blanks, wrong};
use crate::trace::digits::decimal;
use crate::trace::fault::{Fault, Malformed};
use crate::trace::report::PassedOver;

/// How the lines of the closing summary begin.
const FOOTER: [&str; 14] = [
    "CPU",
    "Total",
    "Reads",
    "Read",
    "Writes",
    "Write",
    "PC ",
    "IO ",
    "Timer",
    "Throughput",
    "Events",
    "Skips",
    "Input",
    "Completed",
];

pub(super) fn parse(line: &[u8], wanted: u8) -> ParseResult<'_> {
    let (columns, count) = blanks::<10>(line);
    let [device, _, _, time, _, action, rwbs, sector, plus, length] = columns;
    if !is_device(device) {
        let text = line.trim_ascii_start();
        if FOOTER.iter().any(|start| text.starts_with(start.as_bytes())) {
            return Ok(Parsed::Passed(PassedOver::Footer));
        }
        return Err(Malformed::value(
            Fault::Columns,
            "column 1",
            device,
            "not a device (major,minor)",
        ));
    }
    if count < 7 {
        return Err(wrong(line, count, "at least 7 (device cpu sequence time pid action RWBS)"));
    }
    if action != [wanted] {
        return Ok(Parsed::Passed(PassedOver::OtherEvent));
    }
    let time = decimal(time, 9, "the time (column 4)")?;
    let has_sectors = plus == b"+" && length != b"0";
    let Some((flush_first, op)) = operation(rwbs)? else {
        return Ok(Parsed::Passed(PassedOver::OtherEvent));
    };
    let raw = |op, offset, length, flush_first| {
        Ok(Parsed::Request(Raw {
            time,
            volume: device,
            op,
            offset,
            length,
            latency_ns: None,
            flush_first,
        }))
    };
    if op == Op::Flush || (flush_first && !has_sectors) {
        return raw(Op::Flush, 0, 0, false);
    }
    if plus != b"+" {
        if [sector, plus].iter().any(|column| column.starts_with(b"(") || column.starts_with(b"["))
        {
            return Ok(Parsed::Passed(PassedOver::OtherEvent));
        }
        return Err(wrong(line, count, "\"sector + sectors\" after RWBS"));
    }
    raw(
        op,
        sectors(sector, "the sector (column 8)")?,
        sectors(length, "the count of sectors (column 10)")?,
        flush_first,
    )
}

/// Whether a flush goes first, and the operation; `None` if it moves nothing.
fn operation(rwbs: &[u8]) -> Result<Option<(bool, Op)>, Malformed> {
    let (flush_first, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let op = match rest {
        [b'W', b'Z', ..] => Op::WriteZeroes,
        [b'W', ..] => Op::Write,
        [b'R', ..] => Op::Read,
        [b'D', ..] => Op::Trim,
        [b'F', ..] => Op::Flush,
        [b'N', ..] if !flush_first => return Ok(None),
        _ if flush_first => Op::Flush,
        _ => return Err(unknown_op(rwbs, "RWBS (column 7)", "R, W, D, F, N with attributes")),
    };
    Ok(Some((flush_first, op)))
}

fn is_device(text: &[u8]) -> bool {
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    match memchr::memchr(b',', text) {
        Some(comma) => digits(&text[..comma]) && digits(&text[comma + 1..]),
        None => false,
    }
}

/// The first of `Q`, `D`, `C` that occurs in these lines as an action.
pub(crate) fn first_action(text: &[u8]) -> u8 {
    let occurs = |wanted: u8| {
        text.split(|byte| *byte == b'\n').any(|line| {
            let ([device, _, _, _, _, action], count) = blanks(line);
            count >= 7 && is_device(device) && action == [wanted]
        })
    };
    *b"QDC".iter().find(|wanted| occurs(**wanted)).unwrap_or(&b'Q')
}
