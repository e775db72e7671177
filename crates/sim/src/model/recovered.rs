//! The judgement of what a recovery found.

use std::collections::BTreeMap;

use mjolnir_units::{BLOCK_SIZE, TreeId};

use super::judge::Judge;
use super::{Incarnation, Key, Model, Register, Target, Value, Violation};

/// Everything that a store holds.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Volumes and snapshots.
    pub targets: Vec<FoundTarget>,
}

/// All of one volume or snapshot.
#[derive(Clone, Debug)]
pub struct FoundTarget {
    /// `volume`, or `volume@snapshot`.
    pub name: String,
    /// What the store calls it.
    pub id: TreeId,
    /// Size in bytes.
    pub size: u64,
    /// Whether it is a snapshot.
    pub read_only: bool,
    /// Content of each block, in order.
    pub blocks: Vec<Value>,
}

impl Model {
    /// The store ended in an orderly way: all that was acknowledged is durable.
    pub fn closed(&mut self) {
        let now = self.tick();
        self.cover(now);
    }

    /// Judges the state that was found after a power cut (or an orderly end, see
    /// [`closed`](Model::closed)), and goes on from it.
    pub fn recovered(&mut self, found: &Found) -> Result<(), Violation> {
        self.fill_unfinished_copies();
        let mut values: BTreeMap<Key, Value> = BTreeMap::new();
        let mut ids = BTreeMap::new();
        for target in &found.targets {
            let incarnation = self.recognize(target)?;
            values.insert(Key::Name(target.name.clone()), incarnation.0);
            values.insert(Key::Size(incarnation), target.size);
            for (block, &value) in target.blocks.iter().enumerate() {
                values.insert(Key::Block(incarnation, block as u64), value);
            }
            ids.insert(incarnation, target);
        }
        let mut judge = Judge::default();
        for (key, register) in &self.registers {
            let value = match key {
                // What is gone cannot be read; its name is judged. So is the size of what shrank.
                Key::Size(target) | Key::Block(target, _) if !ids.contains_key(target) => continue,
                Key::Block(target, block) if *block >= ids[target].size.div_ceil(BLOCK_SIZE) => {
                    continue;
                }
                _ => values.get(key).copied().unwrap_or(0),
            };
            if !judge.see(&register.base, &register.versions, value, || self.say(key)) {
                return Err(self.lost(key, register, value));
            }
        }
        for (key, &value) in &values {
            if value != 0 && !self.registers.contains_key(key) {
                return Err(Violation::new(format!(
                    "after recovery {} holds {}, but it was never written, or that was undone \
                     durably",
                    self.say(key),
                    self.say_value(key, value)
                )));
            }
        }
        judge.verdict().map_err(|why| Violation::new(format!("after recovery: {why}")))?;

        let targets = ids.iter().map(|(&incarnation, found)| {
            let (name, read_only) = (found.name.clone(), found.read_only);
            (incarnation, Target { name, ids: vec![found.id], read_only })
        });
        self.targets = targets.collect();
        self.registers = values
            .into_iter()
            .filter(|&(_, value)| value != 0)
            .map(|(key, current)| {
                (key, Register { base: vec![current], versions: vec![], current })
            })
            .collect();
        self.pending.clear();
        Ok(())
    }

    /// Which incarnation it is that was found.
    fn recognize(&self, found: &FoundTarget) -> Result<Incarnation, Violation> {
        let mut candidates: Vec<Incarnation> = Vec::new();
        if let Some(register) = self.registers.get(&Key::Name(found.name.clone())) {
            let later = register.versions.iter().map(|version| version.full.get());
            let all = register.base.iter().copied().chain(later);
            candidates.extend(all.filter(|&value| value != 0).map(Incarnation));
        }
        let known = |target: &&Incarnation| self.target(**target).ids.contains(&found.id);
        // One whose creation was not acknowledged has no id yet.
        let unborn = |target: &&Incarnation| self.target(**target).ids.is_empty();
        let by_id = candidates.iter().find(known).or(candidates.iter().find(unborn));
        let sole = candidates.first().filter(|_| candidates.len() == 1);
        let incarnation = by_id.or(sole).copied().ok_or_else(|| {
            Violation::new(format!(
                "after recovery there is {} (tree {}), which was never created, or was deleted \
                 durably",
                found.name, found.id.0
            ))
        })?;
        if self.target(incarnation).read_only != found.read_only {
            return Err(Violation::new(format!(
                "after recovery {} says of itself read_only = {}, as was not asked",
                found.name, found.read_only
            )));
        }
        Ok(incarnation)
    }

    fn lost(&self, key: &Key, register: &Register, value: Value) -> Violation {
        let base: Vec<String> =
            register.base.iter().map(|&value| self.say_value(key, value)).collect();
        let later = match key {
            Key::Block(..) => self.list(&register.versions),
            _ => register.versions.iter().map(|version| format!("; then {}", version.op)).collect(),
        };
        Violation::new(format!(
            "after recovery {} holds {}; durable was {}{later}",
            self.say(key),
            self.say_value(key, value),
            base.join(" or ")
        ))
    }

    pub(super) fn say(&self, key: &Key) -> String {
        let name = |target: &Incarnation| {
            self.targets.get(target).map_or("a deleted target", |target| &target.name)
        };
        match key {
            Key::Name(text) => format!("the name {text}"),
            Key::Size(target) => format!("the size of {}", name(target)),
            Key::Block(target, block) => format!("block {block} of {}", name(target)),
        }
    }

    fn say_value(&self, key: &Key, value: Value) -> String {
        match key {
            Key::Name(_) if value == 0 => "nothing".into(),
            Key::Name(_) => format!("incarnation {value}"),
            Key::Size(_) => format!("{value} bytes"),
            Key::Block(..) => self.contents.describe(value),
        }
    }
}
