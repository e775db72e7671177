//! Whether acknowledged writes outlive the server.

/// Whether what is acknowledged survives the end of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmState {
    /// Nobody asked for it.
    Off,
    /// It does.
    Kept,
    /// It does not, for this reason.
    Missing(String),
}
