//! Prints requests as lines of the text formats.

use super::format::Format;
use crate::Op;

/// 1970 in units of 100 ns since 1601.
pub(crate) const UNIX_EPOCH_FILETIME: u64 = 116_444_736_000_000_000;

/// A request as a target can hold it.
pub(crate) struct Fields<'a> {
    /// Since the trace's start.
    pub time_ns: u64,
    /// The start, in nanoseconds since 1970; 0 if it is not known.
    pub start_unix_ns: u64,
    pub volume: &'a [u8],
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub latency_ns: Option<u64>,
    /// Counted from 1.
    pub sequence: u64,
}

/// Appends the line. The format can hold the request, and is a text format.
pub(crate) fn line(out: &mut Vec<u8>, format: Format, fields: &Fields<'_>) {
    let is_read = fields.op == Op::Read;
    let unix_ns = fields.start_unix_ns.saturating_add(fields.time_ns);
    let flag = if is_read { 1 } else { 0 };
    let letter: &[u8] = if is_read { b"R" } else { b"W" };
    match format {
        Format::Mjolnir | Format::Vscsi1 | Format::Vscsi2 => unreachable!("no text format"),
        Format::FioV2 => fio(out, fields),
        Format::FioV3 => {
            whole(out, fields.time_ns / 1_000);
            out.push(b' ');
            fio(out, fields);
        }
        Format::Msr => {
            whole(out, UNIX_EPOCH_FILETIME + unix_ns / 100);
            put(out, &[b",", fields.volume, b",", if is_read { b"Read" } else { b"Write" }]);
            comma_wholes(out, &[fields.offset, fields.length]);
            comma_wholes(out, &[fields.latency_ns.unwrap_or(0) / 100]);
        }
        Format::Millisecond => {
            decimal(out, fields.time_ns, 6);
            put(out, &[b" ", fields.volume]);
            blank_wholes(out, &[fields.offset, fields.length, flag]);
        }
        Format::DiskSim => {
            decimal(out, fields.time_ns, 6);
            put(out, &[b" ", fields.volume]);
            blank_wholes(out, &[fields.offset / 512, fields.length / 512, flag]);
        }
        Format::MqSim => {
            whole(out, fields.time_ns);
            put(out, &[b" ", fields.volume]);
            blank_wholes(out, &[fields.offset / 512, fields.length / 512, flag]);
        }
        Format::Spc => {
            put(out, &[fields.volume]);
            comma_wholes(out, &[fields.offset / 512, fields.length]);
            put(out, &[b",", letter.to_ascii_lowercase().as_slice(), b","]);
            decimal(out, fields.time_ns, 9);
        }
        Format::Alibaba => {
            put(out, &[fields.volume, b",", letter]);
            comma_wholes(out, &[fields.offset, fields.length, unix_ns / 1_000]);
        }
        Format::Tencent => {
            whole(out, unix_ns / 1_000_000_000);
            comma_wholes(out, &[fields.offset / 512, fields.length / 512, 1 - flag]);
            put(out, &[b",", fields.volume]);
        }
        Format::Systor => {
            decimal(out, unix_ns, 9);
            out.push(b',');
            if let Some(latency) = fields.latency_ns {
                decimal(out, latency, 9);
            }
            put(out, &[b",", letter, b",", fields.volume]);
            comma_wholes(out, &[fields.offset, fields.length]);
        }
        Format::Blkparse => blkparse(out, fields),
    }
    out.push(b'\n');
}

fn fio(out: &mut Vec<u8>, fields: &Fields<'_>) {
    let action: &[u8] = match fields.op {
        Op::Read => b"read",
        Op::Write => b"write",
        Op::Trim => b"trim",
        Op::Flush => b"sync",
        Op::WriteZeroes => unreachable!("fio's logs hold none"),
    };
    put(out, &[fields.volume, b" ", action]);
    blank_wholes(out, &[fields.offset, fields.length]);
}

/// A line about a file, not a request.
pub(crate) fn fio_file(out: &mut Vec<u8>, format: Format, time_ns: u64, file: &[u8], what: &[u8]) {
    if format == Format::FioV3 {
        whole(out, time_ns / 1_000);
        out.push(b' ');
    }
    put(out, &[file, b" ", what, b"\n"]);
}

fn blkparse(out: &mut Vec<u8>, fields: &Fields<'_>) {
    put(out, &[b"  ", fields.volume, b"    0"]);
    blank_wholes(out, &[fields.sequence]);
    out.push(b' ');
    decimal(out, fields.time_ns, 9);
    let rwbs: &[u8] = match fields.op {
        Op::Read => b"R",
        Op::Write => b"W",
        Op::Trim => b"D",
        Op::Flush => b"FWS",
        Op::WriteZeroes => unreachable!("written as no other kind"),
    };
    put(out, &[b"     0  Q ", rwbs]);
    if fields.op != Op::Flush {
        blank_wholes(out, &[fields.offset / 512]);
        out.extend_from_slice(b" +");
        blank_wholes(out, &[fields.length / 512]);
    }
    out.extend_from_slice(b" [mjolnir]");
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn comma_wholes(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        out.push(b',');
        whole(out, *value);
    }
}

fn blank_wholes(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        out.push(b' ');
        whole(out, *value);
    }
}

/// Appends a number.
pub(crate) fn whole(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `value` / 10^`places` with all its places.
fn decimal(out: &mut Vec<u8>, value: u64, places: u32) {
    let unit = 10u64.pow(places);
    whole(out, value / unit);
    out.push(b'.');
    let mut weight = unit / 10;
    while weight > 0 {
        out.push(b'0' + (value / weight % 10) as u8);
        weight /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_the_standard_library_does() {
        for value in [0, 1, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            whole(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
        let mut out = Vec::new();
        decimal(&mut out, 1_002_003_004, 9);
        assert_eq!(out, b"1.002003004");
    }
}
