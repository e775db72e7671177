//! The result of a call of reclaim.

/// The space that a collection won.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Segments given up, of those that existed at the call.
    pub segments: u64,
    /// Bytes of client data moved for this.
    pub moved_bytes: u64,
    /// Free segments whose bytes went back to the host.
    pub released: u64,
    /// Bytes that went back to the host; existing holes do not count.
    pub released_bytes: u64,
}
