//! What is odd about a container, and does not keep it from working.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Something odd that does not keep a container from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// One of the two labels is damaged; the other one serves. The next checkpoint replaces it, where
    /// it can be written.
    LabelDamaged {
        /// The container.
        name: String,
        /// Where the damaged label is, in bytes.
        offset: u64,
    },
    /// One of the two roots is damaged; the other one serves. The next checkpoint replaces it.
    RootDamaged {
        /// The container.
        name: String,
        /// Where the damaged root is, in bytes.
        offset: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::LabelDamaged { name, offset } => write!(
                f,
                "{name}: the label at byte {offset} is damaged, one of two; the other one serves. Find \
                 out what wrote there, or whether the medium fails. The next checkpoint writes it \
                 anew: serve the store once, not --read-only. If that does not help, the medium takes \
                 no writes there: copy the store to another one"
            ),
            Warning::RootDamaged { name, offset } => write!(
                f,
                "{name}: the root at byte {offset} is damaged, one of two; the other one serves. A \
                 power cut leaves it so that comes while it is written; if there was none, find out \
                 what wrote there, or whether the medium fails. The next checkpoint writes it anew: \
                 serve the store once"
            ),
        }
    }
}

impl Warning {
    /// Where it is, in bytes.
    fn offset(&self) -> u64 {
        match self {
            Warning::LabelDamaged { offset, .. } | Warning::RootDamaged { offset, .. } => *offset,
        }
    }
}

/// What was odd about a container when it was opened, and was not written anew since.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<Warning>>>);

impl Warnings {
    /// All of them.
    pub fn list(&self) -> Vec<Warning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add(&self, more: impl Iterator<Item = Warning>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
    }

    /// What is at `offset` was written anew.
    pub(super) fn mended(&self, offset: u64) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.retain(|warning| warning.offset() != offset);
    }
}
