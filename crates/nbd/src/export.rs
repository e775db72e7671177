//! A target of the store, as promised to one client.

use mjolnir_store::TargetInfo;

use crate::protocol::transmission_flag as flag;

/// A volume or snapshot with its negotiated options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The target at the time of the client's choice. Its size holds for the whole connection.
    pub target: TargetInfo,
    /// Whether changes are refused: because of the target, or of the server's options.
    pub read_only: bool,
    /// Whether structured replies were negotiated.
    pub structured: bool,
    /// Whether the `base:allocation` metadata context was selected.
    pub block_status: bool,
}

impl Export {
    /// The transmission flags that this export is offered with.
    pub fn flags(&self) -> u16 {
        // A flush on any connection covers all: the Store contract says so.
        let always = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::CAN_MULTI_CONN
            | flag::SEND_CACHE;
        let changes = if self.read_only {
            flag::READ_ONLY
        } else {
            flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO
        };
        always | changes | if self.structured { flag::SEND_DF } else { 0 }
    }

    /// One line for lists of exports.
    pub(crate) fn description(&self) -> &'static str {
        match (self.target.name.contains('@'), self.read_only) {
            (true, _) => "snapshot, read-only",
            (false, true) => "volume, read-only",
            (false, false) => "volume",
        }
    }
}
