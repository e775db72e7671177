//! What growing a store came to.

/// What growing a store came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// What the store has now, in bytes.
    pub bytes: u64,
    /// Of those, what was added since whoever asked for a growth last had this answer, or since the
    /// checkpoint that the store was opened by: what one added that was cut short counts.
    pub added: u64,
}
