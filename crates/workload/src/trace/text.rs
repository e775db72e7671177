//! The text formats, one file each.
//!
//! A parser turns a line into a [`Raw`] request in bytes and the trace's own time, or names the
//! fault. The reader handles what all formats share (limits, clocks, volumes).

mod alibaba;
mod blkparse;
mod disksim;
mod fio;
mod millisecond;
mod mqsim;
mod msr;
mod spc;
mod systor;
mod tencent;

pub(crate) use blkparse::first_action;

use super::digits;
use super::fault::{Fault, Malformed};
use super::format::Format;
use super::report::PassedOver;
use crate::Op;

/// Bytes in a sector, where a format counts sectors.
pub(crate) const SECTOR: u64 = 512;

/// A request as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw<'a> {
    /// In the format's own unit.
    pub time: u64,
    pub volume: &'a [u8],
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub latency_ns: Option<u64>,
    /// Whether a flush goes before it.
    pub flush_first: bool,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    Request(Raw<'a>),
    Passed(PassedOver),
}

pub(crate) type ParseResult<'a> = Result<Parsed<'a>, Malformed>;

/// The parser of one format, with what it remembers between lines.
pub(crate) enum Parser {
    Alibaba,
    Blkparse { action: u8 },
    DiskSim,
    Fio(fio::Fio),
    Millisecond,
    MqSim,
    Msr,
    Spc,
    Systor,
    Tencent,
}

impl Parser {
    /// The parser of a format; `None` if it is a binary one.
    pub(crate) fn of(format: Format, blkparse_action: u8) -> Option<Self> {
        Some(match format {
            Format::Mjolnir | Format::Vscsi1 | Format::Vscsi2 => return None,
            Format::Alibaba => Parser::Alibaba,
            Format::Blkparse => Parser::Blkparse { action: blkparse_action },
            Format::DiskSim => Parser::DiskSim,
            Format::FioV2 => Parser::Fio(fio::Fio::version_2()),
            Format::FioV3 => Parser::Fio(fio::Fio::version_3()),
            Format::Millisecond => Parser::Millisecond,
            Format::MqSim => Parser::MqSim,
            Format::Msr => Parser::Msr,
            Format::Spc => Parser::Spc,
            Format::Systor => Parser::Systor,
            Format::Tencent => Parser::Tencent,
        })
    }

    /// What a line is.
    #[inline]
    pub(crate) fn parse<'a>(&mut self, line: &'a [u8]) -> ParseResult<'a> {
        if matches!(line.first(), None | Some(b'#')) || line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Parsed::Passed(PassedOver::Blank));
        }
        match self {
            Parser::Alibaba => alibaba::parse(line),
            Parser::Blkparse { action } => blkparse::parse(line, *action),
            Parser::DiskSim => disksim::parse(line),
            Parser::Fio(fio) => fio.parse(line),
            Parser::Millisecond => millisecond::parse(line),
            Parser::MqSim => mqsim::parse(line),
            Parser::Msr => msr::parse(line),
            Parser::Spc => spc::parse(line),
            Parser::Systor => systor::parse(line),
            Parser::Tencent => tencent::parse(line),
        }
    }
}

/// A number of sectors, in bytes.
#[inline]
pub(crate) fn sectors(text: &[u8], column: &str) -> Result<u64, Malformed> {
    digits::whole(text, column)?.checked_mul(SECTOR).ok_or_else(|| {
        Malformed::value(Fault::TooLarge, column, text, "more sectors than 64 bits of bytes hold")
    })
}

/// The column that says read or write holds something else.
#[cold]
fn unknown_op(value: &[u8], column: &str, known: &str) -> Malformed {
    Malformed::value(Fault::Operation, column, value, &format!("not one of {known}"))
}

/// The format `R` or `W`, in either case.
#[inline]
fn read_or_write(value: &[u8], column: &str) -> Result<Op, Malformed> {
    match value {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        _ => Err(unknown_op(value, column, "R, W")),
    }
}

/// Whether the line names columns: it begins with this word.
fn is_header(line: &[u8], word: &str) -> bool {
    line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}
