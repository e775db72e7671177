//! fio's iologs, version 2 (`file action [offset length]`) and 3 (`time file action [offset
//! length]`).
//!
//! Offsets and lengths in bytes. In version 3 the time is in microseconds since the log began,
//! which is what fio writes. Version 2 has no times; its `wait` lines wait for microseconds, each
//! counted from the wait before, as fio's manual has it.

use super::{ParseResult, Parsed, Raw, unknown_op};
use crate::Op;
use crate::trace::columns::{blanks, wrong};
use crate::trace::digits::whole;
use crate::trace::fault::{Fault, Malformed};
use crate::trace::report::PassedOver;

pub(crate) const HEADER_2: &[u8] = b"fio version 2 iolog";
pub(crate) const HEADER_3: &[u8] = b"fio version 3 iolog";

pub(crate) struct Fio {
    timed: bool,
    waited_us: u64,
}

impl Fio {
    pub(super) fn version_2() -> Self {
        Fio { timed: false, waited_us: 0 }
    }

    pub(super) fn version_3() -> Self {
        Fio { timed: true, waited_us: 0 }
    }

    pub(super) fn parse<'a>(&mut self, line: &'a [u8]) -> ParseResult<'a> {
        if self.timed {
            if line.starts_with(HEADER_3) {
                return Ok(Parsed::Passed(PassedOver::Header));
            }
            let (columns, count) = blanks::<5>(line);
            let time = whole(columns[0], "the time (column 1)")?;
            let rest = [columns[1], columns[2], columns[3], columns[4]];
            return self.action(line, time, rest, count - 1);
        }
        if line.starts_with(HEADER_2) {
            return Ok(Parsed::Passed(PassedOver::Header));
        }
        let (columns, count) = blanks::<4>(line);
        self.action(line, self.waited_us, columns, count)
    }

    fn action<'a>(
        &mut self,
        line: &'a [u8],
        time: u64,
        [file, action, offset, length]: [&'a [u8]; 4],
        count: usize,
    ) -> ParseResult<'a> {
        let extra = usize::from(self.timed);
        let columns = |wanted| Err(wrong(line, count + extra, wanted));
        let op = match action {
            b"add" | b"open" | b"close" | b"unlink" => {
                return match count {
                    2 => Ok(Parsed::Passed(PassedOver::FileAction)),
                    _ if self.timed => columns("3 (time file action)"),
                    _ => columns("2 (file action)"),
                };
            }
            b"wait" if !self.timed => {
                let us = whole(offset, "the time to wait (column 3)")?;
                self.waited_us = self.waited_us.checked_add(us).ok_or_else(|| {
                    Malformed::value(Fault::TooLarge, "the time to wait", offset, "too long")
                })?;
                return Ok(Parsed::Passed(PassedOver::FileAction));
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            [] => return columns("at least 2 (file action)"),
            _ => {
                let known = "add, open, close, read, write, trim, sync, datasync";
                return Err(unknown_op(action, "the action", known));
            }
        };
        let (offset, length) = match (op, count) {
            (Op::Flush, 2..=4) => (0, 0),
            (_, 4) => (whole(offset, "the offset")?, whole(length, "the length")?),
            _ if self.timed => return columns("5 (time file action offset length)"),
            _ => return columns("4 (file action offset length)"),
        };
        Ok(Parsed::Request(Raw {
            time,
            volume: file,
            op,
            offset,
            length,
            latency_ns: None,
            flush_first: false,
        }))
    }
}
