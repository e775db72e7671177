//! The binary formats.

pub(crate) mod own;
pub(crate) mod vscsi;
