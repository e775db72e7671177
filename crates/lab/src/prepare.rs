//! A trace, made ready: addresses closed up to a drive that holds just what the trace touches.
//!
//! The rules, in order; what they did is told by [`Prepared::notes`].
//!
//! 1. One volume, if one is asked for; else all, one after the other.
//! 2. Reads and writes are widened to whole blocks of 4 KiB, trims narrowed. Writes of zeroes count
//!    as writes.
//! 3. The trace's beginning alone is taken if it is longer than the [`Limits`].
//! 4. Trims before the first write (`mkfs` makes them) are left out: looped, they would empty the
//!    drive again and again.
//! 5. Blocks that are neither read nor written are left out of the address space, and trims of
//!    them. So the drive is no larger than the trace's data.

use std::io::{Read, Write};

use mjolnir_units::{BLOCK_SIZE, ByteSize};
use mjolnir_workload::trace::{Format, TraceError, TraceReader, TraceWriter, Volumes};
use mjolnir_workload::{Op, Request, VolumeId};

/// How much of a trace is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests.
    pub requests: u64,
    /// Blocks of 4 KiB read or written.
    pub blocks: u64,
}

/// The fewest blocks that a drive must have for an answer to mean something (16 MiB).
pub(crate) const DRIVE_BLOCKS_MIN: u64 = 4096;
/// The fewest blocks that a trace must write.
const WRITTEN_BLOCKS_MIN: u64 = 1024;

/// A trace, made ready.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Blocks of the drive: those that the trace reads or writes.
    pub blocks: u64,
    /// Blocks that the trace writes.
    pub written_blocks: u64,
    /// Requests taken.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// From the first request to the last, in nanoseconds.
    pub span_ns: u64,
    /// What the rules did, in sentences.
    pub notes: Vec<String>,
    taken: Vec<Request>,
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It can, and is of no use.
    #[error("{0}")]
    Useless(String),
}

impl Prepared {
    /// Reads a trace to its end or to the limits.
    ///
    /// # Errors
    ///
    /// It cannot be read, has not that volume, writes nothing, or is too small to say anything.
    pub fn new<R: Read>(
        reader: &mut TraceReader<R>,
        volume: Option<&str>,
        limits: Limits,
    ) -> Result<Prepared, PrepareError> {
        let name = reader.report().trace.clone();
        let useless = |why: String| PrepareError::Useless(format!("{name}: {why}"));
        let mut gathered = Gathered::default();
        let mut reached = None;
        while let Some(request) = reader.next_request()? {
            let of = reader.volumes().name(request.volume);
            if volume.is_some() && volume != of {
                continue;
            }
            gathered.add(request);
            if gathered.requests.len() as u64 >= limits.requests {
                reached = Some(format!("{} requests", limits.requests));
                break;
            }
            if gathered.moved_blocks >= limits.blocks {
                reached = Some(ByteSize(limits.blocks * BLOCK_SIZE).to_string());
                break;
            }
        }
        if let Some(volume) = volume
            && gathered.requests.is_empty()
        {
            let names: Vec<&str> = reader.volumes().names().map(|(_, name)| name).collect();
            let hint = mjolnir_experiment::nearest_hint(volume, names);
            return Err(useless(format!("it has no requests to a volume {volume:?}{hint}")));
        }
        gathered.finish(reached).map_err(useless)
    }

    /// Writes it in our own format.
    ///
    /// # Errors
    ///
    /// What writing says.
    pub fn write<W: Write>(&self, out: W) -> std::io::Result<W> {
        let mut volumes = Volumes::new();
        volumes.intern(b"drive").expect("one short name fits");
        let mut writer = TraceWriter::new(out, Format::Mjolnir, None)?;
        for request in &self.taken {
            writer.write(request, &volumes)?;
        }
        let (out, _) = writer.finish()?;
        Ok(out)
    }

    /// Writes and trims: first block, and the one after the last.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Op, u32, u32)> {
        let steps = self.taken.iter().filter(|request| matches!(request.op, Op::Write | Op::Trim));
        let block = |bytes: u64| (bytes / BLOCK_SIZE) as u32;
        steps.map(move |step| (step.op, block(step.offset), block(step.end())))
    }

    /// How often the trace writes the whole drive.
    pub fn drive_writes(&self) -> f64 {
        self.written_blocks as f64 / self.blocks as f64
    }
}

/// Requests, in whole blocks.
#[derive(Default)]
struct Gathered {
    requests: Vec<Request>,
    moved_blocks: u64,
    written_blocks: u64,
    reads: u64,
    early_trims: u64,
    widened: u64,
    ends: Vec<u64>,
}

impl Gathered {
    fn add(&mut self, mut request: Request) {
        let volume = request.volume.0 as usize;
        if self.ends.len() <= volume {
            self.ends.resize(volume + 1, 0);
        }
        let (first, end) = match request.op {
            Op::Flush => (0, 0),
            Op::Trim => {
                let first = request.offset.div_ceil(BLOCK_SIZE);
                let end = request.end() / BLOCK_SIZE;
                if self.written_blocks == 0 {
                    self.early_trims += 1;
                    return;
                }
                if first >= end {
                    return;
                }
                (first, end)
            }
            _ => (request.offset / BLOCK_SIZE, request.end().div_ceil(BLOCK_SIZE)),
        };
        match request.op {
            Op::Read => self.reads += 1,
            Op::Write | Op::WriteZeroes => {
                request.op = Op::Write;
                self.written_blocks += end - first;
            }
            Op::Trim | Op::Flush => {}
        }
        if matches!(request.op, Op::Read | Op::Write) {
            self.moved_blocks += end - first;
            self.widened += u64::from(request.length != (end - first) * BLOCK_SIZE);
        }
        self.ends[volume] = self.ends[volume].max(end);
        (request.offset, request.length) = (first * BLOCK_SIZE, (end - first) * BLOCK_SIZE);
        self.requests.push(request);
    }

    fn finish(mut self, reached: Option<String>) -> Result<Prepared, String> {
        if self.written_blocks == 0 {
            return Err("it has no writes, so nothing ever has to be reclaimed and every policy \
                        does the same; take a trace with writes"
                .to_owned());
        }
        self.concatenate()?;
        let touched = Touched::of(&self.requests);
        let blocks = touched.blocks;
        if blocks < DRIVE_BLOCKS_MIN || self.written_blocks < WRITTEN_BLOCKS_MIN {
            return Err(format!(
                "it is too small for advice: it touches {} and writes {}, but at least {} and {} \
                 are needed; take a longer trace",
                ByteSize(blocks * BLOCK_SIZE),
                ByteSize(self.written_blocks * BLOCK_SIZE),
                ByteSize(DRIVE_BLOCKS_MIN * BLOCK_SIZE),
                ByteSize(WRITTEN_BLOCKS_MIN * BLOCK_SIZE),
            ));
        }
        let volumes = self.ends.iter().filter(|end| **end > 0).count();
        let first_ns = self.requests.first().map_or(0, |request| request.time.0);
        let mut taken = Vec::with_capacity(self.requests.len());
        for mut request in self.requests {
            request.time.0 -= first_ns;
            request.volume = VolumeId(0);
            (request.latency, request.stream) = (None, None);
            if request.op != Op::Flush {
                let first = touched.rank(request.offset / BLOCK_SIZE);
                let end = touched.rank(request.end() / BLOCK_SIZE);
                if first == end {
                    continue;
                }
                (request.offset, request.length) = (first * BLOCK_SIZE, (end - first) * BLOCK_SIZE);
            }
            taken.push(request);
        }
        let mut notes = Vec::new();
        notes.extend(reached.map(|limit| format!("of the trace, the first {limit} are taken")));
        if volumes > 1 {
            notes.push(format!("its {volumes} volumes lie one after the other"));
        }
        for (count, what) in [
            (self.widened, "requests were widened to whole blocks of 4 KiB"),
            (self.early_trims, "trims before the first write were left out"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        notes.push(format!(
            "the drive holds the {} that are read or written, and starts full of them",
            ByteSize(blocks * BLOCK_SIZE)
        ));
        Ok(Prepared {
            blocks,
            written_blocks: self.written_blocks,
            requests: taken.len() as u64,
            reads: self.reads,
            span_ns: taken.last().map_or(0, |request| request.time.0),
            notes,
            taken,
        })
    }

    /// Lays volumes one after the other.
    fn concatenate(&mut self) -> Result<(), String> {
        let mut end = 0u64;
        let mut starts = Vec::with_capacity(self.ends.len());
        for blocks in &self.ends {
            starts.push(end);
            let next = end.checked_add(*blocks);
            end = next.filter(|end| *end <= u64::MAX / BLOCK_SIZE).ok_or_else(|| {
                format!(
                    "its {} volumes are longer together than any address reaches; take a part of \
                     them",
                    self.ends.len()
                )
            })?;
        }
        for request in self.requests.iter_mut().filter(|request| request.op != Op::Flush) {
            request.offset += starts[request.volume.0 as usize] * BLOCK_SIZE;
        }
        Ok(())
    }
}

/// Which blocks are read or written: runs in order, each with how many such blocks lie before it.
struct Touched {
    /// First block, the one after the last, touched blocks before.
    runs: Vec<(u64, u64, u64)>,
    blocks: u64,
}

impl Touched {
    fn of(requests: &[Request]) -> Self {
        let moved = requests.iter().filter(|request| matches!(request.op, Op::Read | Op::Write));
        let mut extents: Vec<(u64, u64)> = moved
            .map(|request| (request.offset / BLOCK_SIZE, request.end() / BLOCK_SIZE))
            .collect();
        extents.sort_unstable();
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        let mut blocks = 0;
        for (first, end) in extents {
            match runs.last_mut() {
                Some((_, last, _)) if first <= *last => {
                    blocks += end.saturating_sub(*last);
                    *last = end.max(*last);
                }
                _ => {
                    runs.push((first, end, blocks));
                    blocks += end - first;
                }
            }
        }
        Touched { runs, blocks }
    }

    /// How many touched blocks lie before this one.
    fn rank(&self, block: u64) -> u64 {
        match self.runs.partition_point(|(first, _, _)| *first <= block) {
            0 => 0,
            after => {
                let (first, end, before) = self.runs[after - 1];
                before + block.min(end) - first
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_units::Instant;
    use mjolnir_workload::trace::ReadOptions;

    use super::*;

    fn request(op: Op, block: u64, blocks: u64) -> Request {
        Request {
            time: Instant(7),
            volume: VolumeId(0),
            op,
            offset: block * BLOCK_SIZE,
            length: blocks * BLOCK_SIZE,
            stream: None,
            latency: None,
        }
    }

    /// Made ready, and read again.
    /// Operation, first block, blocks.
    type Step = (Op, u64, u64);

    fn prepared(requests: &[Request]) -> Result<(Prepared, Vec<Step>), String> {
        let mut volumes = Volumes::new();
        for volume in 0..=requests.iter().map(|r| r.volume.0).max().unwrap_or(0) {
            volumes.intern(format!("v{volume}").as_bytes()).unwrap();
        }
        let mut writer = TraceWriter::new(Vec::new(), Format::Mjolnir, None).unwrap();
        requests.iter().for_each(|request| writer.write(request, &volumes).unwrap());
        let (bytes, _) = writer.finish().unwrap();
        let open = |bytes: Vec<u8>| {
            TraceReader::open(std::io::Cursor::new(bytes), "t", &ReadOptions::default()).unwrap()
        };
        let limits = Limits { requests: 1000, blocks: 1 << 20 };
        let prepared = Prepared::new(&mut open(bytes), None, limits);
        let prepared = prepared.map_err(|error| error.to_string())?;
        let mut reader = open(prepared.write(Vec::new()).unwrap());
        let mut told = Vec::new();
        while let Some(r) = reader.next_request().unwrap() {
            told.push((r.op, r.offset / BLOCK_SIZE, r.end() / BLOCK_SIZE));
        }
        Ok((prepared, told))
    }

    #[test]
    fn addresses_are_closed_up() {
        let (prepared, told) = prepared(&[
            request(Op::Trim, 0, 1 << 20),
            request(Op::Write, 1_000_000, 4096),
            request(Op::Read, 10, 2),
            request(Op::Trim, 0, 1_000_100),
            request(Op::Trim, 20, 5),
            request(Op::Write, 1_004_095, 2),
        ])
        .unwrap();
        assert_eq!(prepared.blocks, 4099);
        assert_eq!(
            told,
            [(Op::Write, 2, 4098), (Op::Read, 0, 2), (Op::Trim, 0, 102), (Op::Write, 4097, 4099)]
        );
        assert!(prepared.notes.iter().any(|note| note.starts_with("1 trims before")));
    }

    #[test]
    fn what_is_of_no_use_is_refused() {
        let why = prepared(&[request(Op::Read, 0, 8000)]).unwrap_err();
        assert!(why.contains("t: it has no writes"), "{why}");
        let why = prepared(&[request(Op::Write, 0, 4000)]).unwrap_err();
        assert!(why.contains("too small"), "{why}");
        let mut far: Vec<Request> =
            (0..40).map(|_| request(Op::Write, (1 << 48) - 8192, 4096)).collect();
        for (volume, request) in (0..).zip(&mut far) {
            request.volume = VolumeId(volume);
            request.offset |= 1 << 59;
        }
        let why = prepared(&far).unwrap_err();
        assert!(why.contains("40 volumes are longer together"), "{why}");
    }
}
