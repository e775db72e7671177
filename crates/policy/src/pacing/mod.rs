//! How fast reclaim may run, and when clients must wait for it.
//!
//! The paper's rate limiter (Mjölnir, INFLOW'15, section 4.3.2) decides which fraction of the
//! device's bandwidth goes to clients and which to reclaim, from the free segments, from how much
//! there is to win, and from the work that waits on either side. A [`PacingPolicy`] takes that
//! decision; a [`Gate`] turns it into "may this client write now" and "may reclaim move blocks
//! now"; a [`Rhythm`] lets clients go on while reclaim does other work than moving; a [`ScanBudget`]
//! bounds the processor time of marking.

mod free_space;
mod gate;
mod panic_only;
mod rhythm;
mod scan_budget;
mod view;

pub use free_space::FreeSpace;
pub use gate::Gate;
pub use panic_only::PanicOnly;
pub use rhythm::Rhythm;
pub use scan_budget::ScanBudget;
pub use view::{Ahead, Pacing, PacingView};

use crate::parameters::Arguments;
use crate::registry::{self, Entry, Found};
use crate::{Parameter, PolicyError};

/// Divides the device between clients and reclaim.
///
/// # Contract
///
/// * `reclaim_share` and `pressure` lie in 0 to 1, and neither falls as free space falls, all else
///   being equal.
/// * Nothing to win: no share, no pressure, no panic.
/// * Panic begins only below the reserve.
/// * Equal views (and equal histories of views) give equal answers.
pub trait PacingPolicy: Send {
    /// The policy's name in settings and results, without its parameters.
    fn name(&self) -> &'static str;

    /// Decides for the present state. Cheap: call it whenever a segment is allocated or freed, and
    /// whenever work begins or ceases to wait.
    fn decide(&mut self, view: &PacingView) -> Pacing;
}

type Make = fn(&Arguments) -> Box<dyn PacingPolicy>;

const ENTRIES: &[Entry<Make>] = &[
    Entry::new("free-space", FreeSpace::PARAMETERS, |of| Box::new(FreeSpace::of(of))),
    Entry::new("panic-only", &[], |_| Box::new(PanicOnly::default())),
];

fn find(text: &str) -> Result<Found<Make>, PolicyError> {
    registry::find("pacing", ENTRIES, text)
}

/// The pacing policy that a text asks for: its name, or its name with parameters, as in
/// `free-space:power=2`.
pub fn by_name(text: &str) -> Result<Box<dyn PacingPolicy>, PolicyError> {
    find(text).map(|found| (found.entry.make)(&found.arguments))
}

/// The shortest text that asks for the same policy: parameters that have their default are left out.
pub fn shortest(text: &str) -> Result<String, PolicyError> {
    find(text).map(|found| found.shortest())
}

/// Names of all pacing policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// All pacing policies with their parameters, the default first.
pub fn list() -> impl Iterator<Item = (&'static str, &'static [Parameter])> {
    ENTRIES.iter().map(|entry| (entry.name, entry.parameters))
}
