//! Reads requests from a trace of any format.

mod recording;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::Duration;

use mjolnir_units::Instant;

use super::binary::{own, vscsi};
use super::clock::{Clock, Tick};
use super::detect::{PROBE, detect};
use super::fault::{Fault, Malformed, Place, TraceError, TraceErrorKind};
use super::format::Format;
use super::input::{Compression, Input};
use super::options::{BadRecord, ReadOptions, TimeBack};
use super::report::{ReadReport, Tally};
use super::text::{Parsed, Parser, Raw, first_action};
use super::volumes::Volumes;
use super::window::{Line, Window};
use crate::{MAX_ADDRESS, MAX_LENGTH, Op, Request};
use recording::{Recording, Step};

/// The requests of a trace, one after the other.
///
/// Times never go back: a trace's that do are raised, skipped or refused as the options say.
/// Memory is bounded by a window on the trace and the names of its volumes.
pub struct TraceReader<R: Read> {
    window: Window<Input<R>>,
    source: Source,
    options: ReadOptions,
    clock: Clock,
    volumes: Volumes,
    report: ReadReport,
    /// What was read already: looked ahead at, or after a flush that was part of the same record.
    pending: VecDeque<Request>,
    done: bool,
}

enum Source {
    Text(Parser),
    Vscsi { record_bytes: usize },
    Recording(Box<Recording>),
}

/// What a record came to.
enum Outcome {
    Request(Request),
    Passed,
    End,
}

impl<R: Read> TraceReader<R> {
    /// Begins to read a trace, which errors and reports call `name`.
    ///
    /// # Errors
    ///
    /// If it is empty, if its format is not recognised or not the one that `options` name, or if
    /// reading fails.
    pub fn open(input: R, name: &str, options: &ReadOptions) -> Result<Self, TraceError> {
        let fail = |kind| TraceError { trace: name.to_owned(), place: Place::Whole, kind };
        let input = Input::open(input)
            .map_err(|error| fail(TraceErrorKind::Io(error)))?
            .map_err(|packed| fail(TraceErrorKind::Packed(packed)))?;
        let compression = input.compression();
        let mut window = Window::new(input);
        let head = window.peek(PROBE);
        if head.is_empty() {
            return Err(fail(match window.fill(1) {
                Ok(_) => TraceErrorKind::Empty,
                Err(error) => TraceErrorKind::Io(error),
            }));
        }
        let format = match options.format {
            Some(format) => format,
            None => detect(head).map_err(|looks| fail(TraceErrorKind::Unrecognised(looks)))?,
        };
        let mut notes = Vec::new();
        let action = options.blkparse_action.unwrap_or_else(|| first_action(head));
        if format == Format::Blkparse {
            notes.push(format!("requests are the events with action {}", char::from(action)));
        }
        if format == Format::DiskSim && detect(head) == Ok(Format::Millisecond) {
            notes.push("all numbers look like bytes: is the format `millisecond`?".to_owned());
        }
        let mut start_unix_ns = None;
        let source = match Parser::of(format, action) {
            Some(parser) => {
                if head.starts_with(b"\xef\xbb\xbf") {
                    window.consume(3);
                }
                Source::Text(parser)
            }
            None if format == Format::Mjolnir => {
                let not = |why| fail(TraceErrorKind::NotThe(format, why));
                let header = head
                    .first_chunk()
                    .ok_or_else(|| not("it is shorter than a header".to_owned()))?;
                let header = own::TraceHeader::from_bytes(header).map_err(not)?;
                start_unix_ns = header.start_unix_ns;
                window.consume(own::HEADER_BYTES);
                Source::Recording(Box::default())
            }
            None if format == Format::Vscsi2 => Source::Vscsi { record_bytes: vscsi::BYTES_2 },
            None => Source::Vscsi { record_bytes: vscsi::BYTES_1 },
        };
        let report = ReadReport {
            trace: name.to_owned(),
            format,
            detected: options.format.is_none(),
            compression,
            units: format.units(),
            first_time: None,
            start_unix_ns,
            records: 0,
            requests: 0,
            passed_over: Tally::new(),
            skipped: Tally::new(),
            examples: Vec::new(),
            times_raised: 0,
            raised_ns_max: 0,
            time_wraps: 0,
            cut: false,
            notes,
        };
        let wraps =
            matches!(format, Format::Vscsi1 | Format::Vscsi2 | Format::MqSim | Format::FioV3);
        let origin = (format == Format::Mjolnir).then_some(0);
        Ok(TraceReader {
            window,
            source,
            options: *options,
            clock: Clock::new(time_unit_ns(format), wraps, origin),
            volumes: Volumes::new(),
            report,
            pending: VecDeque::new(),
            done: false,
        })
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        self.report.format
    }

    /// The volumes that occurred so far.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// How it went so far.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// The next request; `None` at the end, and after an error.
    ///
    /// # Errors
    ///
    /// What is wrong and where, if the options say to stop at it, or if reading fails.
    pub fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        if let Some(request) = self.pending.pop_front() {
            self.report.requests += 1;
            return Ok(Some(request));
        }
        while !self.done {
            match self.record() {
                Ok(Outcome::Passed) => {}
                Ok(Outcome::End) => self.done = true,
                Ok(Outcome::Request(request)) => {
                    self.report.requests += 1;
                    return Ok(Some(request));
                }
                Err(error) => {
                    self.done = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Reads up to the first request without taking it, so that the report knows when the trace
    /// began.
    ///
    /// # Errors
    ///
    /// As [`next_request`](Self::next_request).
    pub fn look_ahead(&mut self) -> Result<&ReadReport, TraceError> {
        if self.pending.is_empty()
            && let Some(request) = self.next_request()?
        {
            self.report.requests -= 1;
            self.pending.push_front(request);
        }
        Ok(&self.report)
    }

    /// Reads the rest of the trace for its report alone.
    ///
    /// # Errors
    ///
    /// As [`next_request`](Self::next_request).
    pub fn read_to_end(&mut self) -> Result<(), TraceError> {
        while self.next_request()?.is_some() {}
        Ok(())
    }

    #[inline]
    fn record(&mut self) -> Result<Outcome, TraceError> {
        match &mut self.source {
            Source::Text(_) => self.line(),
            Source::Vscsi { record_bytes } => {
                let bytes = *record_bytes;
                self.vscsi(bytes)
            }
            Source::Recording(_) => self.recorded(),
        }
    }

    fn line(&mut self) -> Result<Outcome, TraceError> {
        let line = match self.window.line() {
            Ok(line) => line,
            Err(error) => return self.cannot_read(error),
        };
        let range = match line {
            Line::None => return Ok(Outcome::End),
            Line::Whole(range) => range,
            Line::Unended(range) => {
                let note = "the last line has no newline: it may be cut".to_owned();
                self.report.note(note);
                range
            }
            Line::TooLong => {
                self.report.records += 1;
                let bad = Malformed::new(Fault::LineLength, "the line is longer than 64 KiB");
                return self.bad(Place::Line(self.report.records), bad);
            }
        };
        self.report.records += 1;
        let Source::Text(parser) = &mut self.source else { unreachable!("lines are of text") };
        let admitted = match parser.parse(self.window.bytes(&range)) {
            Ok(Parsed::Request(raw)) => {
                admit(&raw, &mut self.clock, &mut self.volumes, &mut self.report, self.options)
            }
            Ok(Parsed::Passed(what)) => {
                self.report.passed_over.add(what);
                return Ok(Outcome::Passed);
            }
            Err(bad) => Err(bad),
        };
        self.take(admitted, Place::Line(self.report.records))
    }

    fn vscsi(&mut self, bytes: usize) -> Result<Outcome, TraceError> {
        let place = Place::Byte(self.window.position());
        let visible = match self.window.fill(bytes) {
            Ok(visible) => visible,
            Err(error) => return self.cannot_read(error),
        };
        let Some(record) = visible.get(..bytes) else {
            let rest = visible.len();
            self.window.consume(rest);
            if rest == 0 {
                return Ok(Outcome::End);
            }
            let what = format!("the last record has {rest} of {bytes} bytes");
            return self.bad(place, Malformed::new(Fault::Truncated, what));
        };
        self.report.records += 1;
        let parsed =
            if bytes == vscsi::BYTES_1 { vscsi::parse_1(record) } else { vscsi::parse_2(record) };
        self.window.consume(bytes);
        let admitted = match parsed {
            Ok(Parsed::Request(raw)) => {
                admit(&raw, &mut self.clock, &mut self.volumes, &mut self.report, self.options)
            }
            Ok(Parsed::Passed(what)) => {
                self.report.passed_over.add(what);
                return Ok(Outcome::Passed);
            }
            Err(bad) => Err(bad),
        };
        self.take(admitted, place)
    }

    fn recorded(&mut self) -> Result<Outcome, TraceError> {
        let Source::Recording(recording) = &mut self.source else { unreachable!("a recording") };
        let step = recording.step(&mut self.window, &mut self.volumes, &mut self.report);
        match step {
            Ok(Step::Entry { entry, volume, place }) => {
                let admitted =
                    admit_time(entry.time_ns, &mut self.clock, &mut self.report, self.options)
                        .and_then(|time| {
                            let Some(time) = time else { return Ok(None) };
                            let request = Request {
                                time,
                                volume,
                                op: entry.op,
                                offset: entry.offset,
                                length: entry.length,
                                stream: entry.stream,
                                latency: entry.latency,
                            };
                            check(request.op, request.offset, request.length)?;
                            Ok(Some((request, false)))
                        });
                self.take(admitted, place)
            }
            Ok(Step::Nothing) => Ok(Outcome::Passed),
            Ok(Step::End) => Ok(Outcome::End),
            Ok(Step::Bad(place, bad)) => self.bad(place, bad),
            Err(error) => self.cannot_read(error),
        }
    }

    /// What becomes of a record that was admitted or not; with a flush before it or not.
    #[inline]
    fn take(
        &mut self,
        admitted: Result<Option<(Request, bool)>, Malformed>,
        place: Place,
    ) -> Result<Outcome, TraceError> {
        match admitted {
            Ok(Some((request, false))) => Ok(Outcome::Request(request)),
            Ok(Some((request, true))) => {
                self.pending.push_back(request);
                let flush =
                    Request { op: Op::Flush, offset: 0, length: 0, latency: None, ..request };
                Ok(Outcome::Request(flush))
            }
            Ok(None) => Ok(Outcome::Passed),
            Err(bad) => self.bad(place, bad),
        }
    }

    #[cold]
    fn bad(&mut self, place: Place, bad: Malformed) -> Result<Outcome, TraceError> {
        let refused = match bad.fault {
            Fault::TimeBack => self.options.time_back == TimeBack::Refuse,
            _ => self.options.bad_record == BadRecord::Refuse,
        };
        if refused {
            return Err(self.error(place, TraceErrorKind::Malformed(bad)));
        }
        self.report.skip(place, bad);
        Ok(Outcome::Passed)
    }

    /// The input failed. Packed data that ends early or is damaged is a bad record of the trace.
    #[cold]
    fn cannot_read(&mut self, error: io::Error) -> Result<Outcome, TraceError> {
        let place = match self.source {
            Source::Text(_) => Place::Line(self.report.records + 1),
            _ => Place::Byte(self.window.position()),
        };
        let is_packed = self.report.compression != Compression::None;
        if !is_packed || error.raw_os_error().is_some() {
            return Err(self.error(place, TraceErrorKind::Io(error)));
        }
        let fault = match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Truncated,
            _ => Fault::Damaged,
        };
        let what = format!("the packed data is cut or damaged from here on ({error})");
        self.bad(place, Malformed::new(fault, what))?;
        Ok(Outcome::End)
    }

    fn error(&self, place: Place, kind: TraceErrorKind) -> TraceError {
        TraceError { trace: self.report.trace.clone(), place, kind }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_request().transpose()
    }
}

/// A raw request's volume, instant and limits. `None` if it is passed over; the flag says whether
/// a flush goes first.
#[inline]
fn admit(
    raw: &Raw<'_>,
    clock: &mut Clock,
    volumes: &mut Volumes,
    report: &mut ReadReport,
    options: ReadOptions,
) -> Result<Option<(Request, bool)>, Malformed> {
    check(raw.op, raw.offset, raw.length)?;
    let volume = volumes.intern(raw.volume)?;
    let Some(time) = admit_time(raw.time, clock, report, options)? else { return Ok(None) };
    let (offset, length) = if raw.op == Op::Flush { (0, 0) } else { (raw.offset, raw.length) };
    let request = Request {
        time,
        volume,
        op: raw.op,
        offset,
        length,
        stream: None,
        latency: raw.latency_ns.map(Duration::from_nanos),
    };
    Ok(Some((request, raw.flush_first)))
}

#[inline]
fn check(op: Op, offset: u64, length: u64) -> Result<(), Malformed> {
    if op == Op::Flush {
        return Ok(());
    }
    if length == 0 {
        return Err(Malformed::new(Fault::NoLength, format!("a {op} of no bytes")));
    }
    if length > MAX_LENGTH && matches!(op, Op::Read | Op::Write) {
        let what = format!("a {op} of {length} bytes: more than 1 GiB, taken for damage");
        return Err(Malformed::new(Fault::TooLarge, what));
    }
    if offset.checked_add(length).is_none_or(|end| end > MAX_ADDRESS) {
        let what = format!("a {op} of {length} bytes at {offset}: past 1 EiB, taken for damage");
        return Err(Malformed::new(Fault::TooLarge, what));
    }
    Ok(())
}

#[inline]
fn admit_time(
    time: u64,
    clock: &mut Clock,
    report: &mut ReadReport,
    options: ReadOptions,
) -> Result<Option<Instant>, Malformed> {
    match clock.tick(time) {
        Tick::At(instant) => {
            if report.first_time.is_none() {
                report.first_time = clock.first();
                report.start_unix_ns = report.start_unix_ns.or(unix_ns(report.format, time));
            }
            report.time_wraps = clock.wraps;
            Ok(Some(instant))
        }
        Tick::Back { by_ns, last } => {
            if options.time_back == TimeBack::Raise {
                report.times_raised += 1;
                report.raised_ns_max = report.raised_ns_max.max(by_ns);
                return Ok(Some(last));
            }
            let what = format!("the time goes back by {by_ns} ns from the request before");
            Err(Malformed::new(Fault::TimeBack, what))
        }
        Tick::OutOfRange => Err(Malformed::new(
            Fault::TooLarge,
            format!("the time {time} is centuries after the first: taken for damage"),
        )),
    }
}

/// Nanoseconds in the unit of [`Raw::time`].
fn time_unit_ns(format: Format) -> u64 {
    match format {
        Format::Msr => 100,
        Format::FioV2 | Format::FioV3 | Format::Vscsi1 | Format::Vscsi2 | Format::Alibaba => 1_000,
        Format::Tencent => 1_000_000_000,
        // Decimals are parsed to nanoseconds.
        Format::Mjolnir
        | Format::Millisecond
        | Format::Spc
        | Format::Blkparse
        | Format::DiskSim
        | Format::MqSim
        | Format::Systor => 1,
    }
}

/// A time of the format in nanoseconds since 1970, if the format counts from a known date.
fn unix_ns(format: Format, time: u64) -> Option<u64> {
    /// 1970 in units of 100 ns since 1601.
    const UNIX_EPOCH_FILETIME: u64 = 116_444_736_000_000_000;
    match format {
        Format::Msr => time.checked_sub(UNIX_EPOCH_FILETIME)?.checked_mul(100),
        Format::Alibaba | Format::Tencent | Format::Systor => {
            time.checked_mul(time_unit_ns(format))
        }
        _ => None,
    }
}
