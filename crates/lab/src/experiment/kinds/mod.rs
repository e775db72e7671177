//! The sorts of run that there are.

mod closed_form;
mod disksim;
pub(crate) mod replay;
mod uniform_overwrites;

use std::fmt;

use super::Kind;

/// A new kind of the lab is one file and one line here.
const OF_THE_LAB: &[&dyn Kind] = &[
    &closed_form::ClosedForm,
    &uniform_overwrites::UniformOverwrites,
    &disksim::DiskSim,
    &replay::ReplayTrace,
    &crate::study::Simulate,
    &crate::study::ReclaimCost,
];

/// The sorts of run that experiments may ask for: the lab's, and what a program adds that may see
/// more of the world than the lab does.
#[derive(Clone)]
pub struct Kinds(Vec<&'static dyn Kind>);

impl Default for Kinds {
    /// The lab's.
    fn default() -> Self {
        Kinds(OF_THE_LAB.to_vec())
    }
}

impl Kinds {
    /// These and others, whose names are new.
    pub fn with(mut self, others: &[&'static dyn Kind]) -> Self {
        for other in others {
            assert!(self.by_name(other.name()).is_none(), "{} is there already", other.name());
            self.0.push(*other);
        }
        self
    }

    /// The kind of that name.
    pub fn by_name(&self, name: &str) -> Option<&'static dyn Kind> {
        self.0.iter().copied().find(|kind| kind.name() == name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|kind| kind.name())
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
