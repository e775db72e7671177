//! Steps: each changes several parts of the state at once, without an `.await`.

pub(crate) mod apply;
pub(crate) mod budget;
pub(crate) mod pace;
pub(crate) mod reserve;
pub(crate) mod targets;
pub(crate) mod write;
