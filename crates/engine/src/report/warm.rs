//! Whether acknowledged writes outlive the server.

/// Whether acknowledged changes survive the end of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmState {
    /// Not requested.
    Off,
    /// They survive.
    Kept,
    /// They do not, for this reason.
    Missing(String),
}
