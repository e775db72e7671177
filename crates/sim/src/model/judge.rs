//! Which operations a state shows to have happened, and whether that set keeps the promises.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Op, Value, Version, Violation};

/// Evidence about operations, gathered register by register.
///
/// A register's versions are in real-time order, because the driver never lets two operations
/// change one register at once. A found value that fits several of them proves only what all of
/// the fitting ones have in common, so no run is called wrong that might be right.
#[derive(Default)]
pub(super) struct Judge {
    seen: BTreeMap<u64, Evidence>,
}

struct Evidence {
    op: Rc<Op>,
    present: Option<String>,
    absent: Option<String>,
}

impl Judge {
    /// Takes note of a register that is found to hold `found`; false if no version of it did.
    pub fn see(
        &mut self,
        base: &[Value],
        versions: &[Version],
        found: Value,
        register: impl Fn() -> String,
    ) -> bool {
        let base_fits = base.contains(&found);
        let mut fits = versions
            .iter()
            .enumerate()
            .filter(|(_, version)| version.fits(found))
            .map(|(at, _)| at);
        let first = fits.next();
        let last = fits.next_back().or(first);
        if !base_fits && first.is_none() {
            return false;
        }
        // Versions before the earliest fit are there, those after the latest are not.
        let there = if base_fits { 0 } else { first.map_or(0, |at| at + 1) };
        let not_there = last.map_or(0, |at| at + 1);
        for (at, version) in versions[..there].iter().enumerate() {
            // One that failed may have been skipped on the way to a later one.
            if !version.op.failed.get() || (first == Some(at) && last == Some(at)) {
                self.note(&version.op).present.get_or_insert_with(&register);
            }
        }
        for version in &versions[not_there..] {
            self.note(&version.op).absent.get_or_insert_with(&register);
        }
        if let (false, Some(at)) = (base_fits, first) {
            let version = &versions[at];
            if first == last && version.full.get() != found && version.op.acked.get().is_some() {
                self.note(&version.op).absent.get_or_insert_with(&register);
            }
        }
        true
    }

    fn note(&mut self, op: &Rc<Op>) -> &mut Evidence {
        let new = || Evidence { op: op.clone(), present: None, absent: None };
        self.seen.entry(op.id).or_insert_with(new)
    }

    /// Whether the operations that happened are a prefix of their order, each atomic one whole.
    pub fn verdict(&self) -> Result<(), Violation> {
        let sound = || self.seen.values().filter(|evidence| !evidence.op.failed.get());
        for Evidence { op, present, absent } in self.seen.values() {
            if let (true, Some(present), Some(absent)) = (op.atomic, present, absent) {
                return Err(Violation::new(format!(
                    "an operation that happens wholly or not at all happened in part: {op} is seen \
                     in {present} but not in {absent}"
                )));
            }
        }
        let latest = sound().filter(|e| e.present.is_some()).max_by_key(|e| e.op.invoked);
        let Some(Evidence { op: later, present: Some(there), .. }) = latest else { return Ok(()) };
        for Evidence { op, absent, .. } in sound() {
            if let (Some(acked), Some(absent)) = (op.acked.get(), absent)
                && acked < later.invoked
            {
                return Err(Violation::new(format!(
                    "what survived is not a prefix: {later} is seen in {there}, but {op}, which \
                     was acknowledged before that began, is missing from {absent}"
                )));
            }
        }
        Ok(())
    }
}
