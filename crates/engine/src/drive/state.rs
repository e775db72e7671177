//! The state of an open store: all its parts, in one cell.

use std::collections::BTreeSet;

use mjolnir_device::{Buffers, DeviceError, DeviceInfo};
use mjolnir_map::{Map, Run};
use mjolnir_store::report::{LogLoss, RecoveryReport};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{Pba, ZoneId};

use crate::catalog::Catalog;
use crate::drive::checkpoint::CheckpointState;
use crate::drive::outage::Outage;
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
    /// Read buffers.
    pub buffers: Buffers,
    /// Write buffers, lent to the servers of clients.
    pub client_buffers: Buffers,
    /// Input buffers for clients' data until it is decoded.
    pub client_inputs: Buffers,
    /// Whether the buffers task knows that there are more than a few buffers.
    pub buffers_watched: bool,
    /// Reusable buffer for the runs that a read finds.
    pub runs_room: Vec<Run>,
    /// The error after which the store takes no more changes; reads continue.
    pub failed: Option<Error>,
    /// Records and ranges that this opening lost to damage.
    pub log_loss: Option<LogLoss>,
    /// Records that this opening left out without damage, and damage that it found and left in
    /// place.
    pub recovered: RecoveryReport,
    /// Addresses of that damage.
    pub damaged_at: Vec<Pba>,
    pub warm_log: WarmState,
    /// On a medium that has shrunk: segments that may hold more than is known.
    pub unsure: BTreeSet<ZoneId>,
    /// The device takes nothing at present.
    pub outage: Option<Outage>,
    /// Segments whose appends failed since one worked.
    pub failing: BTreeSet<ZoneId>,
    /// Writes and flushes that failed: after each, the device may have lost something.
    pub doubts: u64,
    /// Of those, the first ones after which all was verified.
    pub doubts_settled: u64,
    /// How often places were given up since an append worked, because the device took no writes.
    pub given_up: u32,
    /// Appends that were made again and are under way.
    pub repeated: BTreeSet<u64>,
    /// The store is open: what fails is tried again. While it is being opened, opening fails.
    pub is_serving: bool,
    /// Clients are refused.
    pub closing: bool,
    /// Tasks end once they have nothing to do.
    pub stopping: bool,
    pub flush_running: bool,
    /// Number of running engine tasks.
    pub tasks: usize,
    /// Client requests that wait to be admitted, or for space.
    pub clients_waiting: usize,
    /// The memory use that [`follow_budget`](Self::follow_budget) measures growth from.
    pub kept_at: u64,
    pub info: DeviceInfo,
}

impl State {
    /// The device failed to write to a segment.
    pub fn note_bad(&mut self, zone: ZoneId, error: &DeviceError) {
        self.note_write_error(error);
        self.space.note_bad(zone, &error.to_string());
    }

    /// The device failed to write.
    pub fn note_write_error(&mut self, error: &DeviceError) {
        self.counters.write_errors += 1;
        self.counters.last_write_error = Some(error.to_string());
    }

    pub fn check_health(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.closing => {
                Err(Error::new(ErrorKind::Closed, "the store is shutting down"))
            }
            None => self.refusal().cloned().map_or(Ok(()), Err),
        }
    }
}
