//! The care of a store: looking at it, proving it whole, winning space, growing it.

use crate::report::{CheckReport, Collected, Growth, RecoveryReport, ScrubReport, Stats};
use crate::{Error, Volumes};

/// What an operator does to a store as a whole.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Maintenance: Volumes {
    /// The store at a glance.
    fn stats(&self) -> Stats;

    /// What opening the store left out, and what it found damaged.
    fn recovery(&self) -> RecoveryReport;

    /// Checks all of the structure, without reading the data. `progress` hears the part done, 0 to 1.
    async fn check(&self, progress: &dyn Fn(f64)) -> Result<CheckReport, Error>;

    /// Reads every block in use and verifies it. `progress` hears the part done, 0 to 1.
    async fn scrub(&self, progress: &dyn Fn(f64)) -> Result<ScrubReport, Error>;

    /// Wins the space that can be won now, whatever the utilization. Leaves clients most of the device meanwhile;
    /// dropped before its end, it calls off what is left.
    async fn reclaim(&self) -> Result<Collected, Error>;

    /// Takes a recovery point, so that the next opening has nothing to replay.
    async fn checkpoint(&self) -> Result<(), Error>;

    /// Uses a device (or file) that has grown, or makes the file larger: `bytes` in all. Repeated after it was cut
    /// short it does what was left to do.
    async fn grow(&self, bytes: u64) -> Result<Growth, Error>;

    /// Ends the store in an orderly way: all that was acknowledged is durable then. Clients are refused from now on.
    async fn close(&self) -> Result<(), Error>;
}
