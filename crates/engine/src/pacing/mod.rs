//! The state that reclaim and its pacing keep between their steps.
//!
//! Steps of clients look at it, too: how fast clients may go, whether a leaf that they touch refers to a candidate.

mod asked;
mod index;
mod leaf_set;
mod released;

pub(crate) use leaf_set::LeafSet;

use mjolnir_policy::pacing::{Gate, Pacing, PacingPolicy, Rhythm, ScanBudget};
use mjolnir_policy::read_plan::ReadPlanPolicy;
use mjolnir_policy::victim::VictimPolicy;
use mjolnir_policy::{pacing, read_plan, victim};
use mjolnir_store::Error;
use mjolnir_units::{Instant, ZoneId};

use crate::options::ReclaimOptions;
use crate::pacing::asked::Asked;
use crate::pacing::index::ReverseIndex;
use crate::pacing::released::Released;
use crate::space::{Retry, Segment, Space};

/// Blocks by which either side of the gate may run ahead.
const BURST_BLOCKS: u64 = 256;

/// See the module.
pub(crate) struct ReclaimState {
    pub cycles_begun: u64,
    /// The log's sequence number when the last one began.
    pub begun_at: u64,
    /// How many cycles had begun when the last one that won nothing began.
    pub fruitless_from: Option<u64>,
    /// The log's sequence number when the last such cycle began, or when reclaim went to rest: until
    /// it grows there is nothing new to win.
    pub fruitless_at: Option<u64>,
    /// Segments opened so far, when pacing was last told of one.
    pub allocated_seen: u64,
    /// Clients lack space: collect whatever there is to win, at full speed.
    pub urgent: bool,
    /// It is not to begin by itself while there is room, as whoever coordinates it ordered.
    pub held: bool,
    /// How many cycles had begun when that was last asked for.
    pub urgent_from: u64,
    /// What was asked for by name (`gc run`).
    pub asked: Asked,
    pub running: bool,
    /// Why nothing is won, if that is known.
    pub failure: Option<Error>,
    /// The last cycle failed by a request that may succeed the next time.
    pub stumbled: bool,
    /// Set if the device failed for a mark: when that is tried again.
    pub mark_retry: Option<Retry>,
    /// When something that the device failed for is tried again next.
    pub retry_at: Option<Instant>,
    /// How often something was.
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
    /// Stale blocks of the segments given up, as they were last counted.
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
            held: false,
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

    /// Whether reclaim was asked for, whatever the utilization.
    pub fn is_forced(&self) -> bool {
        self.asked.is_open()
    }

    /// Whether even what is wholly live is moved where reclaim is asked for: the paper's way of measuring.
    pub fn moves_everything(&self) -> bool {
        self.options.candidate_threshold >= 1.0
    }

    /// Whether a segment was there, and sealed unless all are to be moved, when the last call by name came.
    pub fn was_there(&self, segment: &Segment) -> bool {
        self.asked.was_there(segment, self.moves_everything())
    }

    /// Makes a plan of these segments, for the first `calls` calls by name.
    pub fn plan(&mut self, zones: impl IntoIterator<Item = ZoneId>, space: &Space, calls: u64) {
        self.asked.make_plan(zones, space, calls, self.options.candidates_max);
    }

    /// Whether clients' writes must wait for reclaim.
    pub fn gate_closed(&self) -> bool {
        self.options.enabled && !self.index.is_empty() && !self.gate.client_may_write()
    }

    pub fn client_wrote(&mut self, blocks: u64) {
        self.gate.client_wrote(blocks);
    }

    /// Reclaim moved blocks of a batch.
    pub fn moved(&mut self, blocks: u64, now: Instant) {
        self.counters.blocks_moved += blocks;
        self.gate.reclaim_moved(blocks);
        self.rhythm.copied(now, blocks);
        self.follow_rhythm(now);
    }

    /// Reclaim has moved all that it will of a batch.
    pub fn batch_copied(&mut self, now: Instant) {
        self.rhythm.end(now);
        self.follow_rhythm(now);
    }

    /// Lets clients run ahead by as much as they may now.
    pub fn follow_rhythm(&mut self, now: Instant) {
        self.gate.allow(self.rhythm.lead_blocks(now));
    }

    /// How many cycles had begun before the last one that won nothing. Where reclaim is off, no cycle will ever
    /// win anything.
    pub fn fruitless_from(&self) -> Option<u64> {
        if self.options.enabled { self.fruitless_from } else { Some(u64::MAX) }
    }
}
