//! One request of a client to a block volume.

use std::fmt;
use std::time::Duration;

use mjolnir_units::Instant;
use serde::{Deserialize, Serialize};

/// Where a request must end, in bytes from a volume's start (1 EiB). A higher address in a trace
/// is taken for damage.
pub const MAX_ADDRESS: u64 = 1 << 60;

/// The longest read or write, in bytes (1 GiB). A longer one in a trace is taken for damage;
/// trims and writes of zeroes move no data and may be longer.
pub const MAX_LENGTH: u64 = 1 << 30;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Give blocks up.
    Trim,
    /// Make all that was acknowledged durable. Has neither offset nor length.
    Flush,
    /// Make blocks read as zeroes.
    WriteZeroes,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 5] = [Op::Read, Op::Write, Op::Trim, Op::Flush, Op::WriteZeroes];

    /// Its place in [`Op::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "flush",
            Op::WriteZeroes => "write-zeroes",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A volume within one trace or workload: a small number, counted up from 0. A trace's
/// [`Volumes`](crate::trace::Volumes) knows its name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct VolumeId(pub u32);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was made, since the trace or workload began.
    pub time: Instant,
    /// The volume it was made to.
    pub volume: VolumeId,
    /// What it asks for.
    pub op: Op,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub length: u64,
    /// Which data the client expects to die together, if it said so.
    pub stream: Option<u8>,
    /// How long it took when it was recorded, if that is known.
    pub latency: Option<Duration>,
}

impl Request {
    /// The byte after its last.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}
