//! Outages: the device takes nothing for a while, because it is gone, its medium has no space, or
//! it fails everywhere.
//!
//! During an outage nothing new is handed to the device. Requests of clients wait; after the time
//! that the options give they are refused, until the device is back. What failed is refused as at
//! any bad place, and is logged again once the outage is over. A device that was gone may have lost
//! what it had taken and not flushed. So it is flushed first, and everything that was written since
//! the last flush is read and verified.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{AlignedBuf, Device, DeviceError, ErrorKind as DeviceKind, Runtime};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, Instant, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::drive::submit::blocks_of;
use crate::fault;
use crate::format::bind;
use crate::format::group::GroupHeader;
use crate::log::{Submission, Unflushed};
use crate::space::SegmentState;

/// The first and the longest rest between two looks at a device that is away.
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);

/// So many segments in a row whose appends fail are no bad places: the device takes no writes.
const FAILING_SEGMENTS: usize = 3;

/// If the device takes no writes, an append is repeated so often before other places are tried, and
/// twice as often each time after that, up to this many times.
const REPEATS: u32 = 5;
const GIVEN_UP_MAX: u32 = 8;

/// What the device lacks, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// The medium has no space for an append.
    Space,
    /// Appends fail wherever they go.
    Writes,
    /// The device does not answer, or does not flush.
    Everything,
}

/// See the module.
pub(crate) struct Outage {
    lack: Lack,
    since: Instant,
    /// What the device said last.
    why: String,
    /// What clients are told, once it has lasted for too long.
    refusal: Option<Error>,
    /// How often one of them was made again.
    repeats: u32,
    /// Appends that failed, by their addresses.
    failed: BTreeMap<Pba, u64>,
    /// What waits to be handed to the device.
    held: Vec<Submission>,
}

impl Outage {
    /// What is lacking, for how long, and why, in words.
    pub fn describe(&self, now: Instant) -> String {
        let seconds = now.since(self.since).as_secs();
        let then = match self.refusal {
            Some(_) => "changes are refused until that is over",
            None => "requests wait",
        };
        format!("{} for {seconds} s, and {then}: {}", self.lack.what(), self.why)
    }
}

impl Lack {
    fn what(self) -> &'static str {
        match self {
            Lack::Space => "there has been no space below the store",
            Lack::Writes => "the device has taken no writes",
            Lack::Everything => "the device has been away",
        }
    }
}

impl State {
    /// What clients are told during a long outage.
    pub fn refusal(&self) -> Option<&Error> {
        self.outage.as_ref()?.refusal.as_ref()
    }

    /// Keeps requests back during an outage; otherwise returns them.
    pub fn hold(&mut self, submissions: Vec<Submission>) -> Vec<Submission> {
        match &mut self.outage {
            Some(outage) => {
                outage.held.extend(submissions);
                Vec::new()
            }
            None => submissions,
        }
    }

    /// Has an append made again once the outage is over.
    pub fn repeat_later(&mut self, id: u64, at: Pba) {
        self.repeated.remove(&id);
        if let Some(outage) = &mut self.outage {
            outage.failed.insert(at, id);
        }
    }

    /// How often an append is repeated before other places are tried.
    fn repeats_max(&self) -> u32 {
        REPEATS << self.given_up.min(GIVEN_UP_MAX)
    }

    /// The segments of the appends that failed end ahead of them, though nothing is wrong with their places.
    fn refuse_failed(&mut self) {
        let failed = self.outage.as_mut().map(|outage| std::mem::take(&mut outage.failed));
        for id in failed.into_iter().flatten().map(|(_, id)| id) {
            let State { log, space, .. } = &mut *self;
            log.refuse(space, id);
        }
    }

    /// The next append to be made again.
    fn next_repeated(&mut self) -> Option<Submission> {
        loop {
            let (_, id) = self.outage.as_mut()?.failed.pop_first()?;
            if let Some(again) = self.log.repeat(id) {
                self.repeated.insert(id);
                return Some(again);
            }
        }
    }

    /// Whether an append that failed at this zone is one of very many. A success in between says
    /// otherwise.
    pub fn fails_everywhere(&mut self, zone: ZoneId) -> bool {
        self.failing.insert(zone);
        self.failing.len() >= FAILING_SEGMENTS
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The device failed in a way that says that it is away.
    pub(crate) fn begin_outage(&self, lack: Lack, error: &DeviceError) {
        let since = self.runtime().now();
        let begins = {
            let mut state = self.state();
            state.doubts += 1;
            match &mut state.outage {
                Some(outage) => {
                    outage.lack = outage.lack.max(lack);
                    outage.why = error.to_string();
                    false
                }
                None => {
                    state.outage = Some(Outage {
                        lack,
                        since,
                        why: error.to_string(),
                        refusal: None,
                        repeats: 0,
                        failed: BTreeMap::new(),
                        held: Vec::new(),
                    });
                    state.counters.outages += 1;
                    true
                }
            }
        };
        if begins {
            self.spawn(self.clone().outage_task());
            // Resets give space back to the medium.
            self.inner.reset_wanted.notify(1);
        }
    }

    /// Waits until no outage is under way. Fails if the store has, or once clients are refused and
    /// it is a client that waits.
    pub(crate) async fn outlast(&self, is_client: bool) -> Result<(), Error> {
        let waits = |state: &mut State| {
            let refused = is_client && state.refusal().is_some();
            state.outage.is_some() && state.failed.is_none() && !refused
        };
        if self.state().outage.is_some() {
            self.wait_while(waits).await;
        }
        let state = self.state();
        match (&state.failed, state.refusal()) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(refusal)) if is_client => Err(refusal.clone()),
            _ => Ok(()),
        }
    }

    /// Flushes the device, however long that takes. Fails if the store has.
    ///
    /// If a write or a flush failed since the last one that worked, the device may have lost what it
    /// had taken. So all that the flush covers is read and verified then.
    pub(crate) async fn flush_device(&self) -> Result<(), Error> {
        loop {
            let (mark, outages) = {
                let state = self.state();
                (state.log.written_total(), state.counters.outages)
            };
            match self.device().flush().await {
                Ok(()) => {
                    // Another flush may be verifying the same; neither counts before it has.
                    let (is_sure, is_settled, doubts) = {
                        let mut state = self.state();
                        state.counters.device_flushes += 1;
                        let is_sure = state.outage.is_none() && state.counters.outages == outages;
                        (is_sure, state.doubts_settled == state.doubts, state.doubts)
                    };
                    if !is_sure {
                        self.outlast(false).await?;
                    } else if is_settled || self.verify_unflushed(mark).await? {
                        let mut state = self.state();
                        state.doubts_settled = state.doubts_settled.max(doubts);
                        state.log.flushed(mark);
                        return Ok(());
                    }
                }
                Err(error) if self.state().is_serving => {
                    self.state().note_write_error(&error);
                    if !self.device().abilities().flushes_again() {
                        return Err(fault::device("flushing the device", error));
                    }
                    self.begin_outage(Lack::Everything, &error);
                    self.outlast(false).await?;
                }
                Err(error) => return Err(fault::device("flushing the device", error)),
            }
        }
    }

    /// The task that looks whether the device is back.
    async fn outage_task(self) {
        let mut rest = REST_MIN;
        loop {
            {
                let ends = self.wait_while(|state| state.failed.is_none() && !state.stopping);
                select(pin!(ends), pin!(self.runtime().sleep(rest))).await;
            }
            if self.state().failed.is_some() {
                return;
            }
            if self.state().stopping {
                return self.fail(Error::new(ErrorKind::Io, "the store ends during an outage"));
            }
            match self.is_back().await {
                Ok(true) => break,
                Ok(false) => rest = (2 * rest).min(REST_MAX),
                Err(error) => return self.fail(error),
            }
            self.refuse_clients_if_due();
            // What free segments hold may be all the space that is left.
            while self.lacks_space() && self.release_next().await {}
        }
        let repeats = self.device().abilities().appends_again();
        let submissions = {
            let mut state = self.state();
            state.failing.clear();
            if state.outage.as_ref().is_some_and(|outage| outage.lack == Lack::Everything) {
                // What the device had taken and could not be counted as written yet may be lost.
                for (at, id) in state.log.undo_done() {
                    state.repeat_later(id, at);
                }
            }
            state.doubts += 1;
            if !repeats {
                state.refuse_failed();
            }
            let mut submissions: Vec<Submission> =
                std::iter::from_fn(|| state.next_repeated()).collect();
            submissions.extend(state.outage.take().into_iter().flat_map(|outage| outage.held));
            submissions
        };
        self.hand_over(submissions);
        self.notify();
        self.inner.refused.notify(1);
        self.inner.reset_wanted.notify(1);
        self.inner.checkpoint_wanted.notify(1);
        self.call_reclaim();
    }

    fn lacks_space(&self) -> bool {
        self.lack() == Some(Lack::Space)
    }

    /// From a certain time on, clients are told. A store that closes waits for no other look.
    fn refuse_clients_if_due(&self) {
        let patience = self.inner.options.patience;
        let now = self.runtime().now();
        let mut state = self.state();
        let closing = state.closing;
        let Some(outage) = &mut state.outage else { return };
        if now.since(outage.since) < patience && !closing {
            return;
        }
        let kind = match outage.lack {
            Lack::Space => ErrorKind::NoSpace,
            Lack::Writes | Lack::Everything => ErrorKind::Io,
        };
        let (what, why) = (outage.lack.what(), &outage.why);
        outage.refusal = Some(Error::new(
            kind,
            format!("{what}, and changes are refused until that is over: {why}"),
        ));
        drop(state);
        self.notify();
        self.inner.lead_wanted.notify(usize::MAX);
    }

    /// Whether the device works again. Fails if it lost data meanwhile.
    async fn is_back(&self) -> Result<bool, Error> {
        let lack = match &self.state().outage {
            Some(outage) => outage.lack,
            None => return Ok(true),
        };
        if lack == Lack::Everything {
            if let Err(error) = self.look().await {
                self.note_away(&error);
                return Ok(false);
            }
            return Ok(true);
        }
        if !self.device().abilities().appends_again() {
            // Only other places show whether the device works.
            let mut state = self.state();
            let limit = state.repeats_max();
            let Some(outage) = &mut state.outage else { return Ok(true) };
            outage.repeats += 1;
            let ends = outage.repeats >= limit;
            state.given_up += u32::from(ends);
            return Ok(ends);
        }
        // One append shows whether the others will work.
        let again = self.state().next_repeated();
        let Some(Submission::Again { id, at, data }) = again else { return Ok(true) };
        let blocks = blocks_of(&data);
        let landed = self.device().append_again(at, data).await;
        // A device that cannot repeat it has the group logged again elsewhere.
        let mut is_back =
            landed.is_ok() || landed.as_ref().is_err_and(|error| error.kind == DeviceKind::Invalid);
        if let Err(error) = &landed {
            self.note_away(error);
        }
        self.appended(id, at, blocks, landed);
        // A flush may have failed meanwhile.
        is_back &= self.lack() == Some(lack);
        Ok(is_back || (lack == Lack::Writes && self.gives_up_places()))
    }

    fn lack(&self) -> Option<Lack> {
        self.state().outage.as_ref().map(|outage| outage.lack)
    }

    /// Whether appends failed at these places so often that others are to be tried: then the segments
    /// end there. Each time it takes longer, until one works.
    fn gives_up_places(&self) -> bool {
        let failed = {
            let mut state = self.state();
            let limit = state.repeats_max();
            let Some(outage) = &mut state.outage else { return true };
            outage.repeats += 1;
            if outage.repeats < limit || outage.lack != Lack::Writes {
                return false;
            }
            let (failed, why) = (std::mem::take(&mut outage.failed), outage.why.clone());
            state.given_up += 1;
            for (at, id) in &failed {
                let State { log, space, .. } = &mut *state;
                let zone = space.zone_of(*at);
                space.note_bad(zone, &why);
                log.refuse(space, *id);
            }
            failed
        };
        !failed.is_empty()
    }

    fn note_away(&self, error: &DeviceError) {
        if let Some(outage) = &mut self.state().outage {
            outage.why = error.to_string();
            if error.kind == DeviceKind::Gone {
                outage.lack = Lack::Everything;
            }
        }
    }

    /// Reads something, and flushes.
    async fn look(&self) -> Result<(), DeviceError> {
        let start = ZoneId(0).start(self.device().info().zone_blocks);
        match self.device().read(start, AlignedBuf::zeroed(BLOCK_BYTES)).await {
            Err(error) if error.kind != DeviceKind::Unreadable => return Err(error),
            _ => {}
        }
        self.device().abilities().forgive_failed_flush();
        self.device().flush().await
    }

    /// Verifies the groups among the first `mark` that were written since the last flush that worked,
    /// right after one that worked. Returns whether all could be read.
    async fn verify_unflushed(&self, mark: u64) -> Result<bool, Error> {
        let unflushed = self.state().log.unflushed(mark);
        for group in unflushed {
            match self.is_kept(&group).await {
                Ok(true) => {}
                Ok(false) => {
                    let what = format!(
                        "the device was away, and lost what it had taken: block {} of segment {}",
                        group.offset, group.zone.0
                    );
                    return Err(fault::damaged(what));
                }
                Err(error) => {
                    self.begin_outage(Lack::Everything, &error);
                    self.outlast(false).await?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether a group lies on the device as it was written. One of a segment that was given up
    /// since, or is while it is read, counts as whole.
    async fn is_kept(&self, group: &Unflushed) -> Result<bool, DeviceError> {
        let is_needed = || {
            let state = self.state();
            let segment = state.space.get(group.zone);
            let in_use = !matches!(segment.state, SegmentState::Free | SegmentState::Bad);
            in_use && segment.incarnation == group.incarnation
        };
        if !is_needed() {
            return Ok(true);
        }
        let is_whole = self.lies_as_written(group).await?;
        Ok(is_whole || !is_needed())
    }

    /// Whether a group can be read, and is what was written.
    async fn lies_as_written(&self, group: &Unflushed) -> Result<bool, DeviceError> {
        let incarnation = group.incarnation;
        let start = group.zone.start(self.device().info().zone_blocks);
        let start = start.plus(u64::from(group.offset));
        let buffer = AlignedBuf::zeroed((1 + group.payload as usize) * BLOCK_BYTES);
        let read = match self.device().read(start, buffer).await {
            Err(error) if error.kind == DeviceKind::Unreadable => return Ok(false),
            read => read?,
        };
        let mut blocks = read.as_ref().chunks_exact(BLOCK_BYTES);
        let header = blocks.next().and_then(|block| GroupHeader::decode(block).ok());
        let Some(header) = header.filter(|header| header.incarnation == incarnation) else {
            return Ok(false);
        };
        let checksum = self.device().abilities().block_checksum();
        let sums = (1..)
            .zip(blocks)
            .map(|(at, block)| checksum(block) ^ bind(start.plus(at), incarnation));
        Ok(sums.eq(header.checksums.iter().copied()))
    }
}
