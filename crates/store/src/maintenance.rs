//! Maintenance of a store: statistics, checks, reclaim, growth.

use crate::report::{BadTried, CheckReport, Collected, Growth, RecoveryReport, ScrubReport, Stats};
use crate::{Error, Volumes};

/// An operator's operations on a store as a whole.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Maintenance: Volumes {
    /// The store at a glance.
    fn stats(&self) -> Stats;

    /// The records that opening the store left out, and the damage that it found.
    fn recovery(&self) -> RecoveryReport;

    /// Checks the whole structure without reading the data. Calls `progress` with the part done, 0
    /// to 1.
    async fn check(&self, progress: &dyn Fn(f64)) -> Result<CheckReport, Error>;

    /// Reads and verifies every block in use. Calls `progress` with the part done, 0 to 1.
    async fn scrub(&self, progress: &dyn Fn(f64)) -> Result<ScrubReport, Error>;

    /// Tries the segments that are out of use because the device failed to write to them: writes and
    /// reads each in whole. Those that work are used again.
    async fn retry_bad(&self) -> Result<BadTried, Error>;

    /// Wins all space that can be won now, whatever the utilization. Meanwhile clients keep most of
    /// the device. Dropping the future stops the collection.
    async fn reclaim(&self) -> Result<Collected, Error>;

    /// Takes a recovery point, so that the next opening has nothing to replay.
    async fn checkpoint(&self) -> Result<(), Error>;

    /// Uses a device (or file) that has grown, or makes the file larger: `bytes` in all. A call
    /// after an interrupted one does the rest.
    async fn grow(&self, bytes: u64) -> Result<Growth, Error>;

    /// Closes the store: every acknowledged change is durable then. The store refuses clients from
    /// now on.
    async fn close(&self) -> Result<(), Error>;
}
