//! Writes requests in the writable formats, and counts losses.

mod labels;
mod losses;

use std::io::{self, Write};

use super::binary::own::{FrameEncoder, TraceHeader};
use super::format::{Abilities, Format};
use super::print::{self, Fields};
use super::volumes::Volumes;
use crate::{Op, Request};
use labels::Labels;
pub use losses::Losses;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;

/// Writes a trace.
///
/// What the format cannot hold is left out, rounded or renamed, and counted in [`Losses`]. In our
/// own format nothing is lost.
pub struct TraceWriter<W: Write> {
    out: W,
    format: Format,
    can: Abilities,
    start_unix_ns: u64,
    buffer: Vec<u8>,
    frames: FrameEncoder,
    labels: Labels,
    losses: Losses,
    written: u64,
    last_ns: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// `start_unix_ns` is when it began, in nanoseconds since 1970 (UTC). Formats that count from a
    /// date count from 1970 if it is not known; formats that do not, leave it out.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] for a format that is only read, or what writing says.
    pub fn new(out: W, format: Format, start_unix_ns: Option<u64>) -> io::Result<Self> {
        let can = format.abilities();
        if !can.written {
            let why = format!("format {format} can be read but not written: choose another");
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let mut buffer = Vec::with_capacity(BUFFER + 4096);
        match format {
            Format::Mjolnir => {
                buffer.extend_from_slice(&TraceHeader { start_unix_ns }.to_bytes());
            }
            Format::FioV2 => buffer.extend_from_slice(b"fio version 2 iolog\n"),
            Format::FioV3 => buffer.extend_from_slice(b"fio version 3 iolog\n"),
            Format::Systor => {
                buffer.extend_from_slice(b"Timestamp,Response,IOType,LUN,Offset,Size\n");
            }
            _ => {}
        }
        Ok(TraceWriter {
            out,
            format,
            can,
            start_unix_ns: start_unix_ns.unwrap_or(0),
            buffer,
            frames: FrameEncoder::new(),
            labels: Labels::new(format),
            losses: Losses::default(),
            written: 0,
            last_ns: 0,
        })
    }

    /// Writes a request to one of `volumes`.
    ///
    /// # Errors
    ///
    /// What writing says.
    pub fn write(&mut self, request: &Request, volumes: &Volumes) -> io::Result<()> {
        if self.format == Format::Mjolnir {
            return self.record(request, volumes);
        }
        if !self.holds(request.op) {
            return Ok(());
        }
        let known = self.labels.len();
        let index = self.labels.of(request.volume, volumes, &mut self.losses);
        let time_ns = request.time.0;
        self.last_ns = time_ns;
        if index >= known && matches!(self.format, Format::FioV2 | Format::FioV3) {
            let file = self.labels.get(index);
            print::fio_file(&mut self.buffer, self.format, time_ns, file, b"add");
            print::fio_file(&mut self.buffer, self.format, time_ns, file, b"open");
        }
        self.count_time(time_ns);
        let (offset, length) = self.rounded(request);
        let latency_ns = self.latency(request);
        self.losses.streams += u64::from(request.stream.is_some());
        self.written += 1;
        let fields = Fields {
            time_ns,
            start_unix_ns: self.start_unix_ns,
            volume: self.labels.get(index),
            op: request.op,
            offset,
            length,
            latency_ns,
            sequence: self.written,
        };
        print::line(&mut self.buffer, self.format, &fields);
        self.drain(BUFFER)
    }

    fn record(&mut self, request: &Request, volumes: &Volumes) -> io::Result<()> {
        if self.labels.first_sight(request.volume) {
            let unnamed = format!("volume {}", request.volume.0);
            self.frames.name(request.volume, volumes.name(request.volume).unwrap_or(&unnamed));
        }
        self.written += 1;
        if self.frames.push(request) {
            self.frames.take(&mut self.buffer);
        }
        self.drain(BUFFER)
    }

    /// Whether the format has the operation; counts the request as lost if not.
    fn holds(&mut self, op: Op) -> bool {
        let (held, lost) = match op {
            Op::Read | Op::Write => return true,
            Op::Trim => (self.can.trims, &mut self.losses.trims),
            Op::Flush => (self.can.flushes, &mut self.losses.flushes),
            Op::WriteZeroes => (self.can.zeroes, &mut self.losses.zeroes),
        };
        *lost += u64::from(!held);
        held
    }

    fn count_time(&mut self, time_ns: u64) {
        // The unit counts from the epoch, not from the trace's start.
        let from_epoch = self.start_unix_ns.wrapping_add(time_ns);
        let time_ns = match self.format {
            Format::Msr | Format::Alibaba | Format::Tencent | Format::Systor => from_epoch,
            _ => time_ns,
        };
        match self.can.time_unit_ns {
            0 => self.losses.times_left_out += 1,
            unit => self.losses.times_rounded += u64::from(!time_ns.is_multiple_of(unit)),
        }
    }

    /// Widened to the format's units.
    fn rounded(&mut self, request: &Request) -> (u64, u64) {
        let offset = request.offset / self.can.address_unit * self.can.address_unit;
        let length = (request.end() - offset).next_multiple_of(self.can.length_unit);
        let changed = (offset, length) != (request.offset, request.length);
        self.losses.addresses_rounded += u64::from(changed);
        (offset, length)
    }

    fn latency(&mut self, request: &Request) -> Option<u64> {
        let latency = request.latency.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        match (self.can.latency_unit_ns, latency) {
            (0, Some(_)) => self.losses.latencies += 1,
            (0, None) => {}
            (unit, Some(ns)) => {
                self.losses.latencies_rounded += u64::from(!ns.is_multiple_of(unit))
            }
            (_, None) => {
                self.losses.latencies_unknown += u64::from(self.format == Format::Msr);
            }
        }
        latency
    }

    /// Requests written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What was lost so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Hands all requests so far to the output, in our own format as a whole frame, and flushes
    /// the output.
    ///
    /// # Errors
    ///
    /// What writing says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.frames.take(&mut self.buffer);
        self.drain(0)?;
        self.out.flush()
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// What writing says.
    pub fn finish(mut self) -> io::Result<(W, Losses)> {
        match self.format {
            Format::Mjolnir => self.frames.end(&mut self.buffer),
            Format::FioV2 | Format::FioV3 => {
                for file in self.labels.all() {
                    print::fio_file(&mut self.buffer, self.format, self.last_ns, file, b"close");
                }
            }
            _ => {}
        }
        self.drain(0)?;
        self.out.flush()?;
        Ok((self.out, self.losses))
    }

    fn drain(&mut self, above: usize) -> io::Result<()> {
        if self.buffer.len() > above {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
