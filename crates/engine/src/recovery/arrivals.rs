//! Finds which groups of the log reached the device whole. Groups that no later group calls durable
//! are read and their checksums compared, ahead of the replay. The order is that of each group's
//! last record, so that each result is ready about when replay needs it.

use std::cell::RefCell;
use std::pin::pin;

use event_listener::Event;
use futures_util::{StreamExt, stream};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::ReadPurpose;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::drive::{Engine, TRIES};
use crate::fault;
use crate::format::bind;
use crate::format::group::GroupHeader;
use crate::memory::buffer_bytes;

/// The most groups whose payload is read at once: each takes up to 1 MiB. That is small in a large
/// memory budget; a smaller budget allows as much as its read buffers hold.
const PAYLOADS: usize = 16;

/// The state of a group's payload on the device, if its header is there.
pub(crate) enum Payload {
    Whole,
    /// A power cut took part of it.
    Torn,
    /// The medium does not return it, for this reason.
    Unreadable(String),
}

/// Groups whose payload must be checked, and the results.
pub(crate) struct Arrivals<'a> {
    groups: &'a [(ZoneId, &'a GroupHeader)],
    /// Records up to this number were durable: a group that holds one of them did arrive, even if
    /// it was damaged since.
    durable: u64,
    /// Results for the first groups.
    found: RefCell<Vec<Payload>>,
    changed: Event,
}

impl<'a> Arrivals<'a> {
    pub fn new(groups: &'a [(ZoneId, &'a GroupHeader)], durable: u64) -> Self {
        Arrivals { groups, durable, found: RefCell::default(), changed: Event::new() }
    }

    /// Whether the group was durable: a flush waits for all of a group that holds one of its records.
    fn is_promised(&self, group: usize) -> bool {
        let numbers = self.groups[group].1.records.iter().map(|(sequence, _)| *sequence);
        numbers.filter(|sequence| *sequence > 0).min().is_some_and(|first| first <= self.durable)
    }

    /// Groups, among those checked, that were durable and are no longer whole.
    pub fn damaged(&self) -> Vec<(ZoneId, &'a GroupHeader)> {
        let found = self.found.borrow();
        let damaged = found.iter().enumerate().filter(|(index, payload)| {
            !matches!(payload, Payload::Whole) && self.is_promised(*index)
        });
        damaged.map(|(index, _)| self.groups[index]).collect()
    }

    /// Checks each group, in turn. A device failure is an error.
    pub async fn verify<D: Device, R: Runtime>(&self, engine: &Engine<D, R>) -> Result<(), Error> {
        let payloads = stream::iter(self.groups).map(|of| engine.payload_of(of.0, of.1));
        let at_once = (buffer_bytes(&engine.inner.options) >> 20).clamp(1, PAYLOADS);
        let mut payloads = pin!(payloads.buffered(at_once));
        while let Some(payload) = payloads.next().await {
            self.found.borrow_mut().push(payload?);
            self.changed.notify(usize::MAX);
        }
        Ok(())
    }

    /// Waits for the result of this group. True if the group is whole, or was durable.
    pub async fn has_arrived(&self, group: usize) -> bool {
        let promised = self.is_promised(group);
        let known =
            || self.found.borrow().get(group).map(|of| promised || matches!(of, Payload::Whole));
        loop {
            if let Some(whole) = known() {
                return whole;
            }
            // Nothing comes between the check and the wait: both are one step of one thread.
            self.changed.listen().await;
        }
    }

    /// The result for each group.
    pub fn into_found(self) -> Vec<Payload> {
        self.found.into_inner()
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Checks whether all of a group's payload reached the device. A device failure is an error.
    pub(crate) async fn payload_of(
        &self,
        zone: ZoneId,
        group: &GroupHeader,
    ) -> Result<Payload, Error> {
        if group.checksums.is_empty() {
            return Ok(Payload::Whole);
        }
        let zone_blocks = self.state().info.zone_blocks;
        let start = zone.start(zone_blocks).plus(u64::from(group.offset) + 1);
        let checksum = self.device().abilities().block_checksum();
        let mut state = Payload::Torn;
        // Read more than once, so that a transient fault is not taken for a torn write.
        for _ in 0..TRIES {
            let buffer = self.buffer(group.checksums.len() * BLOCK_BYTES);
            let read = self.read_device(ReadPurpose::Recovery, start, buffer).await;
            let what = format!("reading what was logged at {start} (segment {})", zone.0);
            let bytes = match read.map_err(|error| fault::device(&what, error)) {
                Ok(bytes) => bytes,
                // A power cut does not make blocks unreadable.
                Err(error) if error.kind == ErrorKind::Damaged => {
                    state = Payload::Unreadable(error.message);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let blocks = bytes.as_ref().chunks_exact(BLOCK_BYTES).zip(&group.checksums);
            let whole = blocks.enumerate().all(|(index, (block, expected))| {
                let at = start.plus(index as u64);
                checksum(block) ^ bind(at, group.incarnation) == *expected
            });
            if whole {
                return Ok(Payload::Whole);
            }
            state = Payload::Torn;
        }
        Ok(state)
    }
}
