//! Inspects a store without changing it: check, scrub, statistics.

mod check;
mod holes;
mod missing;
mod scrub;
mod segments;
mod space_stats;
mod stats;
mod stretch;

pub use segments::{SegmentContent, SegmentInfo};

use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::{LogLoss, RecoveryReport};

use crate::drive::Engine;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The damage to the log despite which this store was opened; see
    /// [`OpenOptions::salvage`](crate::options::OpenOptions::salvage).
    pub fn log_loss(&self) -> Option<LogLoss> {
        self.state().log_loss.clone()
    }

    /// The records that this opening left out, and the damage that it found.
    pub fn recovery(&self) -> RecoveryReport {
        self.state().recovered.clone()
    }
}
