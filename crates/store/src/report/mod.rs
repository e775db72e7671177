//! A store's reports to its operator, as plain data.

mod bad;
mod check;
mod collected;
mod growth;
mod latency;
mod loss;
mod missing;
mod read_errors;
mod recovered;
mod scrub;
mod stats;

pub use bad::{BadSegment, BadTried};
pub use check::CheckReport;
pub use collected::Collected;
pub use growth::Growth;
pub use latency::LatencySummary;
pub use loss::{DamagedPlace, LogLoss, Loss, RecordRange, join};
pub use missing::MissingPart;
pub use read_errors::{ReadError, ReadErrorCounts, ReadErrorKind, ReadPurpose};
pub use recovered::{RecoveryReport, WarmLeft};
pub use scrub::ScrubReport;
pub use stats::{SpaceStats, Stats};
