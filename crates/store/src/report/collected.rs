//! What a caller of reclaim won.

/// What a collection won.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Segments given up, of those that were there when it was called.
    pub segments: u64,
    /// Bytes of clients' data that were moved for it.
    pub moved_bytes: u64,
    /// Free segments whose bytes were given back to the host.
    pub released: u64,
    /// Bytes that this gave back: what was a hole already gives nothing.
    pub released_bytes: u64,
}
