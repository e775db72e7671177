//! The result of growing a store.

/// The result of growing a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The store's size now, in bytes.
    pub bytes: u64,
    /// Bytes added since the last completed call of `grow`, or since the checkpoint that the store
    /// was opened from. Bytes that an interrupted call added count.
    pub added: u64,
}
