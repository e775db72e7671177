//! The state of an open store: every part of it, in one cell.

use std::collections::BTreeSet;

use mjolnir_device::{Buffers, DeviceInfo};
use mjolnir_map::{Map, Run};
use mjolnir_store::report::{LogLoss, RecoveryReport};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{Pba, ZoneId};

use crate::catalog::Catalog;
use crate::drive::checkpoint::CheckpointState;
use crate::drive::read::checksums::Checksums;
use crate::log::Log;
use crate::pacing::ReclaimState;
use crate::placement::Placement;
use crate::prepared::Transactions;
use crate::report::{Counters, ReadErrors, WarmState};
use crate::space::{NodeTableMedia, Space};

pub(crate) struct State {
    pub map: Map,
    pub catalog: Catalog,
    pub transactions: Transactions,
    pub space: Space,
    pub log: Log,
    pub placement: Placement,
    pub checksums: Checksums,
    pub table: NodeTableMedia,
    pub checkpoint: CheckpointState,
    pub reclaim: ReclaimState,
    pub counters: Counters,
    pub read_errors: ReadErrors,
    /// Memory for reads.
    pub buffers: Buffers,
    /// Memory for what clients write, lent to whoever serves them.
    pub client_buffers: Buffers,
    /// Memory for what clients send until it is decoded.
    pub client_inputs: Buffers,
    /// Whether the task that lets go of buffers knows that there are more than few.
    pub buffers_watched: bool,
    /// Room for the runs that a read finds.
    pub runs_room: Vec<Run>,
    /// Why the store takes no more changes; reads go on.
    pub failed: Option<Error>,
    /// What this opening had to leave out.
    pub log_loss: Option<LogLoss>,
    /// What this opening left out though nothing is damaged, and what it found damaged and left as it is.
    pub recovered: RecoveryReport,
    /// Where that is.
    pub damaged_at: Vec<Pba>,
    pub warm_log: WarmState,
    /// Of a medium that has become shorter: segments that may hold more than is known.
    pub unsure: BTreeSet<ZoneId>,
    /// Clients are refused.
    pub closing: bool,
    /// Tasks end once they have nothing to do.
    pub stopping: bool,
    pub flush_running: bool,
    /// Tasks of the engine that have not ended.
    pub tasks: usize,
    /// Client requests that wait to be admitted, or for space.
    pub clients_waiting: usize,
    /// What [`follow_budget`](Self::follow_budget) measures growth from.
    pub kept_at: u64,
    pub info: DeviceInfo,
}

impl State {
    pub fn check_health(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.closing => {
                Err(Error::new(ErrorKind::Closed, "the store is shutting down"))
            }
            None => Ok(()),
        }
    }
}
