//! What the store tells, as plain data.

mod collected;
mod counters;
mod latency;
mod loss;
mod missing;
mod read_errors;
mod recovered;
mod warm;

pub use collected::Collected;
pub(crate) use counters::Counters;
pub use latency::LatencySummary;
pub(crate) use loss::join;
pub use loss::{DamagedPlace, LogLoss, Loss, RecordRange};
pub use missing::MissingPart;
pub(crate) use read_errors::ReadErrors;
pub use read_errors::{ReadError, ReadErrorCounts, ReadErrorKind, ReadPurpose};
pub use recovered::{RecoveryReport, WarmLeft};
pub use warm::WarmState;
