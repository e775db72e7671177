//! A segment's group headers, read several at once.
//!
//! Only a header says where the next one is, so that a walk along the chain would wait for each. Where a
//! segment's checksums are in memory, they tell where headers are: these have none there. That is a hint
//! and no more: whoever walks looks at what was read as if it had been read then.

use std::collections::VecDeque;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

use crate::engine::Engine;

/// Headers that are on their way at once.
const HEADERS_AHEAD: usize = 16;

/// A header, or an error in its place, on its way.
type Reading = LocalBoxFuture<'static, Result<AlignedBuf, DeviceError>>;

/// See the module.
pub(crate) struct HeadersAhead<'a, D: Device, R: Runtime> {
    engine: &'a Engine<D, R>,
    start: Pba,
    /// Offsets at which headers are, as far as is known, of which none was asked for yet.
    rest: std::vec::IntoIter<u64>,
    reads: VecDeque<(u64, Reading)>,
}

impl<'a, D: Device, R: Runtime> HeadersAhead<'a, D, R> {
    /// Those of a segment up to block `end`.
    pub fn new(engine: &'a Engine<D, R>, zone: ZoneId, end: u64) -> Self {
        let mut state = engine.state();
        let start = zone.start(state.info.zone_blocks);
        let sums = state.checksums.get(zone).and_then(|sums| sums.get(0..end));
        // The first block is the segment's own header.
        let offsets = sums.into_iter().flatten().enumerate().skip(1);
        let offsets: Vec<u64> =
            offsets.filter(|(_, sum)| **sum == 0).map(|(at, _)| at as u64).collect();
        HeadersAhead { engine, start, rest: offsets.into_iter(), reads: VecDeque::new() }
    }

    /// What was read at an offset, which lies behind those asked for before; none if it is not one of
    /// those known.
    pub async fn take(&mut self, offset: u64) -> Option<Result<AlignedBuf, DeviceError>> {
        // A block of payload may have the sum 0, too.
        while self.reads.front().is_some_and(|(at, _)| *at < offset) {
            self.reads.pop_front();
        }
        let later = self.rest.by_ref().filter(|at| *at >= offset);
        for at in later.take(HEADERS_AHEAD - self.reads.len()) {
            let buffer = self.engine.state().buffers.take(BLOCK_BYTES);
            let reading = self.engine.device().read(self.start.plus(at), buffer).boxed_local();
            self.reads.push_back((at, reading));
        }
        if self.reads.front()?.0 != offset {
            return None;
        }
        let (_, reading) = self.reads.pop_front()?;
        Some(reading.await)
    }
}
