//! A device in memory that can simulate a power cut.

mod power_cut;
mod warm;
mod zone;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::zones::ZoneTable;
use crate::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, Sealing};
pub use warm::MemoryWarmLog;
use zone::Zone;

/// Zones in memory, as hard on their user as the [`Device`] contract permits.
///
/// Requests take effect in two steps. At the *call* an append claims its address and its blocks
/// may reach the medium; when its future is first *polled* it completes. A filter that holds the
/// future back (as [`Delay`](crate::filter::Delay) does) therefore has requests in flight, and a
/// power cut in between takes what it may: see [`crash`](MemoryDevice::crash).
///
/// * Blocks of an append that has not completed read as if it had not happened.
/// * A flush makes durable what completed before the flush was *called*, and no more.
///
/// Clones are handles of one device. Memory grows with what is written, and shrinks with resets
/// that a flush made durable.
#[derive(Clone)]
pub struct MemoryDevice {
    state: Rc<RefCell<State>>,
}

struct State {
    table: ZoneTable,
    zones: Vec<Zone>,
    /// Completed and not yet durable, in the order of completion.
    unflushed: VecDeque<Unflushed>,
    /// Numbers completions, so that a flush knows which came before it.
    completions: u64,
    root: Root,
    options: MemoryOptions,
    gone: bool,
}

struct Unflushed {
    completion: u64,
    zone: ZoneId,
    generation: u64,
    what: What,
}

enum What {
    Append(usize),
    Reset,
}

#[derive(Default)]
struct Root {
    durable: Option<Bytes>,
    /// Number of the write that `durable` is from; calls number them.
    number: u64,
    calls: u64,
    in_flight: BTreeMap<u64, Bytes>,
}

/// What a [`MemoryDevice`] does beyond the usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryOptions {
    /// A reset leaves the old bytes in place past the write pointer, as on a file system that
    /// cannot punch holes. Recovery must not take them for new ones.
    pub stale_after_reset: bool,
    /// Flushes that come after one that failed are worth something; see
    /// [`Abilities::flushes_again`].
    pub flushes_again: bool,
    /// Zones can be released: after that they read as zeroes, or as before where resets leave old bytes.
    pub gives_back: bool,
    /// Zones take blocks in order alone, as those of zoned devices: no append is made again.
    pub in_order: bool,
}

impl MemoryDevice {
    /// A new device of that shape, all zeroes.
    pub fn new(info: DeviceInfo) -> Self {
        Self::with_options(info, MemoryOptions::default())
    }

    /// A new device of that shape that behaves as `options` say.
    pub fn with_options(info: DeviceInfo, options: MemoryOptions) -> Self {
        let zones = (0..info.zones).map(|_| Zone::default()).collect();
        Self::from_state(State {
            table: ZoneTable::new(info),
            zones,
            unflushed: VecDeque::new(),
            completions: 0,
            root: Root::default(),
            options,
            gone: false,
        })
    }

    /// A new device called `memory` of `zones` zones of `zone_blocks` blocks, with the longest
    /// appends and without limits.
    pub fn of_zones(zones: u32, zone_blocks: u64) -> Self {
        Self::new(DeviceInfo {
            name: "memory".into(),
            uuid: *b"mjolnir in memor",
            zone_blocks,
            zones,
            append_blocks_max: zone_blocks.min(1024),
            queue_depth: 32,
            open_zones_max: None,
            sealing: Sealing::Free,
        })
    }

    /// Cuts the power and returns the device as it is found afterwards; requests to the old one
    /// then fail with [`ErrorKind::Gone`].
    ///
    /// Drawn from `seed`: each block that was not durable is kept or lost, in any order and
    /// within appends; each reset that was not durable happened or not, and if not, the blocks
    /// before it are back; of roots, the last complete one or one that was in flight is found.
    /// Everything that is found is durable. The same history and seed give the same outcome.
    ///
    /// # Panics
    ///
    /// If the contents were already taken by `crash` or [`reopen`](MemoryDevice::reopen).
    pub fn crash(&self, seed: u64) -> MemoryDevice {
        Self::from_state(power_cut::after_cut(self.take(), seed))
    }

    /// Ends the program as a signal does, and opens the device again: what completed is there, and what was in
    /// flight may have happened, each block for itself, as `seed` says.
    ///
    /// # Panics
    ///
    /// As [`crash`](MemoryDevice::crash) does.
    pub fn kill(&self, seed: u64) -> MemoryDevice {
        let mut state = self.take();
        state.harden(u64::MAX);
        Self::from_state(power_cut::after_cut(state, seed))
    }

    /// Closes the device without a power cut (the program ended) and opens it again: nothing is
    /// lost and nothing becomes durable. What was in flight has happened.
    ///
    /// # Panics
    ///
    /// As [`crash`](MemoryDevice::crash) does.
    pub fn reopen(&self) -> MemoryDevice {
        Self::from_state(power_cut::after_exit(self.take()))
    }

    /// From now on every request fails with [`ErrorKind::Gone`], those in flight included. A
    /// device that is gone can still [`crash`](MemoryDevice::crash), to find what is left.
    pub fn cut_power(&self) {
        self.state.borrow_mut().gone = true;
    }

    fn from_state(state: State) -> Self {
        MemoryDevice { state: Rc::new(RefCell::new(state)) }
    }

    /// Takes the contents away and leaves a device that is gone.
    fn take(&self) -> State {
        let mut state = self.state.borrow_mut();
        assert_eq!(
            state.zones.len(),
            state.table.info().zones as usize,
            "what was on this device is already in another one"
        );
        let husk = State {
            table: state.table.clone(),
            zones: Vec::new(),
            unflushed: VecDeque::new(),
            completions: 0,
            root: Root::default(),
            options: state.options,
            gone: true,
        };
        std::mem::replace(&mut state, husk)
    }

    /// Runs `then` on the state, or says that the device is gone.
    fn with<T>(
        &self,
        then: impl FnOnce(&mut State) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let mut state = self.state.borrow_mut();
        if state.gone {
            let name = &state.table.info().name;
            return Err(DeviceError::new(ErrorKind::Gone, format!("{name} has lost its power")));
        }
        then(&mut state)
    }

    /// Begins an append where `claim` lets it. That says whether the blocks were appended before.
    fn begin_append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
        claim: impl FnOnce(&mut ZoneTable, &[Bytes]) -> Result<bool, DeviceError>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let begun = self.with(|state| {
            let is_again = claim(&mut state.table, &data)?;
            let info = state.table.info();
            let (zone, offset) = (info.zone_of(at), at.offset(info.zone_blocks));
            let held = &mut state.zones[zone.0 as usize];
            let data = data.concat().into();
            let (generation, index) = match is_again {
                true => held.append_again(offset, data),
                false => held.append(offset, data),
            };
            Ok((zone, generation, index))
        });
        let device = self.clone();
        async move {
            let (zone, generation, index) = begun?;
            device.with(|state| {
                state.zones[zone.0 as usize].complete(generation, index);
                state.complete(zone, generation, What::Append(index));
                Ok(at)
            })
        }
    }
}

impl State {
    fn complete(&mut self, zone: ZoneId, generation: u64, what: What) {
        self.completions += 1;
        let completion = self.completions;
        self.unflushed.push_back(Unflushed { completion, zone, generation, what });
    }

    /// Makes durable what completed up to number `until`.
    fn harden(&mut self, until: u64) {
        while self.unflushed.front().is_some_and(|entry| entry.completion <= until) {
            let entry = self.unflushed.pop_front().expect("there is a front");
            let zone = &mut self.zones[entry.zone.0 as usize];
            match (entry.what, self.table.info().sealing) {
                (What::Reset, _) => zone.harden_reset(entry.generation, self.options),
                (What::Append(index), Sealing::Free) => zone.harden(entry.generation, index),
                // The seal does it.
                (What::Append(_), Sealing::Durable) => {}
            }
        }
    }
}

impl Device for MemoryDevice {
    fn info(&self) -> DeviceInfo {
        self.state.borrow().table.info().clone()
    }

    fn abilities(&self) -> &dyn Abilities {
        self
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.begin_append(at, data, move |table, data| table.claim(at, data).map(|_| false))
    }

    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let in_order = self.state.borrow().options.in_order;
        self.begin_append(at, data, move |table, data| match in_order {
            true => Err(DeviceError::new(
                ErrorKind::Invalid,
                format!("{} makes no append at {at} again", table.info().name),
            )),
            false => table.claim_again(at, data),
        })
    }

    fn read(
        &self,
        from: Pba,
        mut buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let device = self.clone();
        async move {
            device.with(|state| {
                state.table.check_read(from, buffer.len())?;
                let (zone, zone_blocks) =
                    (state.table.info().zone_of(from), state.table.info().zone_blocks);
                state.zones[zone.0 as usize].read(
                    from.offset(zone_blocks),
                    buffer.as_mut(),
                    state.options,
                );
                Ok(())
            })?;
            Ok(buffer)
        }
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let until = self.state.borrow().completions;
        let device = self.clone();
        async move {
            device.with(|state| {
                state.harden(until);
                Ok(())
            })
        }
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let begun = self.with(|state| {
            state.table.seal(zone)?;
            Ok(state.zones[zone.0 as usize].generation())
        });
        let device = self.clone();
        async move {
            let generation = begun?;
            device.with(|state| {
                if state.table.info().sealing == Sealing::Durable {
                    state.zones[zone.0 as usize].harden_sealed(generation, state.options);
                }
                Ok(())
            })
        }
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let begun = self.with(|state| {
            let ticket = state.table.begin_reset(zone)?;
            Ok((ticket, state.zones[zone.0 as usize].reset()))
        });
        let device = self.clone();
        async move {
            let (ticket, generation) = begun?;
            device.with(|state| {
                state.table.end_reset(ticket);
                state.complete(zone, generation, What::Reset);
                Ok(())
            })
        }
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let begun = self.with(|state| {
            state.table.seal(zone)?;
            Ok(state.options.gives_back.then(|| state.zones[zone.0 as usize].reset()))
        });
        let device = self.clone();
        async move {
            let Some(generation) = begun? else { return Ok(()) };
            device.with(|state| {
                state.complete(zone, generation, What::Reset);
                Ok(())
            })
        }
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        let device = self.clone();
        async move { device.with(|state| Ok(state.root.durable.clone())) }
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let begun = self.with(|state| {
            state.table.check_root(root.len(), Self::ROOT_BYTES_MAX)?;
            state.root.calls += 1;
            state.root.in_flight.insert(state.root.calls, Bytes::copy_from_slice(&root));
            Ok(state.root.calls)
        });
        let device = self.clone();
        async move {
            let number = begun?;
            device.with(|state| {
                // Gone from the list if a later write has completed: then that one is the root.
                if let Some(root) = state.root.in_flight.remove(&number) {
                    state.root.in_flight.retain(|&other, _| other > number);
                    (state.root.durable, state.root.number) = (Some(root), number);
                }
                Ok(())
            })
        }
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let device = self.clone();
        async move {
            device.with(|state| {
                let zone_bytes = state.table.info().zone_blocks * BLOCK_SIZE;
                let zones = state.table.check_grow(bytes / zone_bytes)?;
                state.table.grow(zones);
                state.zones.resize_with(zones as usize, Zone::default);
                Ok(zones)
            })
        }
    }
}

impl Abilities for MemoryDevice {
    fn gives_back(&self) -> bool {
        self.state.borrow().options.gives_back
    }

    fn flushes_again(&self) -> bool {
        self.state.borrow().options.flushes_again
    }

    fn appends_again(&self) -> bool {
        !self.state.borrow().options.in_order
    }
}

#[cfg(test)]
mod tests;
