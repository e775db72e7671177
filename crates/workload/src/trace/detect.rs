//! Recognises a format by content.

use super::binary::{own, vscsi};
use super::fault::quoted;
use super::format::Format;
use super::text::{Parsed, Parser, first_action};

/// How much of a trace is looked at, in bytes.
pub(crate) const PROBE: usize = 64 << 10;
/// How many lines of it.
const LINES: usize = 200;

/// The formats with a shape of their own, which their parsers tell apart.
const BY_PARSING: [Format; 7] = [
    Format::Msr,
    Format::Blkparse,
    Format::Spc,
    Format::Systor,
    Format::Alibaba,
    Format::Tencent,
    Format::DiskSim,
];

/// The format of a trace, from its first bytes (unpacked; 64 KiB are enough).
///
/// Our own format, fio's and VMware's are known by their headers and structure. Of the others,
/// that one is taken which parses most of the first 200 lines, and at least half. The three formats
/// of five columns between blanks are told apart so: MQSim's times are whole numbers, the others
/// have decimals; then, if all offsets and sizes are multiples of 512, they are bytes
/// ([`Format::Millisecond`]), else sectors ([`Format::DiskSim`]).
///
/// # Errors
///
/// What the trace looks like instead.
pub fn detect(head: &[u8]) -> Result<Format, String> {
    if head.starts_with(&own::MAGIC) {
        return Ok(Format::Mjolnir);
    }
    if head.starts_with(b"fio version 2 iolog") {
        return Ok(Format::FioV2);
    }
    if head.starts_with(b"fio version 3 iolog") {
        return Ok(Format::FioV3);
    }
    if let Some(format) = vscsi::recognise(head) {
        return Ok(format);
    }
    if head.get(257..262) == Some(b"ustar") {
        return Err("a tar archive: extract the trace from it".to_owned());
    }
    if head.starts_with(b"fio version 1") {
        return Err("fio's iolog version 1, which is not supported".to_owned());
    }
    if head.iter().take(512).any(|byte| *byte == 0) {
        return Err(format!(
            "binary data that begins with the bytes {:02x?}",
            &head[..head.len().min(8)]
        ));
    }
    text(head)
}

fn text(head: &[u8]) -> Result<Format, String> {
    let whole = match memchr::memrchr(b'\n', head) {
        Some(last) if head.len() >= PROBE => &head[..last],
        _ => head,
    };
    let lines = || {
        whole
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
            .take(LINES)
    };
    let total = lines().count();
    let best = BY_PARSING
        .iter()
        .map(|format| (requests(*format, whole, lines()), *format))
        .filter(|((requests, fitting), _)| *requests > 0 && *fitting * 2 >= total)
        .max_by_key(|((_, fitting), _)| *fitting);
    match best {
        Some((_, Format::DiskSim)) => Ok(of_five_columns(lines())),
        Some((_, format)) => Ok(format),
        None => match lines().next() {
            Some(line) => Err(format!("text that begins with {}", quoted(line))),
            None => Err("blank lines".to_owned()),
        },
    }
}

/// How many of the lines are requests of the format, and how many belong to it.
fn requests<'a>(
    format: Format,
    text: &[u8],
    lines: impl Iterator<Item = &'a [u8]>,
) -> (usize, usize) {
    let mut parser = Parser::of(format, first_action(text)).expect("a text format");
    let (mut requests, mut fitting) = (0, 0);
    for line in lines {
        match parser.parse(line) {
            Ok(Parsed::Request(_)) => (requests, fitting) = (requests + 1, fitting + 1),
            Ok(Parsed::Passed(_)) => fitting += 1,
            Err(_) => {}
        }
    }
    (requests, fitting)
}

/// Which of the formats with five columns between blanks.
fn of_five_columns<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Format {
    let mut in_bytes = true;
    let mut decimals = false;
    for line in lines {
        if let Ok(Parsed::Request(raw)) = Parser::DiskSim.parse(line) {
            decimals |=
                line.trim_ascii_start().iter().take_while(|b| **b > b' ').any(|b| *b == b'.');
            // DiskSim's parser took them for sectors.
            in_bytes &= (raw.offset / 512) % 512 == 0 && (raw.length / 512) % 512 == 0;
        }
    }
    match (decimals, in_bytes) {
        (false, _) => Format::MqSim,
        (true, true) => Format::Millisecond,
        (true, false) => Format::DiskSim,
    }
}
