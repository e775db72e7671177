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
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Instant, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::fault;
use crate::format::bind;
use crate::format::group::GroupHeader;
use crate::log::{Submission, Unflushed};

/// The first and the longest rest between two looks at a device that is away.
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);

/// So many segments in a row whose appends fail are no bad places: the device takes no writes.
const FAILING_SEGMENTS: usize = 3;

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
    pub(crate) async fn flush_device(&self) -> Result<(), Error> {
        loop {
            let mark = self.state().log.written_total();
            match self.device().flush().await {
                Ok(()) => {
                    let mut state = self.state();
                    state.counters.device_flushes += 1;
                    state.log.flushed(mark);
                    return Ok(());
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
        let submissions = {
            let mut state = self.state();
            state.failing.clear();
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
        self.state().outage.as_ref().is_some_and(|outage| outage.lack == Lack::Space)
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
                return Ok(self.is_away(&error));
            }
            return self.verify_unflushed().await;
        }
        // One append shows whether the others will work.
        let again = self.state().next_repeated();
        let Some(Submission::Again { id, at, data }) = again else { return Ok(true) };
        let blocks = data.iter().map(|piece| piece.len() as u64).sum::<u64>() / BLOCK_SIZE;
        let landed = self.device().append_again(at, data).await;
        let is_back = landed.as_ref().is_ok_and(|_| true)
            || landed.as_ref().is_err_and(|error| error.kind == DeviceKind::Invalid);
        if let Err(error) = &landed {
            self.is_away(error);
        }
        self.appended(id, at, blocks, landed);
        Ok(is_back)
    }

    fn is_away(&self, error: &DeviceError) -> bool {
        if let Some(outage) = &mut self.state().outage {
            outage.why = error.to_string();
            if error.kind == DeviceKind::Gone {
                outage.lack = Lack::Everything;
            }
        }
        false
    }

    /// Reads something, and flushes.
    async fn look(&self) -> Result<(), DeviceError> {
        let start = ZoneId(0).start(self.device().info().zone_blocks);
        match self.device().read(start, AlignedBuf::zeroed(BLOCK_BYTES)).await {
            Err(error) if error.kind != DeviceKind::Unreadable => return Err(error),
            _ => {}
        }
        self.device().abilities().flushes_again();
        self.device().flush().await
    }

    /// Verifies all that was written since the last flush that worked, right after one that worked.
    async fn verify_unflushed(&self) -> Result<bool, Error> {
        let (mark, unflushed) = {
            let state = self.state();
            (state.log.written_total(), state.log.unflushed())
        };
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
                Err(error) => return Ok(self.is_away(&error)),
            }
        }
        self.state().log.flushed(mark);
        Ok(true)
    }

    /// Whether a group lies on the device as it was written. One of a segment that was given up
    /// since counts as whole.
    async fn is_kept(&self, group: &Unflushed) -> Result<bool, DeviceError> {
        let (zone_blocks, incarnation) = {
            let state = self.state();
            (state.info.zone_blocks, state.space.get(group.zone).incarnation)
        };
        if incarnation != group.incarnation {
            return Ok(true);
        }
        let start = group.zone.start(zone_blocks).plus(u64::from(group.offset));
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
