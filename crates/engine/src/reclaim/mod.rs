//! Reclaim: mark → select → relocate → sweep.
//!
//! A *cycle* is one walk of the whole map. It does the work of two scans at once, for disjoint
//! sets of segments, as the paper's pipelined scanner does (Mjölnir, INFLOW'15, section 4.2.2):
//! it counts the live blocks of every sealed segment, and it finds the leaves that refer to the
//! *candidates*, which were selected after the cycle before, or before the walk where all segments
//! are to be moved anyway. Then the candidates are relocated, and the next ones selected.
//!
//! Invariants:
//!
//! * While candidates exist, every new leaf version, and every leaf that gains existing
//!   references, is checked, and joins the reverse index if it refers to one (`take_touched`).
//! * Candidates are given up only when, in one step without an `.await`, every leaf in their index
//!   has been repointed and no touched leaf is unchecked.
//! * What is given up is *retiring* until a checkpoint frozen afterwards is durable.

mod asked;
mod copy;
mod index;
mod lead;
mod leaf_set;
mod live;
mod live_runs;
mod mark;
mod marked;
mod released;
mod relocate;
mod repoint;
mod select;
mod stuck;
mod wear;

pub use asked::Collected;
#[doc(hidden)]
pub use mark::MarkLoop;
pub(crate) use relocate::yield_now;
pub(crate) use stuck::{Retry, Stuck};

use std::mem::replace;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_policy::pacing::{self, Gate, Pacing, PacingPolicy, PacingView, Rhythm, ScanBudget};
use mjolnir_policy::read_plan::{self, ReadPlanPolicy};
use mjolnir_policy::victim::{self, VictimPolicy};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{Instant, ZoneId};

use crate::engine::{Engine, State};
use crate::options::ReclaimOptions;
use crate::reclaim::asked::Asked;
use crate::reclaim::index::ReverseIndex;
use crate::reclaim::mark::Walked;
use crate::reclaim::marked::Marked;
use crate::reclaim::released::Released;
use crate::space::SegmentState;

/// Map nodes that may be garbage before a mark runs for their sake: some 100 MiB at most.
const GARBAGE_NODES_MIN: usize = 32_768;
/// A cycle that won nothing is followed by a rest of so many times its processor time, and of at
/// least so long.
const REST_CYCLES: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(20);
/// One that failed is followed by a rest of at least so long.
const REST_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Blocks that either side of the gate may run ahead by.
const BURST_BLOCKS: u64 = 256;

/// What reclaim knows between its steps.
pub(crate) struct ReclaimState {
    pub cycles_begun: u64,
    /// The log's sequence number when the last one began.
    begun_at: u64,
    /// For each of the last cycles that won nothing: how many had begun when it began.
    fruitless_from: Option<u64>,
    /// The log's sequence number when the last such cycle began, or when reclaim went to rest: until
    /// it grows there is nothing new to win.
    fruitless_at: Option<u64>,
    /// Segments opened so far, when pacing was last told of one.
    pub allocated_seen: u64,
    /// Clients lack space: collect whatever there is to win, at full speed.
    pub urgent: bool,
    /// How many cycles had begun when that was last asked for.
    pub urgent_from: u64,
    /// What was asked for by name (`gc run`).
    pub asked: Asked,
    pub running: bool,
    /// Why nothing is won, as far as is known.
    pub failure: Option<Error>,
    /// The last cycle failed by a request that may succeed the next time.
    stumbled: bool,
    /// Where the device failed for a mark, the last time.
    mark_retry: Option<Retry>,
    /// When something that the device failed for is tried again next.
    pub retry_at: Option<Instant>,
    /// Times that something was.
    pub retries: u64,
    /// Map nodes in use when the last mark ended (or the store was opened).
    pub nodes_marked: usize,
    /// Segments to relocate, with the leaves that refer to them.
    pub index: ReverseIndex,
    /// Space that deletions and trims left behind.
    pub released: Released,
    /// How often something had been referred to again when a mark last found nothing that was referred
    /// to twice: if it is so often still, nothing is.
    pub singly_at: Option<u64>,
    /// Memory that the mark's live bits may take: while one runs, and while they are of use.
    pub mark_bytes: u64,
    /// Memory that the relocation under way takes.
    pub batch_bytes: u64,
    pub pacing: Box<dyn PacingPolicy>,
    /// One for the life of the store: some draw lots.
    pub victim: Box<dyn VictimPolicy>,
    pub read_plan: Box<dyn ReadPlanPolicy>,
    pub gate: Gate,
    pub rhythm: Rhythm,
    pub budget: ScanBudget,
    pub last_pacing: Pacing,
    pub options: ReclaimOptions,
    pub counters: ReclaimCounters,
}

/// What reclaim did since the store was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReclaimCounters {
    pub cycles: u64,
    pub leaves_scanned: u64,
    pub mappings_scanned: u64,
    pub scan_cpu_ns: u64,
    pub segments_retired: u64,
    /// Segments chosen for the sake of wear alone.
    pub segments_levelled: u64,
    /// Payload of the segments given up that nothing referred to when it was last counted.
    pub blocks_won: u64,
    pub blocks_moved: u64,
    pub leaves_repointed: u64,
    pub copy_forward_failures: u64,
    pub panics: u64,
}

impl ReclaimState {
    /// `index_bytes` is what the reverse index may take; `processors`, how many may scan at once.
    pub fn new(options: &ReclaimOptions, index_bytes: u64, processors: usize) -> Self {
        ReclaimState {
            cycles_begun: 0,
            begun_at: 0,
            fruitless_from: None,
            fruitless_at: None,
            allocated_seen: 0,
            urgent: false,
            urgent_from: 0,
            asked: Asked::default(),
            running: false,
            failure: None,
            stumbled: false,
            mark_retry: None,
            retry_at: None,
            retries: 0,
            nodes_marked: 0,
            index: ReverseIndex::new(index_bytes),
            released: Released::default(),
            singly_at: None,
            mark_bytes: 0,
            batch_bytes: 0,
            pacing: pacing::by_name(&options.pacing)
                .expect("the policy's name was checked when the store was opened"),
            read_plan: read_plan::by_name(&options.read_plan)
                .expect("the policy's name was checked when the store was opened"),
            victim: victim::seeded(&options.policy, options.seed)
                .expect("the policy's name was checked when the store was opened"),
            gate: Gate::new(BURST_BLOCKS),
            rhythm: Rhythm::default(),
            budget: ScanBudget::new(options.scan_cpu_max, processors as f64),
            last_pacing: Pacing::default(),
            options: options.clone(),
            counters: ReclaimCounters::default(),
        }
    }

    /// Whether clients' writes must wait for reclaim.
    pub fn gate_closed(&self) -> bool {
        self.options.enabled && !self.index.is_empty() && !self.gate.client_may_write()
    }

    pub fn client_wrote(&mut self, blocks: u64) {
        self.gate.client_wrote(blocks);
    }

    /// Reclaim moved blocks of a batch.
    fn moved(&mut self, blocks: u64, now: Instant) {
        self.counters.blocks_moved += blocks;
        self.gate.reclaim_moved(blocks);
        self.rhythm.copied(now, blocks);
        self.follow_rhythm(now);
    }

    /// Reclaim has moved all that it will of a batch.
    fn batch_copied(&mut self, now: Instant) {
        self.rhythm.end(now);
        self.follow_rhythm(now);
    }

    /// Lets clients run ahead by as much as they may now.
    fn follow_rhythm(&mut self, now: Instant) {
        self.gate.allow(self.rhythm.lead_blocks(now));
    }

    /// For the last cycle that won nothing: how many had begun before it. Where reclaim is off, none
    /// will ever win anything.
    pub fn fruitless_from(&self) -> Option<u64> {
        if self.options.enabled { self.fruitless_from } else { Some(u64::MAX) }
    }
}

/// What a cycle won.
#[derive(Clone, Copy, Debug, Default)]
struct Won {
    /// Segments given up.
    retired: usize,
    /// Whether candidates were tried for which there was no room.
    cramped: bool,
    /// Candidates selected for the next cycle.
    selected: usize,
    /// Nobody writes any more: since this sequence number.
    rests: Option<u64>,
}

/// How things stood when a cycle began.
struct Begun {
    /// Calls for reclaim by name that had come.
    calls: u64,
    /// Cycles begun before it.
    begun: u64,
    /// Free segments.
    free: usize,
    /// The last sequence number.
    sequence: u64,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Wins what can be won now, whatever the utilization, and returns how many segments it gave up; see
    /// [`collect_telling`](Self::collect_telling).
    pub async fn collect(&self) -> Result<u64, Error> {
        Ok(self.collect_telling().await?.segments)
    }

    /// Wins what can be won now, whatever the utilization: empties the segments that are sealed by now and
    /// pay, each once. Leaves clients most of the device meanwhile; dropped before its end, it calls off
    /// what is left. Fails if it won nothing, since a part of the map cannot be read or the device
    /// fails for what could be won, and goes on failing.
    pub async fn collect_telling(&self) -> Result<Collected, Error> {
        let retries = self.state().reclaim.retries;
        match self.collect_once().await {
            Err(error) if error.kind == ErrorKind::Io => {
                match self.wait_for_retry(retries, |state| state.closing).await {
                    true => self.collect_once().await,
                    false => Err(error),
                }
            }
            outcome => outcome,
        }
    }

    async fn collect_once(&self) -> Result<Collected, Error> {
        self.state().check_health()?;
        let mut won = self.ask_for_all().await;
        let (more, failure) = {
            let mut state = self.state();
            state.check_health()?;
            state.update_reserve();
            let more = state.space.count(SegmentState::Retiring) > 0
                || state.checkpoint.running
                || state.checkpoint.is_compacting()
                || state.map.is_changed();
            (more, state.reclaim.failure.clone())
        };
        if more {
            self.checkpoint().await?;
        }
        (won.released, won.released_bytes) = self.release_all().await?;
        match failure {
            Some(Error { kind, message }) if won.segments == 0 => {
                Err(Error::new(kind, format!("reclaim fails: {message}")))
            }
            _ => Ok(won),
        }
    }

    /// The task that collects while there is reason to.
    pub(crate) async fn reclaim_task(self) {
        loop {
            let listener = self.inner.reclaim_wanted.listen();
            let (ends, wanted) = {
                let mut state = self.state();
                state.update_pacing();
                let ends = state.failed.is_some() || state.closing;
                (ends, state.reclaim_due())
            };
            if ends {
                let mut state = self.state();
                state.reclaim.running = false;
                state.forget_candidates();
                drop(state);
                self.notify();
                return;
            }
            if !wanted {
                {
                    let mut state = self.state();
                    state.reclaim.running = false;
                    state.reclaim.rhythm.rest();
                }
                self.notify();
                listener.await;
                continue;
            }
            // Else it would take the calls that are meant for those that listen within a cycle.
            drop(listener);
            self.state().reclaim.running = true;
            let scanned_ns = self.state().reclaim.counters.scan_cpu_ns;
            if let Err(error) = self.collect_until_done().await {
                // The old data is still in force. Try again a little later, unless the store
                // failed.
                let scanned_ns = self.state().reclaim.counters.scan_cpu_ns - scanned_ns;
                self.note_mark_failed(&error);
                self.state().give_up_cycle(&error);
                self.notify();
                if self.state().failed.is_none() {
                    let rest = REST_CYCLES * Duration::from_nanos(scanned_ns);
                    self.runtime().sleep(rest.max(REST_AFTER_FAILURE)).await;
                }
            }
        }
    }

    /// Cycles until pacing wants no more, or there is nothing to win.
    async fn collect_until_done(&self) -> Result<(), Error> {
        loop {
            let (calls, begun, free, sequence, scanned_ns) = {
                let mut state = self.state();
                let begun = state.reclaim.cycles_begun;
                state.reclaim.cycles_begun += 1;
                state.reclaim.begun_at = state.log.sequence;
                let scanned_ns = state.reclaim.counters.scan_cpu_ns;
                let free = state.space.free_count();
                (state.reclaim.asked.calls(), begun, free, state.log.sequence, scanned_ns)
            };
            let won = self.cycle(calls).await?;
            if won.retired > 0 {
                self.inner.checkpoint_wanted.notify(1);
            }
            let relieved = {
                let state = self.state();
                won.retired > 0 && state.space.count(SegmentState::Retiring) > 0
            };
            if relieved && (self.state().reclaim.urgent || won.selected == 0) {
                self.checkpoint_within_task().await?;
            }
            let (more, pause) =
                self.state().conclude_cycle(won, Begun { calls, begun, free, sequence });
            self.notify();
            if more {
                continue;
            }
            if pause {
                // Scarce, but nothing to win until clients overwrite more: look again now and then.
                let scanned_ns = self.state().reclaim.counters.scan_cpu_ns - scanned_ns;
                self.rest_unless_asked(Duration::from_nanos(scanned_ns)).await;
            }
            if !self.state().reclaim.index.is_empty() {
                continue;
            }
            return Ok(());
        }
    }

    /// Rests after a scan that found nothing, but not while somebody asks for space. Once much was deleted
    /// it rests for no longer than the scan took, and until less is.
    async fn rest_unless_asked(&self, scanned: Duration) {
        let mut rest = pin!(self.runtime().sleep((REST_CYCLES * scanned).max(REST_MIN)));
        let mut look = pin!(self.runtime().sleep(scanned.max(REST_MIN)));
        let mut reckoned = self.state().reclaim.released.reckoned();
        loop {
            let asked = self.inner.reclaim_wanted.listen();
            {
                let state = self.state();
                if state.reclaim.urgent
                    || state.is_forced()
                    || state.closing
                    || state.failed.is_some()
                {
                    return;
                }
            }
            match select(&mut rest, select(&mut look, asked)).await {
                Either::Left(_) => return,
                Either::Right((Either::Right(_), _)) => {}
                Either::Right((Either::Left(_), _)) => {
                    let state = self.state();
                    let before = replace(&mut reckoned, state.reclaim.released.reckoned());
                    // While more is, a mark that begins would not tell of it.
                    if state.should_choose_anew() && reckoned - before < state.much_blocks() {
                        return;
                    }
                    drop(state);
                    look.set(self.runtime().sleep(REST_MIN));
                }
            }
        }
    }

    /// A checkpoint on behalf of reclaim, so that what retires becomes free.
    async fn checkpoint_within_task(&self) -> Result<(), Error> {
        if self.state().closing { Ok(()) } else { self.checkpoint().await }
    }

    /// One walk, and what follows from it; `calls` had come before it began.
    async fn cycle(&self, calls: u64) -> Result<Won, Error> {
        let mut won = Won::default();
        self.select_all();
        let walked = self.mark().await?;
        let emptied = self.retire_empty(&walked);
        let mut marked = self.state().remember(walked);
        if self.inner.options.paranoid {
            for zone in &emptied {
                self.prove_unreferenced(*zone).await?;
            }
        }
        won.retired += emptied.len();
        while !won.cramped && self.state().has_candidates() {
            // Repointing dirties leaves, as many bytes as are moved or more.
            if self.state().is_squeezed() {
                self.checkpoint_within_task().await?;
            }
            let relocated = self.relocate(&mut marked).await?;
            won.retired += relocated.retired;
            won.cramped = relocated.cramped;
            won.rests = relocated.rests;
            if won.rests.is_some() {
                break;
            }
            // Not before the first: who deletes all the time must not keep reclaim from its work.
            if self.state().should_choose_anew() {
                break;
            }
        }
        {
            let mut state = self.state();
            if state.reclaim.asked.is_called_off() {
                won.rests = Some(state.log.sequence);
            }
            state.forget_candidates();
            state.reclaim.counters.cycles += 1;
        }
        if won.rests.is_none() {
            won.selected = self.select(calls);
        }
        Ok(won)
    }

    /// Gives up segments in which the mark found nothing live.
    fn retire_empty(&self, walked: &Walked) -> Vec<ZoneId> {
        let mut state = self.state();
        let mut retired = Vec::new();
        let written = state.counters.client_write_blocks;
        state.reclaim.released.end_mark(walked.blocks, written);
        for (zone, count) in walked.live.counts() {
            let segment = state.space.get_mut(zone);
            if segment.state != SegmentState::Sealed {
                continue;
            }
            segment.live = Some(count);
            if count == 0 {
                let State { placement, space, log, .. } = &mut *state;
                placement.reclaimed(space.get(zone), 0, None, log.sequence);
                state.retire(zone);
                retired.push(zone);
            }
        }
        retired
    }
}

impl State {
    /// Gives a segment up: nothing refers to it any more.
    fn retire(&mut self, zone: ZoneId) {
        let segment = self.space.get_mut(zone);
        (segment.state, segment.stuck) = (SegmentState::Retiring, None);
        let payload = segment.payload;
        let won = payload.saturating_sub(segment.live.unwrap_or(payload));
        self.reclaim.released.won(won.into());
        self.reclaim.counters.blocks_won += u64::from(won);
        self.reclaim.index.remove(zone);
        self.reclaim.asked.retired(self.space.get(zone));
        self.reclaim.counters.segments_retired += 1;
        self.reclaim.failure = None;
    }

    /// Keeps of what a mark found live what is said of candidates.
    fn remember(&mut self, walked: Walked) -> Marked {
        self.reclaim.asked.begin_work();
        let marked = Marked::new(walked);
        self.reclaim.mark_bytes = marked.bytes();
        marked
    }

    /// Nothing is being moved any more, nor is to be.
    fn forget_candidates(&mut self) {
        self.reclaim.index.clear();
        self.reclaim.mark_bytes = 0;
        self.reclaim.asked.candidates_are_planned(false);
        self.map.track_leaves(false);
        self.map.watch_displaced(0, self.space.zone_blocks, &[]);
    }

    /// Whether there is something to relocate, and time for it.
    fn has_candidates(&self) -> bool {
        !self.reclaim.index.is_empty() && !self.closing && !self.reclaim.asked.is_called_off()
    }

    /// Whether so much was deleted that other segments may be emptier than the candidates.
    pub(crate) fn should_choose_anew(&self) -> bool {
        let ReclaimState { urgent, last_pacing, .. } = &self.reclaim;
        let hurried = *urgent || self.is_forced() || last_pacing.panic;
        !hurried && self.is_much_deleted()
    }

    /// Whether so much was deleted since the last mark began that another is worth while.
    fn is_much_deleted(&self) -> bool {
        self.reclaim.released.reckoned() >= self.much_blocks()
    }

    /// Blocks that are much to delete.
    fn much_blocks(&self) -> u64 {
        let store_blocks = self.space.segments.len() as u64 * self.space.zone_blocks;
        (store_blocks / 64).max(self.space.zone_blocks)
    }

    /// Asks the pacing policy again.
    pub fn update_pacing(&mut self) {
        let zone_blocks = self.space.zone_blocks;
        let mut reclaimable = 0;
        for (_, segment) in self.space.sealed_data() {
            if segment.stuck().is_none() {
                // Unmarked segments are reckoned half stale until a mark knows better.
                let live = segment.live.map_or(zone_blocks / 2, u64::from);
                reclaimable += zone_blocks.saturating_sub(live);
            }
        }
        let view = PacingView {
            free_segments: self.space.free_count() as u32,
            retiring_segments: self.space.count(SegmentState::Retiring) as u32,
            open_room_blocks: self.client_room_blocks().min(zone_blocks),
            reserve_segments: self.space.reserve() as u32,
            total_segments: self.space.segments.len() as u32,
            segment_blocks: zone_blocks,
            reclaimable_blocks: reclaimable,
            released_blocks: self.reclaim.released.blocks().min(reclaimable),
            much_deleted: self.is_much_deleted(),
            client_work_waiting: !self.is_quiet(),
            client_work_under_way: self.is_under_way(),
            reclaim_work_waiting: !self.reclaim.index.is_empty(),
            start_utilization: self.reclaim.options.start_utilization,
        };
        let was = self.reclaim.last_pacing;
        let mut pacing = self.reclaim.pacing.decide(&view);
        // Panic is for when relocation can win space; else clients would wait for nothing.
        pacing.panic &= !self.reclaim.index.is_empty();
        if pacing.panic && !was.panic {
            self.reclaim.counters.panics += 1;
        }
        self.reclaim.gate.update(pacing);
        self.reclaim.last_pacing = pacing;
    }

    /// A cycle failed.
    fn give_up_cycle(&mut self, error: &Error) {
        self.reclaim.counters.copy_forward_failures += 1;
        self.forget_candidates();
        self.reclaim.released.abort_mark();
        self.map.abort_mark();
        self.reclaim.running = false;
        // By one failure of a device nothing is proven.
        if error.kind != ErrorKind::Io || replace(&mut self.reclaim.stumbled, true) {
            self.give_up_what_was_asked(error);
        }
        self.update_pacing();
    }

    /// Nor will the next cycle win what anybody waits for.
    fn give_up_what_was_asked(&mut self, error: &Error) {
        self.reclaim.asked.answer_all();
        // What cannot be marked cannot be won: whoever waits for room hears of it.
        let lasts = matches!(error.kind, ErrorKind::Io | ErrorKind::Damaged);
        self.reclaim.failure = lasts.then(|| error.clone());
        let begun = self.reclaim.cycles_begun.saturating_sub(1);
        self.reclaim.fruitless_from = Some(begun);
        if error.kind == ErrorKind::Damaged {
            // Nor would others fare better, until something is written.
            self.reclaim.fruitless_at = Some(self.reclaim.begun_at);
        }
        self.reclaim.urgent &= self.reclaim.urgent_from > begun;
    }

    /// Draws the sum of a cycle. Returns whether another follows at once, and whether to pause
    /// first because space is scarce and there is nothing to win.
    fn conclude_cycle(&mut self, won: Won, at: Begun) -> (bool, bool) {
        let Begun { calls, begun, free, sequence } = at;
        (self.reclaim.stumbled, self.reclaim.failure) = (false, None);
        let gained = self.space.free_count() > free || won.retired > 0;
        let fruitless = !gained && won.rests.is_none() && (won.selected == 0 || won.cramped);
        if won.rests.is_some() && self.reclaim.released.reckoned() == 0 {
            // Until somebody writes again, or did meanwhile.
            self.reclaim.fruitless_at = won.rests;
        }
        if fruitless {
            if !won.cramped && self.reclaim.last_pacing.active {
                // Candidates were looked for and not found: else marks would follow one another while
                // clients write.
                self.reclaim.released.give_up();
            }
            // Who reads what is damaged hears of that.
            self.reclaim.failure = self.lost_to_outage().cloned();
            self.reclaim.fruitless_from = Some(begun);
            self.reclaim.fruitless_at = Some(sequence);
            // Whoever asked after this cycle began is owed another.
            self.reclaim.urgent &= self.reclaim.urgent_from > begun;
            self.reclaim.asked.answer(calls);
        } else if self.space.free_count() > 2 * self.space.reserve() {
            self.reclaim.urgent = false;
        }
        self.reclaim.asked.answer_what_is_over();
        self.update_pacing();
        let idle = fruitless || (won.selected == 0 && won.retired == 0);
        let more = !self.closing && self.failed.is_none() && !idle && self.reclaim_due();
        if !more && (idle || self.closing) {
            self.reclaim.asked.answer(calls);
        }
        if self.reclaim.asked.is_called_off() {
            self.forget_candidates();
        }
        let pause = idle && self.reclaim_due() && !self.closing;
        (more, pause)
    }

    /// Whether a cycle should run now.
    fn reclaim_due(&self) -> bool {
        let reclaim = &self.reclaim;
        let news = reclaim.fruitless_at != Some(self.log.sequence);
        // Copies of shared nodes that nothing names any more are freed by a mark alone; without
        // this, snapshots that come and go on a mostly empty store would fill memory.
        let garbage = self.map.nodes() > 2 * reclaim.nodes_marked + GARBAGE_NODES_MIN;
        self.is_forced()
            || garbage
            || (reclaim.options.enabled && (reclaim.urgent || (reclaim.last_pacing.active && news)))
    }
}
