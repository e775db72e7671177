//! The warm log: memory that outlives the process.

use bytes::Bytes;

use crate::Buffers;

/// One opening of a store for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The recovery epoch. A store replaced by an older copy of itself reaches the same epochs
    /// again.
    pub epoch: u64,
    /// A random number that distinguishes the openings of one epoch.
    pub number: u64,
}

/// An entry of the last process, as its successor finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmEntry {
    /// The sequence number.
    pub sequence: u64,
    /// The record, as on media.
    pub record: Vec<u8>,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// The payload's checksum, as given to [`WarmLog::note`].
    pub checksum: u32,
}

/// A log left by a process for a store whose device had another number then, or for a store that
/// this one is a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmElsewhere {
    /// The log's place, in words.
    pub place: String,
    /// The command that makes this store find it.
    pub take: String,
    /// What it holds.
    pub entries: Vec<WarmEntry>,
}

/// A log of changes that are acknowledged to clients but not on the device yet. Its memory outlives
/// the process, but not a restart of the machine. So a server that crashes and is started again
/// loses no acknowledged change.
///
/// # Contract
///
/// * Entries have growing sequence numbers. An entry exists from [`note`](WarmLog::note) until
///   [`forget`](WarmLog::forget), whenever the process ends. A process that ends during `note`
///   leaves the entry wholly or not at all.
/// * Payload is not copied. It must lie in the memory of the buffers that [`begin`](WarmLog::begin) gave,
///   and its owner keeps it until the entry is forgotten.
/// * The entries of the last process belong to one store on one device, to one opening of it and to
///   one start of the machine. Entries of another store, device or start are not found.
pub trait WarmLog: 'static {
    /// The opening of the store that the last process's entries belong to; `None` if it left none.
    fn opening(&self) -> Option<Opening>;

    /// The place of the last process's log, in words.
    fn place(&self) -> String;

    /// A log of this opening at the place of another device number. It does not show whether the
    /// process served this store, or one that this store is a copy of. `None` if a process still
    /// writes there.
    fn elsewhere(&self, _opening: Opening) -> Option<WarmElsewhere> {
        None
    }

    /// The last process's entries in order of their numbers, until [`begin`](WarmLog::begin) or
    /// [`end`](WarmLog::end).
    fn entries(&mut self) -> Vec<WarmEntry>;

    /// The payload of the entry with this index; `None` if it is not available.
    fn payload(&mut self, entry: usize) -> Option<Bytes>;

    /// Begins an empty log: drops the last process's entries. The log has room for `payload_bytes`
    /// of payload, of which `kept_bytes` may stay in memory while unused. `Err` says in words why
    /// there is no such memory; then nothing may be noted.
    fn begin(
        &mut self,
        opening: Opening,
        payload_bytes: usize,
        kept_bytes: usize,
    ) -> Result<Buffers, String>;

    /// Notes a record. Returns false and notes nothing if there is no room, or if the payload lies
    /// outside the memory that outlives the process.
    fn note(&mut self, sequence: u64, record: &[u8], payload: &[u8], checksum: u32) -> bool;

    /// Forgets the entries up to this sequence number.
    fn forget(&mut self, sequence: u64);

    /// Forgets all entries, and removes the log.
    fn end(&mut self);
}
