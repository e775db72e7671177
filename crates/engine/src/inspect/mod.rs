//! Looking at a store without changing it: check, scrub, statistics.

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
    /// The damage to the log that this store was opened in spite of; see
    /// [`OpenOptions::salvage`](crate::options::OpenOptions::salvage).
    pub fn log_loss(&self) -> Option<LogLoss> {
        self.state().log_loss.clone()
    }

    /// What this opening of the store left out or found damaged.
    pub fn recovery(&self) -> RecoveryReport {
        self.state().recovered.clone()
    }
}
