//! A segment's group headers, read several at once.
//!
//! Only a header says where the next one is, so that a walk along the chain would wait for each. Where a
//! segment's checksums are in memory, they tell where headers are: these have none there. That is a hint
//! and no more: whoever walks looks at what was read as if it had been read then.

use std::collections::VecDeque;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_store::report::ReadPurpose;
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::read::checksums::Sums;

/// Headers that are on their way at once.
const HEADERS_AHEAD: usize = 16;

/// A header, or an error in its place, on its way.
type Reading = LocalBoxFuture<'static, Result<AlignedBuf, DeviceError>>;

/// See the module.
pub(crate) struct HeadersAhead<'a, D: Device, R: Runtime> {
    engine: &'a Engine<D, R>,
    purpose: ReadPurpose,
    start: Pba,
    end: u64,
    sums: Option<Sums>,
    /// Headers before this offset were asked for, as far as they are known.
    next: u64,
    reads: VecDeque<(u64, Reading)>,
}

impl<'a, D: Device, R: Runtime> HeadersAhead<'a, D, R> {
    /// Those of a segment up to block `end`.
    pub fn new(engine: &'a Engine<D, R>, purpose: ReadPurpose, zone: ZoneId, end: u64) -> Self {
        let state = engine.state();
        let start = zone.start(state.info.zone_blocks);
        let sums = state.checksums.peek(zone).cloned();
        HeadersAhead { engine, purpose, start, end, sums, next: 0, reads: VecDeque::new() }
    }

    /// What was read at an offset, which lies behind those asked for before; none if it is not one of
    /// those known.
    pub async fn take(&mut self, offset: u64) -> Option<Result<AlignedBuf, DeviceError>> {
        // Payload may have the sum 0, and what a lost header described has none.
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
