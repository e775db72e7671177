//! What the zoned backend needs of the system below it: zones, commands for them, and transfers.

use std::future::Future;
use std::io;

use bytes::Bytes;
use mjolnir_device::AlignedBuf;

/// A zone, as the device reports it. All places and lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Where it begins on the device.
    pub start: u64,
    /// The distance to the next zone.
    pub length: u64,
    /// What can be written to it.
    pub capacity: u64,
    /// What is written, from its start. Unspecified for a zone that is read-only or offline.
    pub written: u64,
    /// Its condition.
    pub condition: Condition,
}

/// The condition of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It can be written anywhere, in place.
    Conventional,
    /// Nothing is written.
    Empty,
    /// It is being written, and counts among the open and the active zones.
    Open,
    /// It is written in part, and counts among the active zones.
    Closed,
    /// It takes no writes until it is reset.
    Full,
    /// It can be read, and never be written again.
    ReadOnly,
    /// Neither.
    Offline,
}

/// What a zone is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Become empty.
    Reset,
    /// Become full.
    Finish,
    /// Be ready to be written.
    Open,
    /// Give up being ready.
    Close,
}

/// How many zones may be in a condition at once; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Open ones.
    pub open: Option<u32>,
    /// Open and closed ones.
    pub active: Option<u32>,
}

/// A zoned device, as the system shows it.
///
/// Transfers and commands begin with the call, and go on if the future is dropped. Two writes to one
/// zone are never under way at once.
pub trait Kernel: 'static {
    /// All zones, in the order of their places.
    fn zones(&self) -> io::Result<Vec<Zone>>;

    /// One zone, as it is now.
    fn zone(&self, of: &Zone) -> impl Future<Output = io::Result<Zone>> + 'static;

    /// How many zones may be open and active.
    fn limits(&self) -> Limits;

    /// The longest write, in bytes.
    fn longest(&self) -> u64;

    /// Has a zone do something.
    fn command(
        &self,
        command: Command,
        zone: &Zone,
    ) -> impl Future<Output = io::Result<()>> + 'static;

    /// Writes the pieces one after another, at the write pointer of a zone.
    fn write(
        &self,
        offset: u64,
        pieces: Vec<Bytes>,
    ) -> impl Future<Output = io::Result<()>> + 'static;

    /// Fills the buffer.
    fn read(
        &self,
        offset: u64,
        buffer: AlignedBuf,
    ) -> impl Future<Output = io::Result<AlignedBuf>> + 'static;

    /// Makes what was written durable.
    fn flush(&self) -> impl Future<Output = io::Result<()>> + 'static;

    /// A flush failed, and nothing was lost by it that can still be read: later ones count again.
    fn forgive(&self);
}

impl Condition {
    /// Whether a zone in this condition counts among the active ones.
    pub fn is_active(self) -> bool {
        matches!(self, Condition::Open | Condition::Closed)
    }
}
