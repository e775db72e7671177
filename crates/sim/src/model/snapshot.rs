//! What a snapshot or a cloned volume may hold when writes were in flight while it was made.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::judge::Judge;
use super::{Incarnation, Key, Model, Op, Register, Value, Version, Violation};

/// The making of a copy of a whole target: its source as it was at the beginning, and every
/// change that was in flight since.
pub struct Capture {
    source: Incarnation,
    base: BTreeMap<u64, Value>,
    met: BTreeMap<u64, Vec<Version>>,
}

impl Capture {
    pub(super) fn meets(&mut self, key: &Key, version: &Version) {
        if let Key::Block(target, block) = key
            && *target == self.source
        {
            self.met.entry(*block).or_default().push(version.clone());
        }
    }

    /// All values that block may have in the copy.
    fn alternatives(&self, block: u64) -> Vec<Value> {
        let mut values = vec![self.base.get(&block).copied().unwrap_or(0)];
        for version in self.met.get(&block).into_iter().flatten() {
            values.push(version.full.get());
            values.extend(&version.partial);
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The blocks whose content only a look can tell.
    pub fn in_doubt(&self) -> Vec<u64> {
        self.met.keys().copied().collect()
    }
}

impl Model {
    /// Begins to make a copy of all of `source`, which nothing resizes or replaces meanwhile.
    pub fn invoke_copy(
        &mut self,
        what: String,
        source: Incarnation,
        name: String,
        read_only: bool,
    ) -> (Rc<Op>, Incarnation) {
        let size = self.size(source);
        let mut capture = Capture { source, base: self.blocks(source), met: BTreeMap::new() };
        for op in self.pending.values() {
            if op.acked.get().is_some() || op.failed.get() {
                continue;
            }
            for key in &op.keys {
                let versions = &self.registers[key].versions;
                let own = versions.iter().find(|version| version.op.id == op.id);
                own.into_iter().for_each(|version| capture.meets(key, version));
            }
        }
        let (op, target) = self.invoke_creation(what, name, read_only, size, []);
        self.captures.insert(target.0, capture);
        (op, target)
    }

    /// The copy is made (acknowledge it besides): what is in doubt in it is to be read, and told
    /// to [`settle_copy`](Model::settle_copy).
    pub fn end_copy(&mut self, copy: Incarnation) -> Capture {
        let capture = self.captures.remove(&copy.0).expect("the copy was begun");
        self.fill_copy(copy, &capture);
        capture
    }

    /// The copy was not made.
    pub fn drop_copy(&mut self, copy: Incarnation) {
        self.captures.remove(&copy.0);
    }

    fn fill_copy(&mut self, copy: Incarnation, capture: &Capture) {
        for block in capture.base.keys().chain(capture.met.keys()) {
            let base = capture.alternatives(*block);
            let register = Register { current: base[0], base, versions: Vec::new() };
            self.registers.insert(Key::Block(copy, *block), register);
        }
    }

    /// Gives every unfinished copy the contents it may have, before a recovered state is judged.
    pub(super) fn fill_unfinished_copies(&mut self) {
        for (copy, capture) in std::mem::take(&mut self.captures) {
            self.fill_copy(Incarnation(copy), &capture);
        }
    }

    /// The blocks that were in doubt hold this: judges it.
    pub fn settle_copy(
        &mut self,
        copy: Incarnation,
        capture: &Capture,
        outcome: &[(u64, Value)],
    ) -> Result<(), Violation> {
        let name = self.name(copy).to_owned();
        let mut judge = Judge::default();
        for &(block, found) in outcome {
            let base = [capture.base.get(&block).copied().unwrap_or(0)];
            let versions = &capture.met[&block];
            if !judge.see(&base, versions, found, || format!("block {block} of {name}")) {
                return Err(Violation::new(format!(
                    "the copy {name} holds {} in block {block}; its source held {} when the copy \
                     began{}",
                    self.contents.describe(found),
                    self.contents.describe(base[0]),
                    self.list(versions)
                )));
            }
            let key = Key::Block(copy, block);
            let register = Register { base: vec![found], versions: Vec::new(), current: found };
            self.registers.insert(key, register);
        }
        judge.verdict().map_err(|why| Violation::new(format!("in the copy {name}: {why}")))
    }

    pub(super) fn list(&self, versions: &[Version]) -> String {
        let mut text = String::new();
        for version in versions {
            let state = match (version.op.acked.get(), version.op.failed.get()) {
                (Some(_), _) => "acknowledged",
                (None, true) => "failed",
                (None, false) => "in flight",
            };
            let value = self.contents.describe(version.full.get());
            text += &format!("; then {}, {state}, made it {value}", version.op);
        }
        text
    }
}
