//! The sorts of run that there are.

mod closed_form;
mod disksim;
pub(crate) mod replay;
mod uniform_overwrites;

use super::Kind;

/// A new kind is one file and one line here.
static KINDS: &[&dyn Kind] = &[
    &closed_form::ClosedForm,
    &uniform_overwrites::UniformOverwrites,
    &disksim::DiskSim,
    &replay::ReplayTrace,
    &crate::study::Simulate,
    &crate::study::ReclaimCost,
];

/// The kind of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| kind.name() == name)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name())
}
