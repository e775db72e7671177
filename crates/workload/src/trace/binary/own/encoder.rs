//! Encodes requests into frames.

use super::varint::{Scratch, amount, distance, zigzag};
use super::{Context, FrameHeader, FrameKind, MAX_FRAME_BYTES, tag};
use crate::trace::volumes::Volumes;
use crate::{MAX_ADDRESS, Op, Request, VolumeId};

/// Builds the frames of a recording, with no I/O: for a recorder that hands bytes to another
/// thread. [`TraceWriter`](crate::trace::TraceWriter) does the rest for whom a `Write` is enough.
///
/// ```
/// # use mjolnir_workload::{Op, Request, VolumeId, trace::{FrameEncoder, TraceHeader}};
/// # let request = Request { time: Default::default(), volume: VolumeId(0), op: Op::Flush,
/// #     offset: 0, length: 0, stream: None, latency: None };
/// let mut file = TraceHeader { start_unix_ns: None }.to_bytes().to_vec();
/// let mut frames = FrameEncoder::new();
/// frames.name(VolumeId(0), "database");
/// if frames.push(&request) {
///     frames.take(&mut file); // A frame is full.
/// }
/// frames.end(&mut file); // At the end; after a crash it is missing, and readers say so.
/// ```
#[derive(Debug, Default)]
pub struct FrameEncoder {
    payload: Vec<u8>,
    entries: u32,
    context: Context,
    requests_before: u64,
    names: Vec<u8>,
}

impl FrameEncoder {
    /// How full a frame gets before [`push`](Self::push) asks to take it, in bytes.
    pub const TARGET_BYTES: usize = 60 << 10;

    /// The encoder of a recording that is about to begin.
    pub fn new() -> Self {
        FrameEncoder { payload: Vec::with_capacity(Self::TARGET_BYTES + 64), ..Self::default() }
    }

    /// Names a volume. To be called before the volume's first request; a name that is longer than
    /// [`Volumes::MAX_NAME`] is cut.
    pub fn name(&mut self, volume: VolumeId, name: &str) {
        let name = &name[..name.floor_char_boundary(Volumes::MAX_NAME)];
        let mut scratch = Scratch::new();
        scratch.number(u64::from(volume.0));
        scratch.number(name.len() as u64);
        self.names.extend_from_slice(scratch.bytes());
        self.names.extend_from_slice(name.as_bytes());
    }

    /// Adds a request; `true` if the frame is now full and should be taken.
    ///
    /// Times may go back (a recorder may write what completed before what began), but readers
    /// raise or refuse such times as they are told to.
    ///
    /// # Panics
    ///
    /// If the request ends past [`MAX_ADDRESS`], or frames are never taken.
    #[inline]
    pub fn push(&mut self, request: &Request) -> bool {
        assert!(
            request.offset <= MAX_ADDRESS && request.length <= MAX_ADDRESS - request.offset,
            "a recorded request ends past 1 EiB"
        );
        let context = &mut self.context;
        let mut flags = request.op as u8;
        let mut scratch = Scratch::new();
        scratch.byte(0);
        scratch.number(zigzag(request.time.0.wrapping_sub(context.time_ns) as i64));
        context.time_ns = request.time.0;
        if request.volume.0 != context.volume {
            flags |= tag::VOLUME;
            scratch.number(u64::from(request.volume.0));
            context.volume = request.volume.0;
        }
        if request.stream != context.stream {
            flags |= tag::STREAM;
            scratch.number(request.stream.map_or(0, |stream| u64::from(stream) + 1));
            context.stream = request.stream;
        }
        if request.op != Op::Flush {
            if request.length != context.length {
                flags |= tag::LENGTH;
                scratch.number(amount(request.length));
                context.length = request.length;
            }
            if request.offset != context.end {
                flags |= tag::OFFSET;
                scratch.number(distance(request.offset as i64 - context.end as i64));
            }
            context.end = request.end();
        }
        if let Some(latency) = request.latency {
            flags |= tag::LATENCY;
            scratch.number(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
        self.payload.extend_from_slice(scratch.bytes());
        let start = self.payload.len() - scratch.bytes().len();
        self.payload[start] = flags;
        self.entries += 1;
        self.payload.len() >= Self::TARGET_BYTES
    }

    /// Requests in frames not yet taken.
    pub fn waiting(&self) -> u32 {
        self.entries
    }

    /// Appends what waits to `out`, as whole frames. A caller that wants little lost in a crash
    /// does so every second.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        let mut rest = std::mem::take(&mut self.names);
        while !rest.is_empty() {
            let (whole, count) = whole_names(&rest);
            put(out, FrameKind::Names, count, self.requests_before, &rest[..whole]);
            rest.drain(..whole);
        }
        if self.entries > 0 {
            put(out, FrameKind::Requests, self.entries, self.requests_before, &self.payload);
            self.requests_before += u64::from(self.entries);
            self.payload.clear();
            self.entries = 0;
            self.context = Context::default();
        }
    }

    /// Appends what waits, and the mark that says that the recording is whole.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.take(out);
        put(out, FrameKind::End, 0, self.requests_before, &[]);
    }
}

fn put(out: &mut Vec<u8>, kind: FrameKind, entries: u32, before: u64, payload: &[u8]) {
    out.extend_from_slice(&FrameHeader::new(kind, entries, before, payload).to_bytes());
    out.extend_from_slice(payload);
}

/// How many of these bytes are whole names that fit in one frame, and how many names.
fn whole_names(names: &[u8]) -> (usize, u32) {
    let (mut at, mut count) = (0, 0);
    loop {
        let mut next = at;
        let entry = super::varint::number(names, &mut next)
            .and_then(|_| super::varint::number(names, &mut next));
        match entry {
            Some(length) if next + length as usize <= MAX_FRAME_BYTES => {
                (at, count) = (next + length as usize, count + 1);
            }
            _ => return (at, count),
        }
    }
}
