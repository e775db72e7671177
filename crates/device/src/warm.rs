//! Memory that outlives the process.

use bytes::Bytes;

use crate::Buffers;

/// One opening of a store for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Its recovery epoch. A store that is replaced by an older copy of itself reaches the same epochs again.
    pub epoch: u64,
    /// A random number, which tells the openings of one epoch apart.
    pub number: u64,
}

/// What a process acknowledged, as its successor finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmEntry {
    /// Its sequence number.
    pub sequence: u64,
    /// Its record, as on media.
    pub record: Vec<u8>,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// What [`WarmLog::note`] was told to tell the payload by.
    pub checksum: u32,
}

/// What a process left of a store whose device had another number then, or of a store that this is a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmElsewhere {
    /// Where it lies, in words.
    pub place: String,
    /// The command that has this store find it.
    pub take: String,
    /// What it holds.
    pub entries: Vec<WarmEntry>,
}

/// A log of what clients were told is done and what is not on the device yet, in memory that the end of the
/// process leaves alone, though not that of the machine. A server that crashes and is started again so loses
/// nothing that it acknowledged.
///
/// # Contract
///
/// * Entries have growing sequence numbers. An entry is there from [`note`](WarmLog::note) until
///   [`forget`](WarmLog::forget), whenever the process ends; one that is being noted is there as a whole
///   or not at all.
/// * Payload is not copied. It must lie in the memory of the buffers that [`begin`](WarmLog::begin) gave,
///   and its owner keeps it until the entry is forgotten.
/// * What the last process left belongs to one store on one device, to one opening of it and to one
///   start of the machine; whatever belongs to another store, device or start is not found.
pub trait WarmLog: 'static {
    /// The opening of the store in which the last process noted what it left; `None` if it left nothing.
    fn opening(&self) -> Option<Opening>;

    /// Where that lies, in words.
    fn place(&self) -> String;

    /// What a process left of this opening where another device number has its place. Nothing here tells whether
    /// it served this store or one that this is a copy of. `None` if a process writes there.
    fn elsewhere(&self, _opening: Opening) -> Option<WarmElsewhere> {
        None
    }

    /// What the last process left, in the order of the numbers, until [`begin`](WarmLog::begin) or
    /// [`end`](WarmLog::end).
    fn entries(&mut self) -> Vec<WarmEntry>;

    /// The payload of one of those, counted from 0; `None` if it cannot be had.
    fn payload(&mut self, entry: usize) -> Option<Bytes>;

    /// Begins anew: what the last process left is gone. `payload_bytes` is how much payload is to have room, of
    /// which `kept_bytes` may stay in memory while nobody uses it. `Err` says in words why there is no such
    /// memory; then nothing may be noted.
    fn begin(
        &mut self,
        opening: Opening,
        payload_bytes: usize,
        kept_bytes: usize,
    ) -> Result<Buffers, String>;

    /// Notes a record. False if there is no room, or if its payload does not lie in the memory that
    /// outlives the process: then nothing is noted.
    fn note(&mut self, sequence: u64, record: &[u8], payload: &[u8], checksum: u32) -> bool;

    /// Forgets entries up to this number.
    fn forget(&mut self, sequence: u64);

    /// Forgets all, and leaves nothing behind.
    fn end(&mut self);
}
