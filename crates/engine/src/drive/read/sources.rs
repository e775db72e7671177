//! Splits runs of blocks into the sources of a read: holes, memory and the device.

use bytes::Bytes;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_units::{BLOCK_SIZE, Pba};
use smallvec::SmallVec;

use crate::drive::engine::Engine;
use crate::drive::read::pins::Pin;
use crate::drive::state::State;

/// The sources of a read: usually one, which needs no allocation.
type Sources<D, R> = SmallVec<[ReadSource<D, R>; 1]>;

/// Part of a run, from one source: a hole of this many blocks, bytes in memory, or blocks on the
/// device.
pub(crate) enum ReadSource<D: Device, R: Runtime> {
    Hole(u64),
    Memory(Bytes),
    Device(Pba, u64, Pin<D, R>),
}

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) fn sources(&self, state: &mut State, runs: &[Run]) -> Sources<D, R> {
        let mut sources = Sources::with_capacity(runs.len());
        for run in runs {
            let Some(start) = run.pba else {
                sources.push(ReadSource::Hole(run.blocks));
                continue;
            };
            let (mut at, end) = (start, start.plus(run.blocks));
            while at < end {
                if let Some(bytes) = state.log.pending(at, end.0 - at.0) {
                    at = at.plus(bytes.len() as u64 / BLOCK_SIZE);
                    sources.push(ReadSource::Memory(bytes));
                    continue;
                }
                let stop = state.log.next_pending(at).map_or(end, |pending| pending.min(end));
                let zone = state.space.zone_of(at);
                let pin = Pin::new(self, state, zone);
                sources.push(ReadSource::Device(at, stop.0 - at.0, pin));
                at = stop;
            }
        }
        sources
    }
}
