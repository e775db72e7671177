//! What a controller is like.

use serde::Deserialize;

/// The controller of a drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Requests that may be under way at once; those beyond wait for one to end.
    pub queue_depth: u32,
    /// What a byte takes on the link to the host. Reads and writes share it.
    pub link_ns_per_byte: f64,
    /// What a command takes of the link, besides its data.
    #[serde(default)]
    pub link_command_ns: u64,
    /// Bytes of DRAM for writes: a write is done once it is there. Zero: once it is programmed.
    #[serde(default)]
    pub write_buffer_bytes: u64,
    /// What a request takes that is served by the buffer alone.
    #[serde(default)]
    pub buffer_ns: u64,
    /// What the firmware adds to a read of NAND. It occupies nothing.
    #[serde(default)]
    pub read_overhead_ns: u64,
}
