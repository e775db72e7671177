//! Copies the live blocks of victims: reads them ahead, verifies them and appends them to another segment.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::ops::{Range, RangeInclusive};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_map::{Relocations, RelocationsBuilder};
use mjolnir_policy::pacing::Ahead;
use mjolnir_policy::read_plan::{ReadPlanView, Span};
use mjolnir_store::Error;
use mjolnir_store::report::ReadPurpose;
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::drive::{Engine, Pin, State, Sums};
use crate::format::group::GROUP_BLOCKS_MAX;
use crate::memory::dirty_bytes_max;
use crate::options::OpenOptions;
use crate::reclaim::victim::{LiveRun, LiveRuns, Victim};
use crate::yielding::yield_now;

/// Live blocks of a round: what is read from a victim, and then copied, in one go. The moved blocks are sent
/// to the log at the end of each round, so shorter rounds make shorter groups.
const ROUND_BLOCKS: RangeInclusive<u64> = 128..=512;

/// Within these bounds, a round is this part of the bytes that may wait to be written: one in so many.
const ROUND_SHARE: u64 = 16;

/// The rounds that are being read are this part of those bytes, one in so many, within the bounds of
/// [`ROUNDS_AHEAD`]. Beside them, memory holds the round that is being copied, the first round of the next
/// victim, and the blocks of earlier rounds that are being written.
const AHEAD_SHARE: u64 = 8;

const ROUNDS_AHEAD: RangeInclusive<u64> = 1..=3;

/// Blocks of one read: no fewer than the longest run has, since a run is verified out of a single read; as a
/// rule a whole round with its headers.
const READ_BLOCKS_MAX: u64 = 640;

const _: () = assert!(READ_BLOCKS_MAX >= GROUP_BLOCKS_MAX as u64);

/// If reclaim has waited for its share this long, and nobody wrote anything, it ends the cycle and frees the
/// memory that it holds. It has to mark again then, so this must not happen after every few writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long rounds that were read ahead are held while reclaim waits for its share. As a rule a client writes
/// sooner, and rounds that are given up have to be read again.
const HOLD: Duration = Duration::from_millis(100);

/// How far a victim's live blocks were copied, and where they went.
pub(super) enum Copied {
    /// All of them lie elsewhere, too.
    Whole(RelocationsBuilder),
    /// Some do, and reclaim is to rest: nothing was written since this sequence number.
    Part(RelocationsBuilder, u64),
    /// The store is closing.
    Closing,
}

/// A victim that can be copied.
pub(super) struct Ready<D: Device, R: Runtime> {
    victim: Victim,
    /// Its checksums: memory may have no room to keep them elsewhere. If they could not be loaded, verifying
    /// fails and says why.
    sums: Option<Sums>,
    /// Its first round, on its way.
    first: Option<Reads<D, R>>,
}

/// Whether all of the victim that is being copied is in memory or on its way: the device has time for
/// the next one.
#[derive(Default)]
pub(super) struct AllRead(Cell<bool>);

impl AllRead {
    /// Where no victim is being copied.
    pub fn noted() -> Self {
        AllRead(Cell::new(true))
    }

    pub fn note(&self) {
        self.0.set(true);
    }

    /// Waits for it. Registers no waker: [`beside`](super::beside) polls the waiter after each poll of the copy,
    /// and it is polled again once the copy has ended.
    async fn wait(&self) {
        poll_fn(|_| if self.0.get() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// Reads of a victim that are on their way. They hold its zone.
struct Reads<D: Device, R: Runtime> {
    pin: Pin<D, R>,
    spans: Vec<(Pba, LocalBoxFuture<'static, Result<AlignedBuf, DeviceError>>)>,
}

impl<D: Device, R: Runtime> Reads<D, R> {
    /// The spans that could be read, in order. A stale block that cannot be read fails its whole span, so the
    /// live runs of a missing span are worth another read without it.
    async fn finish(self) -> Vec<(Pba, Bytes)> {
        let mut read = Vec::with_capacity(self.spans.len());
        for (at, reading) in self.spans {
            if let Ok(buffer) = reading.await {
                read.push((at, buffer.freeze()));
            }
        }
        drop(self.pin);
        read
    }
}

/// A live run that was read.
pub(super) struct Verified<'a> {
    pub run: &'a LiveRun,
    pub bytes: Bytes,
    /// Where the checksums of its content are, as far as they are known.
    content: Range<usize>,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Finds out what of a victim is to be copied, while the victim before it is being copied; has its first
    /// round read once all of that one was, if the round will be copied at once. Returns the victim's zone, too.
    pub(super) async fn get_ready(
        &self,
        victim: Victim,
        before: &AllRead,
    ) -> (ZoneId, Result<Ready<D, R>, Error>) {
        (victim.zone, self.make_ready(victim, before).await)
    }

    async fn make_ready(&self, mut victim: Victim, before: &AllRead) -> Result<Ready<D, R>, Error> {
        let zone = victim.zone;
        // They are needed anyway, and tell where the headers are.
        let sums = self.load_checksums(ReadPurpose::Reclaim, zone).await.ok();
        victim.runs = self.live_runs(&victim).await?;
        before.wait().await;
        let first = rounds(&victim.runs.runs, round_blocks(&self.inner.options)).next();
        // Where reclaim would wait and hold the round, it is read later.
        let first = first.filter(|_| {
            let state = self.state();
            !state.is_paced() && !state.is_at_reserve()
        });
        let first = first.map(|first| self.start_reads(zone, first));
        Ok(Ready { victim, sums, first })
    }

    /// Copies a victim's live runs forward. Returns where they went; `groups` gains the groups that
    /// hold them. If it fails, the old data stays in force and nothing is lost but the effort.
    pub(super) async fn copy_out(
        &self,
        Ready { victim, first, sums }: Ready<D, R>,
        all_read: &AllRead,
        groups: &mut BTreeSet<u64>,
    ) -> Result<Copied, Error> {
        let Victim { zone, runs: LiveRuns { runs, opened }, .. } = victim;
        let mut moves = Relocations::builder();
        moves.reserve(runs.len());
        {
            let mut guard = self.state();
            let state = &mut *guard;
            let live = runs.iter().map(|run| run.blocks).sum();
            let now = state.log.sequence;
            state.placement.reclaimed(state.space.get(zone), live, opened, now);
        }
        // The next rounds are on their way while this one is copied.
        let rounds: Vec<&[LiveRun]> = rounds(&runs, round_blocks(&self.inner.options)).collect();
        let read_on = |ahead: &mut VecDeque<Reads<D, R>>, from: usize| {
            // Where reclaim waits again and again, it may have to give up the rounds ahead each time.
            let is_paced = self.state().is_paced();
            let most = if is_paced { 1 } else { rounds_ahead(&self.inner.options) };
            while ahead.len() < most
                && let Some(next) = rounds.get(from + ahead.len())
            {
                ahead.push_back(self.start_reads(zone, next));
            }
            from + ahead.len() == rounds.len()
        };
        let mut ahead: VecDeque<Reads<D, R>> = first.into_iter().collect();
        for (index, round) in rounds.iter().enumerate() {
            if !self.has_share_within(HOLD).await {
                // The wait may be long: payload that can be read again is not held meanwhile.
                for reads in ahead.drain(..) {
                    reads.finish().await;
                }
                if let Some(written) = self.wait_for_share().await {
                    return Ok(Copied::Part(moves, written));
                }
            }
            self.leave_room_to_clients().await;
            {
                let state = self.state();
                if state.closing {
                    return Ok(Copied::Closing);
                }
                if state.reclaim.asked.is_called_off() {
                    return Ok(Copied::Part(moves, state.log.sequence));
                }
            }
            read_on(&mut ahead, index);
            let reads = ahead.pop_front().expect("it was begun");
            let read = reads.finish().await;
            // Before this round is verified: the device would be idle meanwhile if it completed several reads at once.
            if read_on(&mut ahead, index + 1) {
                all_read.note();
                yield_now().await; // The next victim's is begun before this one is copied.
            }
            let copied =
                self.copy_round(zone, round, read, sums.as_ref(), &mut moves, groups).await;
            // Before any wait, even if the copy failed: clients may wait for a group that has not been sent.
            self.send_relocated();
            copied?;
            self.wait_while_dirty().await?;
        }
        let zone_blocks = self.state().space.zone_blocks;
        moves.empties(zone.start(zone_blocks), zone_blocks);
        Ok(Copied::Whole(moves))
    }

    /// Begins to read the live runs of a round, as the read plan says.
    fn start_reads(&self, zone: ZoneId, round: &[LiveRun]) -> Reads<D, R> {
        let mut guard = self.state();
        let state = &mut *guard;
        let start = zone.start(state.space.zone_blocks);
        let live: Vec<Span> =
            round.iter().map(|run| Span { at: run.at.0 - start.0, blocks: run.blocks }).collect();
        let view = ReadPlanView { live: &live, read_blocks_max: READ_BLOCKS_MAX };
        let plan = state.reclaim.read_plan.plan(&view);
        let pin = Pin::new(self, state, zone);
        let read = |span: Span| {
            let buffer = state.buffers.take((span.blocks * BLOCK_SIZE) as usize);
            let at = start.plus(span.at);
            (at, self.read_device(ReadPurpose::Reclaim, at, buffer).boxed_local())
        };
        Reads { pin, spans: plan.into_iter().map(read).collect() }
    }

    /// The bytes of a run out of what was read, each block verified; if it is not there in one
    /// piece, read by itself. `content` gets the checksums of their content, as far as they are known.
    async fn verified(
        &self,
        read: &[(Pba, Bytes)],
        run: &LiveRun,
        sums: Option<&Sums>,
        content: &mut Vec<u32>,
    ) -> Result<Bytes, Error> {
        let length = (run.blocks * BLOCK_SIZE) as usize;
        let before = read.partition_point(|(at, _)| *at <= run.at);
        if let Some((at, bytes)) = before.checked_sub(1).map(|index| &read[index]) {
            let from = ((run.at.0 - at.0) * BLOCK_SIZE) as usize;
            if from + length <= bytes.len() {
                let bytes = bytes.slice(from..from + length);
                let offset = run.at.offset(self.state().space.zone_blocks);
                let known = sums.and_then(|sums| sums.get(offset..offset + run.blocks));
                self.verify(ReadPurpose::Reclaim, run.at, &bytes, known, |sum| content.push(sum))
                    .await?;
                return Ok(bytes);
            }
        }
        self.read_verified(ReadPurpose::Reclaim, run.at, run.blocks).await
    }

    /// Verifies the runs of a round, then appends each to the stream that placement names and notes
    /// where its parts went.
    async fn copy_round(
        &self,
        zone: ZoneId,
        round: &[LiveRun],
        read: Vec<(Pba, Bytes)>,
        sums: Option<&Sums>,
        moves: &mut RelocationsBuilder,
        groups: &mut BTreeSet<u64>,
    ) -> Result<(), Error> {
        let mut content = Vec::with_capacity(round.iter().map(|run| run.blocks as usize).sum());
        let mut verified = Vec::with_capacity(round.len());
        for run in round {
            let from = content.len();
            let bytes = self.verified(&read, run, sums, &mut content).await?;
            verified.push(Verified { run, bytes, content: from..content.len() });
        }
        let moved_at = self.runtime().now();
        // How many runs were appended, and how many blocks of the next one.
        let (mut runs, mut done) = (0, 0);
        self.step(|state| {
            let mut moved = 0;
            let outcome = loop {
                let Some(next) = verified.get(runs) else { break Ok(()) };
                let known = content[next.content.clone()].get(done as usize..).unwrap_or(&[]);
                let (at, fit, group) = match state.append_moved(zone, next, done, known) {
                    Ok(appended) => appended,
                    Err(hurdle) => break Err(hurdle),
                };
                moves.add(next.run.at.plus(done), fit, at);
                if groups.last() != Some(&group) {
                    groups.insert(group);
                }
                (moved, done) = (moved + fit, done + fit);
                if done == next.run.blocks {
                    (runs, done) = (runs + 1, 0);
                }
            };
            state.reclaim.moved(moved, moved_at);
            state.reclaim.asked.moved(zone, moved);
            outcome
        })
        .await?;
        self.notify();
        Ok(())
    }

    /// Sends the groups that hold what reclaim moved.
    fn send_relocated(&self) {
        {
            let mut guard = self.state();
            let state = &mut *guard;
            state.log.close_moved_groups(&mut state.space);
        }
        self.inner.lead_wanted.notify(1);
        self.submit();
    }

    /// Whether pacing keeps reclaim from moving more.
    fn waits_for_share(&self) -> bool {
        let mut state = self.state();
        state.update_pacing();
        state.waits_for_share()
    }

    /// Waits until pacing lets reclaim move more, but no longer than `most`; whether it does.
    async fn has_share_within(&self, most: Duration) -> bool {
        if !self.waits_for_share() {
            return true;
        }
        self.notify();
        let waiting = self.wait_while(|state| state.waits_for_share());
        let too_long = self.runtime().sleep(most);
        matches!(select(pin!(waiting), pin!(too_long)).await, Either::Left(_))
    }

    /// Waits until pacing lets reclaim move more, or nobody has written anything for long: then it
    /// returns the log's sequence number.
    async fn wait_for_share(&self) -> Option<u64> {
        loop {
            let written = self.state().log.sequence;
            if self.has_share_within(PATIENCE).await {
                return None;
            }
            let state = self.state();
            if state.is_quiet() && state.log.sequence == written && state.waits_for_share() {
                return Some(written);
            }
        }
    }
}

/// Live blocks of a round.
fn round_blocks(options: &OpenOptions) -> u64 {
    let blocks = dirty_bytes_max(options) / ROUND_SHARE / BLOCK_SIZE;
    blocks.clamp(*ROUND_BLOCKS.start(), *ROUND_BLOCKS.end())
}

/// Rounds that are being read at once.
fn rounds_ahead(options: &OpenOptions) -> usize {
    let rounds = dirty_bytes_max(options) / AHEAD_SHARE / (round_blocks(options) * BLOCK_SIZE);
    rounds.clamp(*ROUNDS_AHEAD.start(), *ROUNDS_AHEAD.end()) as usize
}

/// Divides runs into rounds: each ends with the run that makes it `most` blocks or more.
fn rounds(runs: &[LiveRun], most: u64) -> impl Iterator<Item = &[LiveRun]> {
    let mut rest = runs;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut blocks = 0;
        let count = rest
            .iter()
            .take_while(|run| {
                let fits = blocks < most;
                blocks += run.blocks;
                fits
            })
            .count();
        let (round, tail) = rest.split_at(count);
        rest = tail;
        Some(round)
    })
}

impl State {
    /// Whether reclaim may move no more than its share.
    fn is_paced(&self) -> bool {
        let reclaim = &self.reclaim;
        let forced = self.reclaim.is_forced();
        let soon = reclaim.last_pacing.ahead == Ahead::Soon || self.should_choose_anew();
        let idle = match soon {
            true => !self.is_under_way(),
            false => reclaim.last_pacing.ahead == Ahead::AtRest && self.is_quiet(),
        };
        self.failed.is_none()
            && !self.closing
            && !forced
            && !reclaim.urgent
            && !idle
            && reclaim.last_pacing.active
    }

    /// Whether reclaim may move no more for now.
    fn waits_for_share(&self) -> bool {
        self.is_paced() && self.reclaim.gate.reclaim_may_move() == 0
    }
}
