//! Logs again the acknowledged records of a dead server: those that its warm log holds and the
//! device does not.
//!
//! They keep their numbers and their epoch, and go to segments not opened since the checkpoint. So
//! the log is as if the server had written them just before it died, and recovery continues as
//! usual. Rescue changes nothing else. If it is cut short, the next attempt finds the records it
//! wrote. The warm log stays as it is until recovery's checkpoint is durable.

use std::collections::BTreeSet;

use bytes::Bytes;
use mjolnir_device::{Device, Opening, Runtime, WarmEntry, WarmLog};
use mjolnir_store::report::WarmLeft;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::drive::{Engine, State};
use crate::fault;
use crate::format::manifest::Manifest;
use crate::format::record::Record;
use crate::format::root::Root;
use crate::log::fold;
use crate::memory::dirty_bytes_max;
use crate::recovery::arrivals::Payload;
use crate::recovery::survey::Survey;
use crate::space::RELIEF_STREAM;

/// An entry to be logged again.
struct Missing {
    entry: WarmEntry,
    /// Index in the warm log's entries.
    index: usize,
    record: Record,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Logs again the warm log's records that are not on the device; returns whether there were
    /// any. On a store opened for reading only, they are only counted.
    pub(crate) async fn rescue(
        &self,
        root: &Root,
        manifest: &Manifest,
        survey: &Survey,
        warm: &mut dyn WarmLog,
    ) -> Result<bool, Error> {
        let of_root = Opening { epoch: root.epoch, number: root.opening };
        let entries = warm.entries().into_iter().enumerate();
        let entries: Vec<(usize, WarmEntry)> =
            entries.filter(|(_, entry)| entry.sequence > root.sequence).collect();
        let read_only = self.inner.options.read_only;
        let opening = warm.opening();
        if opening != Some(of_root) {
            // Another server opened the store since. If it took the records over, its checkpoint
            // contains them.
            let records = entries.len() as u64;
            let left = WarmLeft { place: warm.place(), records, take: None };
            self.state().recovered.foreign = (records > 0).then_some(left);
            self.find_elsewhere(of_root, root.sequence, survey, warm).await?;
            return Ok(false);
        }
        let missing = self.not_on_device(entries, survey).await?;
        let count = missing.len() as u64;
        {
            let mut state = self.state();
            let told = &mut state.recovered;
            *(if read_only { &mut told.unrescued_records } else { &mut told.rescued_records }) =
                count;
        }
        if missing.is_empty() || read_only {
            return Ok(false);
        }
        let unopened = self.unopened(root, manifest, survey).await?;
        self.state().space.begin_rescue(&unopened);
        for of in &missing {
            let payload = warm.payload(of.index).filter(|payload| self.is_whole(of, payload));
            let Some(payload) = payload else {
                return Err(fault::damaged(format!(
                    "record {} was acknowledged and not written when the server of the store died, and the \
                     warm log no longer holds its payload; `mjolnir serve --warm-log off` opens the store \
                     without this record and all later ones",
                    of.entry.sequence
                )));
            };
            self.log_again(of, payload).await?;
        }
        self.end_rescue().await?;
        Ok(true)
    }

    /// Looks for missing records that lie under another number of the store's device. A store
    /// opened for writing is then refused: once it went on without those records, nothing could
    /// bring them back.
    async fn find_elsewhere(
        &self,
        opening: Opening,
        sequence: u64,
        survey: &Survey,
        warm: &dyn WarmLog,
    ) -> Result<(), Error> {
        let Some(found) = warm.elsewhere(opening) else { return Ok(()) };
        let entries = found.entries.into_iter().enumerate();
        let missing = entries.filter(|(_, entry)| entry.sequence > sequence).collect();
        let records = self.not_on_device(missing, survey).await?.len() as u64;
        if records == 0 {
            return Ok(());
        }
        let left = WarmLeft { place: found.place, records, take: Some(found.take) };
        if !self.inner.options.read_only {
            let words =
                format!("it is not opened for writing: {}; {}", left.holds(), left.advice());
            return Err(Error::new(ErrorKind::Invalid, words));
        }
        self.state().recovered.elsewhere = Some(left);
        Ok(())
    }

    /// The entries without a whole copy on the device, up to the first invalid one.
    async fn not_on_device(
        &self,
        entries: Vec<(usize, WarmEntry)>,
        survey: &Survey,
    ) -> Result<Vec<Missing>, Error> {
        let wanted: BTreeSet<u64> = entries.iter().map(|(_, entry)| entry.sequence).collect();
        let epoch = self.state().log.epoch;
        let mut whole: BTreeSet<u64> = BTreeSet::new();
        let groups = survey.walks.iter().flat_map(|of| of.walk.groups.iter().map(|g| (of.zone, g)));
        for (zone, group) in groups.filter(|(_, group)| group.epoch == epoch) {
            let numbers = || group.records.iter().map(|(sequence, _)| *sequence);
            if numbers().any(|number| wanted.contains(&number) && !whole.contains(&number))
                && matches!(self.payload_of(zone, group).await?, Payload::Whole)
            {
                whole.extend(numbers());
            }
        }
        let mut missing = Vec::new();
        for (index, entry) in entries {
            let Ok(record) = Record::decode_whole(&entry.record) else { break };
            if record.payload_blocks() * BLOCK_BYTES as u64 != entry.payload_bytes as u64 {
                break;
            }
            if !whole.contains(&entry.sequence) {
                missing.push(Missing { entry, index, record });
            }
        }
        Ok(missing)
    }

    fn is_whole(&self, of: &Missing, payload: &Bytes) -> bool {
        let checksum = self.device().abilities().block_checksum();
        let blocks = payload.chunks_exact(BLOCK_BYTES);
        blocks.fold(0, |sum, block| fold(sum, checksum(block))) == of.entry.checksum
    }

    /// Segments not opened since the checkpoint, in its order: neither by the dead server nor by an
    /// interrupted recovery.
    async fn unopened(
        &self,
        root: &Root,
        manifest: &Manifest,
        survey: &Survey,
    ) -> Result<Vec<ZoneId>, Error> {
        let zones = self.state().info.zones;
        let traces: BTreeSet<ZoneId> = survey.traces.iter().map(|trace| trace.zone).collect();
        let damaged: BTreeSet<ZoneId> =
            survey.damage.iter().map(|lost| ZoneId(lost.place.zone)).collect();
        let mut unopened = Vec::new();
        for zone in manifest.order(zones) {
            let untouched = self.state().space.is_untouched(zone)
                && !traces.contains(&zone)
                && !damaged.contains(&zone);
            if untouched && self.looks_unopened(zone, root).await? {
                unopened.push(zone);
            }
        }
        Ok(unopened)
    }

    /// Logs a record unchanged, in a group with others or in its own.
    async fn log_again(&self, of: &Missing, payload: Bytes) -> Result<(), Error> {
        let bytes = of.record.encoded_bytes();
        let blocks = (payload.len() / BLOCK_BYTES) as u32;
        // Tries the rest of the group, then the rest of the segment, then the next segment.
        for attempt in 0.. {
            let room = {
                let mut guard = self.state();
                let State { log, space, .. } = &mut *guard;
                match log.allocate(space, RELIEF_STREAM, bytes, blocks) {
                    Ok((_, fit)) if fit == blocks => {
                        log.sequence = of.entry.sequence - 1;
                        log.push(RELIEF_STREAM, of.record.clone(), payload, bytes);
                        break;
                    }
                    Ok(_) => {
                        match attempt % 2 {
                            0 => log.close_group(space, RELIEF_STREAM),
                            _ => log.seal_segment(space, RELIEF_STREAM),
                        }
                        true
                    }
                    Err(_) => false,
                }
            };
            self.submit();
            if !room {
                self.reset_next().await?;
            }
        }
        {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.log.dirty_bytes > dirty_bytes_max(&self.inner.options) {
                // No other task sends a group that is not full.
                state.log.close_group(&mut state.space, RELIEF_STREAM);
            }
        }
        self.submit();
        self.wait_while_dirty().await
    }

    async fn reset_next(&self) -> Result<(), Error> {
        let zone = self.state().space.next_to_reset(|_| false, |_| false);
        let Some(zone) = zone else {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "there is no space to log again the changes that the server of the store had acknowledged and \
                 not written when it died; `mjolnir serve --warm-log off` opens the store without them",
            ));
        };
        let reset = self.device().reset(zone).await;
        reset.map_err(|error| fault::device(&format!("resetting segment {}", zone.0), error))?;
        self.state().space.push_ready(zone);
        Ok(())
    }

    /// Makes the records durable, and waits for all I/O in flight.
    async fn end_rescue(&self) -> Result<(), Error> {
        let last = {
            let mut guard = self.state();
            let state = &mut *guard;
            state.log.close_groups(&mut state.space);
            state.log.last_group()
        };
        self.submit();
        self.wait_while(|state| {
            state.failed.is_none() && (state.log.waits_for_group(last) || state.tasks > 0)
        })
        .await;
        let failed = self.state().failed.clone();
        if let Some(error) = failed {
            return Err(error);
        }
        self.device().flush().await.map_err(|error| fault::device("flushing the device", error))
    }
}

/// The copies of records with this number: a record logged again has two.
pub(crate) fn copies_of<T>(sorted: &[T], number: impl Fn(&T) -> u64) -> &[T] {
    let Some(first) = sorted.first().map(&number) else { return sorted };
    &sorted[..sorted.partition_point(|of| number(of) <= first)]
}
