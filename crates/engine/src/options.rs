//! What an operator can set.

use std::time::Duration;

use mjolnir_store::report::LogLoss;

/// Choices made once, when a store is formatted.
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {}

/// Choices made each time a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Refuse changes, and write nothing to the device.
    pub read_only: bool,
    /// Open a store whose log or node table is damaged, which is refused otherwise: as of the last
    /// record that is whole with all before it. [`Engine::log_loss`](crate::drive::Engine::log_loss) says
    /// what it lacks. With `read_only` this changes nothing; without, it is final.
    pub salvage: bool,
    /// What a salvage may accept: that it lacks this, and nothing else. None for whatever it is.
    pub salvage_only: Option<LogLoss>,
    /// How long requests wait while the device is away or its medium has no space. Then they are
    /// refused, until it is over.
    pub patience: Duration,
    /// Bytes of acknowledged writes that may wait in memory; more of them wait for the device. At
    /// most a quarter of `memory_bytes` counts.
    pub dirty_bytes_max: u64,
    /// Bytes of acknowledged writes that no flush of the device covers, about: a power cut takes no
    /// more from clients that never flush, and recovery has no more to verify, but for what reclaim
    /// moved into the same groups, where placement puts both into one stream. The engine flushes of its
    /// own accord after an eighth of it; while a flush runs, half of it is accepted, and more waits.
    pub unflushed_bytes_max: u64,
    /// How long a partly filled group waits for company when no flush asks for it, at least; twice as
    /// long at most. Each group has a header block, so that short ones leave less of a segment to
    /// blocks; what waits is lost with the program.
    pub linger: Duration,
    /// How long the log is without records before the root is written anew, with the number of the last that is
    /// durable; at most once a second.
    pub promise_after: Duration,
    /// Client streams: append points that writes are spread over (1 to 8). Counts for placement
    /// policies that do not look at clients' blocks themselves; others have one for each class.
    pub client_streams: u8,
    /// The placement policy: its name, or its name with parameters, as in `dac:classes=4`. Where few zones can be open, or there are few segments, its
    /// last classes share a stream; the statistics say so.
    pub placement: String,
    /// Bytes for all that grows with the store or the load: the map and its table, checksums,
    /// unwritten data, reclaim's bits and index. Clean map nodes and checksums are dropped where
    /// it would be exceeded.
    pub memory_bytes: u64,
    /// Of those, bytes of checksums of sealed segments at most. What is not in memory is read again
    /// from the segment when a block of it is.
    pub checksum_bytes_max: u64,
    /// A checkpoint is taken after this many bytes of log.
    pub checkpoint_bytes: u64,
    /// Reclaim.
    pub reclaim: ReclaimOptions,
    /// Before each segment is given up, prove by a full mark that nothing refers to it. For
    /// tests: it costs a walk of the whole map.
    pub paranoid: bool,
}

/// How garbage is collected.
#[derive(Clone, Debug)]
pub struct ReclaimOptions {
    /// Collect at all.
    pub enabled: bool,
    /// Collect once this part of the segments is in use (the paper: 0.5).
    pub start_utilization: f64,
    /// A segment is a candidate while at most this part of it is live; 1.0 takes fully live ones.
    pub candidate_threshold: f64,
    /// The victim policy: its name, or its name with parameters, as in `d-choices:choices=4`.
    pub policy: String,
    /// What a victim policy that draws lots draws them from, unless `policy` says a seed.
    pub seed: u64,
    /// The pacing policy: its name, or its name with parameters.
    pub pacing: String,
    /// The read-plan policy: its name, or its name with parameters.
    pub read_plan: String,
    /// The most candidates at once: bounds the reverse index's memory.
    pub candidates_max: usize,
    /// Static wear levelling: where erases of two segments differ by more than this, the data of the
    /// least worn one is moved, too, while reclaim is at work. Counts on devices that leave their wear
    /// to the store. `None`: nothing moves for that.
    pub wear_gap_max: Option<u32>,
    /// The part of one core that scanning may take while space is plentiful.
    pub scan_cpu_max: f64,
}

impl Default for ReclaimOptions {
    fn default() -> Self {
        ReclaimOptions {
            enabled: true,
            start_utilization: 0.5,
            candidate_threshold: 0.95,
            policy: "greedy".into(),
            seed: 0,
            pacing: "free-space".into(),
            read_plan: "near".into(),
            candidates_max: 32,
            wear_gap_max: None,
            scan_cpu_max: 0.3,
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            read_only: false,
            salvage: false,
            salvage_only: None,
            patience: Duration::from_secs(60),
            dirty_bytes_max: 64 << 20,
            unflushed_bytes_max: 256 << 20,
            linger: Duration::from_millis(10),
            promise_after: Duration::from_millis(100),
            client_streams: 1,
            placement: "apart".into(),
            memory_bytes: 1 << 30,
            checksum_bytes_max: u64::MAX,
            checkpoint_bytes: 1 << 30,
            reclaim: ReclaimOptions::default(),
            paranoid: false,
        }
    }
}
