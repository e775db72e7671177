//! Totals of requests.

use mjolnir_units::{BLOCK_SIZE, Instant};
use serde::Serialize;

use super::footprint::Footprint;
use crate::{Op, Request, VolumeId};

/// Requests and bytes of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpTotals {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Adds up requests, in bounded memory.
pub struct Summary {
    ops: [OpTotals; 5],
    first: Option<Instant>,
    last: Instant,
    /// End of the highest request of each volume, in bytes; the lowest offset of all.
    ends: Vec<u64>,
    lowest: Option<u64>,
    footprint: Footprint,
    unaligned: u64,
    streams: u64,
    /// Of each operation, how many requests have a latency, and their sum in nanoseconds.
    latencies: [(u64, u128); 5],
}

impl Default for Summary {
    fn default() -> Self {
        Summary::new()
    }
}

impl Summary {
    /// Chunks of 2 MiB up to which the footprint is exact.
    const CHUNKS: usize = 1 << 19;

    /// Nothing yet.
    pub fn new() -> Self {
        Summary {
            ops: [OpTotals::default(); 5],
            first: None,
            last: Instant(0),
            ends: Vec::new(),
            lowest: None,
            footprint: Footprint::new(Self::CHUNKS),
            unaligned: 0,
            streams: 0,
            latencies: [(0, 0); 5],
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        let totals = &mut self.ops[request.op.index()];
        totals.requests += 1;
        totals.bytes = totals.bytes.saturating_add(request.length);
        self.first.get_or_insert(request.time);
        self.last = self.last.max(request.time);
        self.streams += u64::from(request.stream.is_some());
        if let Some(latency) = request.latency {
            let (count, total_ns) = &mut self.latencies[request.op.index()];
            *count += 1;
            *total_ns += latency.as_nanos();
        }
        let volume = request.volume.0 as usize;
        if self.ends.len() <= volume {
            self.ends.resize(volume + 1, 0);
        }
        if request.op == Op::Flush {
            return;
        }
        self.ends[volume] = self.ends[volume].max(request.end());
        self.lowest = Some(self.lowest.map_or(request.offset, |low| low.min(request.offset)));
        let aligned = (request.offset | request.length).is_multiple_of(BLOCK_SIZE);
        self.unaligned += u64::from(!aligned);
        if matches!(request.op, Op::Read | Op::Write) {
            let is_write = request.op == Op::Write;
            self.footprint.add(request.volume, request.offset, request.length, is_write);
        }
    }

    /// Requests and bytes of an operation.
    pub fn op(&self, op: Op) -> OpTotals {
        self.ops[op.index()]
    }

    /// Requests of all operations.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|totals| totals.requests).sum()
    }

    /// From the first request to the last, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.first.map_or(0, |first| self.last.0 - first.0)
    }

    /// Volumes that occurred.
    pub fn volumes(&self) -> usize {
        self.ends.len()
    }

    /// Where the highest request of a volume ends, in bytes: what a device must hold at least.
    pub fn volume_end(&self, volume: VolumeId) -> u64 {
        self.ends.get(volume.0 as usize).copied().unwrap_or(0)
    }

    /// The highest end in bytes by volume, in the order of their numbers.
    pub fn volume_ends(&self) -> &[u64] {
        &self.ends
    }

    /// The lowest offset and the highest end of all requests, in bytes.
    pub fn address_span(&self) -> Option<(u64, u64)> {
        Some((self.lowest?, self.ends.iter().copied().max()?))
    }

    /// Distinct blocks of 4 KiB that were read or written.
    pub fn blocks_touched(&self) -> u64 {
        self.footprint.touched()
    }

    /// Distinct blocks of 4 KiB that were written.
    pub fn blocks_written(&self) -> u64 {
        self.footprint.written()
    }

    /// Whether those two are exact (else estimates, from about 1 TiB touched on).
    pub fn footprint_is_exact(&self) -> bool {
        self.footprint.is_exact()
    }

    /// Reads among reads and writes, 0 to 1.
    pub fn read_share(&self) -> Option<f64> {
        let (reads, writes) = (self.op(Op::Read).requests, self.op(Op::Write).requests);
        (reads + writes > 0).then(|| reads as f64 / (reads + writes) as f64)
    }

    /// Mean bytes of reads and writes.
    pub fn mean_bytes(&self) -> Option<u64> {
        let (reads, writes) = (self.op(Op::Read), self.op(Op::Write));
        (reads.bytes + writes.bytes).checked_div(reads.requests + writes.requests)
    }

    /// Requests whose offset or length is no multiple of 4 KiB.
    pub fn unaligned(&self) -> u64 {
        self.unaligned
    }

    /// Requests with a stream hint.
    pub fn hinted(&self) -> u64 {
        self.streams
    }

    /// Mean latency in nanoseconds of an operation's requests that have one.
    pub fn mean_latency_ns(&self, op: Op) -> Option<u64> {
        let (count, total_ns) = self.latencies[op.index()];
        total_ns.checked_div(u128::from(count)).map(|mean| mean as u64)
    }
}
