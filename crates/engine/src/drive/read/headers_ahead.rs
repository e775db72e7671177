//! Reads several of a segment's group headers at once.
//!
//! Only a header says where the next one is, so a walk along the chain would wait for each read. If
//! a segment's checksums are in memory, they show where headers are: a header has no checksum
//! there. That is only a hint: the walk checks each block as if it had just been read.

use std::collections::VecDeque;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_store::report::ReadPurpose;
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::read::checksums::Sums;

/// Header reads in flight at once.
const HEADERS_AHEAD: usize = 16;

/// A header read in flight.
type Reading = LocalBoxFuture<'static, Result<AlignedBuf, DeviceError>>;

/// See the module.
pub(crate) struct HeadersAhead<'a, D: Device, R: Runtime> {
    engine: &'a Engine<D, R>,
    purpose: ReadPurpose,
    start: Pba,
    end: u64,
    sums: Option<Sums>,
    /// Known headers before this offset have been requested.
    next: u64,
    reads: VecDeque<(u64, Reading)>,
}

impl<'a, D: Device, R: Runtime> HeadersAhead<'a, D, R> {
    /// Headers of a segment up to block `end`.
    pub fn new(engine: &'a Engine<D, R>, purpose: ReadPurpose, zone: ZoneId, end: u64) -> Self {
        let state = engine.state();
        let start = zone.start(state.info.zone_blocks);
        let sums = state.checksums.peek(zone).cloned();
        HeadersAhead { engine, purpose, start, end, sums, next: 0, reads: VecDeque::new() }
    }

    /// The result of the read at `offset`, which lies behind all offsets taken before; `None` if no
    /// header is known there.
    pub async fn take(&mut self, offset: u64) -> Option<Result<AlignedBuf, DeviceError>> {
        // Payload may have checksum 0, and blocks described by a lost header have none.
        while self.reads.front().is_some_and(|(at, _)| *at < offset) {
            self.reads.pop_front();
        }
        self.next = self.next.max(offset);
        while self.reads.len() < HEADERS_AHEAD
            && let Some(at) = self.sums.as_ref()?.first_without(self.next)
            && at < self.end
        {
            let buffer = self.engine.buffer(BLOCK_BYTES);
            let read = self.engine.read_device(self.purpose, self.start.plus(at), buffer);
            let reading = read.boxed_local();
            self.reads.push_back((at, reading));
            self.next = at + 1;
        }
        if self.reads.front()?.0 != offset {
            return None;
        }
        let (_, reading) = self.reads.pop_front()?;
        Some(reading.await)
    }
}
