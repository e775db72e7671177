//! An independent, naive model of volumes and snapshots, and of what a power cut may leave.
//!
//! The state is a file of **registers**: which tree a name stands for, the size of a volume, the
//! content of each block. Each operation is the list of registers it changes and to what; each
//! register remembers the versions that are not yet durable. From that follow the checks:
//!
//! * A read returns the acknowledged version of each block (the driver lets nothing else change
//!   what is being read; races are an operation of their own, see [`Model::invoke_racing`]).
//! * After a power cut each register holds its durable version or a later one, hence nothing
//!   flushed is lost, nothing old comes back, and no block is torn.
//! * What survived is a prefix: if an operation is seen to have happened, every operation that
//!   was acknowledged before it began is there in full.
//! * An atomic operation is there in all of its registers or in none.
//! * A snapshot holds every write acknowledged before it began, none that began after it, and of
//!   those in between a set that is itself a prefix, atomic ones whole.
//! * What was found after a recovery is durable from then on.
//!
//! What it does not verify: the order among operations that overlapped in time; that a recovery
//! keeps more than it must; which blocks of a long write that was cut are there; evidence that
//! fits several versions (most often zeroes over zeroes) is read in the store's favour; after an
//! operation *failed*, its outcome is taken from what is read back, and its survival is not
//! asked for. Space accounting is checked only coarsely, and times not at all.

mod contents;
mod judge;
mod recovered;
mod snapshot;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use mjolnir_units::TreeId;

pub use contents::{Contents, Value};
pub(crate) use contents::{describe_bytes, pattern_block, value_of};
pub use recovered::{Found, FoundTarget};
pub use snapshot::Capture;

/// One life of a volume or snapshot; unlike names and like the store's ids, never reused. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// One thing that operations change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Which incarnation a name stands for; 0 for none.
    Name(String),
    /// Size in bytes.
    Size(Incarnation),
    /// Content of a block, by its number.
    Block(Incarnation, u64),
}

/// A broken promise, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl Violation {
    /// A violation in those words.
    pub fn new(message: impl Into<String>) -> Self {
        Violation(message.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operation as the model knows it.
pub struct Op {
    /// Numbers operations in the order of their beginning, from 1.
    pub id: u64,
    what: String,
    atomic: bool,
    invoked: u64,
    acked: Cell<Option<u64>>,
    failed: Cell<bool>,
    keys: Vec<Key>,
    deletes: Option<Incarnation>,
}

impl Op {
    /// The registers that it changes.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op {} ({})", self.id, self.what)
    }
}

#[derive(Clone)]
struct Version {
    op: Rc<Op>,
    /// Shared, as the end of a race is known only later.
    full: Rc<Cell<Value>>,
    /// What else may be seen while only a part of the operation happened.
    partial: Vec<Value>,
}

impl Version {
    fn fits(&self, value: Value) -> bool {
        self.full.get() == value || self.partial.contains(&value)
    }
}

struct Register {
    /// What it holds durably: one value, or several while nobody has looked.
    base: Vec<Value>,
    versions: Vec<Version>,
    /// What a read returns now.
    current: Value,
}

struct Target {
    name: String,
    /// The store's ids for it; empty until the creation is acknowledged.
    ids: Vec<TreeId>,
    read_only: bool,
}

/// What an operation changes: registers and their new values.
pub type Writes = Vec<(Key, Value)>;

/// The model; see the head of the module.
#[derive(Default)]
pub struct Model {
    /// What the blocks hold.
    pub contents: Contents,
    /// Print what begins, ends and becomes durable.
    pub loud: bool,
    registers: BTreeMap<Key, Register>,
    targets: BTreeMap<Incarnation, Target>,
    /// Begun, and not known to be durable.
    pending: BTreeMap<u64, Rc<Op>>,
    captures: BTreeMap<u64, Capture>,
    clock: u64,
    ops: u64,
    incarnations: u64,
}

/// Taken when a flush begins; see [`Model::flushed`].
#[derive(Clone, Copy, Debug)]
pub struct FlushTicket(u64);

impl Model {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The number that the next operation will have, for its patterns.
    pub fn next_op(&self) -> u64 {
        self.ops + 1
    }

    /// An operation begins that will change those registers.
    pub fn invoke(&mut self, what: String, atomic: bool, writes: Writes) -> Rc<Op> {
        let writes = writes.into_iter().map(|(key, value)| (key, value, Vec::new())).collect();
        self.begin(what, atomic, None, writes)
    }

    /// A bundle of operations begins that race for those registers: the value is a guess at the
    /// end, the list is all that may be seen on the way.
    pub fn invoke_racing(&mut self, what: String, writes: Vec<(Key, Value, Vec<Value>)>) -> Rc<Op> {
        self.begin(what, false, None, writes)
    }

    /// A deletion begins.
    pub fn invoke_deletion(&mut self, what: String, target: Incarnation) -> Rc<Op> {
        let name = Key::Name(self.target(target).name.clone());
        self.begin(what, true, Some(target), vec![(name, 0, Vec::new())])
    }

    fn begin(
        &mut self,
        what: String,
        atomic: bool,
        deletes: Option<Incarnation>,
        writes: Vec<(Key, Value, Vec<Value>)>,
    ) -> Rc<Op> {
        let invoked = self.tick();
        self.ops += 1;
        let op = Rc::new(Op {
            id: self.ops,
            what,
            atomic,
            invoked,
            acked: Cell::new(None),
            failed: Cell::new(false),
            keys: writes.iter().map(|(key, _, _)| key.clone()).collect(),
            deletes,
        });
        for (key, full, partial) in writes {
            let version = Version { op: op.clone(), full: Rc::new(Cell::new(full)), partial };
            for capture in self.captures.values_mut() {
                capture.meets(&key, &version);
            }
            self.register(key).versions.push(version);
        }
        self.pending.insert(op.id, op.clone());
        self.say_loud("begins", &op);
        op
    }

    fn say_loud(&self, event: &str, op: &Op) {
        if self.loud {
            println!("{:>18}  {event} {op}", "");
        }
    }

    fn register(&mut self, key: Key) -> &mut Register {
        let new = || Register { base: vec![0], versions: Vec::new(), current: 0 };
        self.registers.entry(key).or_insert_with(new)
    }

    /// The operation was acknowledged; `durable` if it promised to be.
    pub fn acked(&mut self, op: &Rc<Op>, durable: bool) {
        let now = self.tick();
        op.acked.set(Some(now));
        self.say_loud(if durable { "acknowledged, durable:" } else { "acknowledged:" }, op);
        for key in &op.keys {
            let register = self.registers.get_mut(key).expect("its invocation made it");
            let own = register.versions.iter().find(|version| version.op.id == op.id);
            register.current = own.expect("no later version is durable yet").full.get();
        }
        if durable {
            self.cover(op.invoked);
            self.harden(op.clone());
        }
    }

    /// As [`acked`](Model::acked), of racing operations, of which `outcome` was read back.
    pub fn acked_racing(&mut self, op: &Rc<Op>, outcome: &[Value]) {
        for (key, &value) in op.keys.iter().zip(outcome) {
            let register = self.registers.get_mut(key).expect("its invocation made it");
            let own = register.versions.iter().find(|version| version.op.id == op.id);
            own.expect("no later version is durable yet").full.set(value);
        }
        self.acked(op, false);
    }

    /// The operation failed, and `outcome` was read back of its registers.
    pub fn failed(&mut self, op: &Rc<Op>, outcome: &[Value]) -> Result<(), Violation> {
        self.tick();
        op.failed.set(true);
        self.say_loud("failed:", op);
        let mut sides = (None, None);
        for (key, &value) in op.keys.iter().zip(outcome) {
            let register = self.registers.get_mut(key).expect("its invocation made it");
            let own = register.versions.iter().find(|version| version.op.id == op.id);
            let own = own.expect("no later version is durable yet");
            if value != register.current && !own.fits(value) {
                return Err(Violation::new(format!(
                    "{op} failed and left {} in {key:?}, which held {} before",
                    self.contents.describe(value),
                    self.contents.describe(register.current)
                )));
            }
            if own.full.get() != register.current {
                let side = if value == own.full.get() { &mut sides.0 } else { &mut sides.1 };
                *side = Some(key);
            }
            register.current = value;
        }
        match sides {
            (Some(there), Some(not_there)) if op.atomic => Err(Violation::new(format!(
                "{op} failed, yet happened in part: in {there:?} but not in {not_there:?}"
            ))),
            _ => Ok(()),
        }
    }

    /// Operations that were neither acknowledged nor refused yet.
    pub fn in_flight(&self) -> Vec<String> {
        self.waiting().map(|op| op.to_string()).collect()
    }

    /// Blocks that they change: so many may be in the store besides those that count as live.
    pub fn blocks_in_flight(&self) -> u64 {
        let blocks =
            |op: &Rc<Op>| op.keys.iter().filter(|key| matches!(key, Key::Block(..))).count();
        self.waiting().map(blocks).sum::<usize>() as u64
    }

    fn waiting(&self) -> impl Iterator<Item = &Rc<Op>> {
        let waiting = |op: &&Rc<Op>| op.acked.get().is_none() && !op.failed.get();
        self.pending.values().filter(waiting)
    }

    /// A flush begins.
    pub fn flush_begins(&mut self) -> FlushTicket {
        FlushTicket(self.tick())
    }

    /// The flush that began with `ticket` completed: what was acknowledged by then is durable.
    pub fn flushed(&mut self, ticket: FlushTicket) {
        self.tick();
        self.cover(ticket.0);
    }

    fn cover(&mut self, until: u64) {
        let covered = |op: &&Rc<Op>| op.acked.get().is_some_and(|acked| acked < until);
        let durable: Vec<Rc<Op>> = self.pending.values().filter(covered).cloned().collect();
        durable.into_iter().for_each(|op| self.harden(op));
    }

    fn harden(&mut self, op: Rc<Op>) {
        self.pending.remove(&op.id);
        for key in &op.keys {
            let Some(register) = self.registers.get_mut(key) else { continue };
            // Not there if a later version of the register is durable already.
            let Some(at) = register.versions.iter().position(|v| v.op.id == op.id) else {
                continue;
            };
            register.base = vec![register.versions[at].full.get()];
            register.versions.drain(..=at);
            if register.base == [0] && register.versions.is_empty() {
                self.registers.remove(key);
            }
        }
        if let Some(gone) = op.deletes {
            self.forget(gone);
        }
    }

    fn forget(&mut self, target: Incarnation) {
        self.targets.remove(&target);
        let next = Incarnation(target.0 + 1);
        let blocks = Key::Block(target, 0)..Key::Block(next, 0);
        let blocks: Vec<Key> = self.registers.range(blocks).map(|(key, _)| key.clone()).collect();
        blocks.iter().for_each(|key| drop(self.registers.remove(key)));
        self.registers.remove(&Key::Size(target));
    }

    /// The value that a read of the register returns now.
    pub fn current(&self, key: &Key) -> Value {
        self.registers.get(key).map_or(0, |register| register.current)
    }

    /// What a name stands for if it exists, though `op`, which gives or takes it, failed.
    pub fn if_it_exists(&self, op: &Op, key: &Key) -> Value {
        let register = &self.registers[key];
        let own = register.versions.iter().find(|version| version.op.id == op.id);
        own.map(|version| version.full.get())
            .filter(|&value| value != 0)
            .unwrap_or(register.current)
    }

    /// The content of a block now.
    pub fn block(&self, target: Incarnation, block: u64) -> Value {
        self.current(&Key::Block(target, block))
    }

    /// The blocks that are not all zeroes now.
    pub fn blocks(&self, target: Incarnation) -> BTreeMap<u64, Value> {
        let next = Incarnation(target.0 + 1);
        let range = self.registers.range(Key::Block(target, 0)..Key::Block(next, 0));
        range
            .filter_map(|(key, register)| match (key, register.current) {
                (Key::Block(_, block), value) if value != 0 => Some((*block, value)),
                _ => None,
            })
            .collect()
    }

    /// The size in bytes now.
    pub fn size(&self, target: Incarnation) -> u64 {
        self.current(&Key::Size(target))
    }

    fn target(&self, target: Incarnation) -> &Target {
        self.targets.get(&target).expect("the driver names targets that exist")
    }

    /// The name of a target.
    pub fn name(&self, target: Incarnation) -> &str {
        &self.target(target).name
    }

    /// Whether a target is a snapshot.
    pub fn read_only(&self, target: Incarnation) -> bool {
        self.target(target).read_only
    }

    /// The store's id of a target.
    pub fn id(&self, target: Incarnation) -> TreeId {
        *self.target(target).ids.last().expect("the driver names targets that were acknowledged")
    }

    /// The store calls the target by this id (from now on).
    pub fn learn_id(&mut self, target: Incarnation, id: TreeId) {
        let target = self.targets.get_mut(&target).expect("the target exists");
        target.ids.push(id);
    }

    /// Targets that exist now, as far as is acknowledged.
    pub fn existing(&self) -> Vec<Incarnation> {
        let names = self.registers.range(Key::Name(String::new())..Key::Size(Incarnation(0)));
        let current = names.map(|(_, register)| register.current);
        current.filter(|&value| value != 0).map(Incarnation).collect()
    }

    /// Whether the name is taken, or may be: now, or after a power cut.
    pub fn name_in_doubt(&self, name: &str) -> bool {
        let register = self.registers.get(&Key::Name(name.to_owned()));
        register.is_some_and(|r| {
            r.current != 0 || r.versions.iter().any(|v| v.op.acked.get().is_none())
        })
    }

    /// Begins to create a target; it holds `blocks` from its first moment. Returns the operation
    /// and the target.
    pub fn invoke_creation(
        &mut self,
        what: String,
        name: String,
        read_only: bool,
        size: u64,
        blocks: impl IntoIterator<Item = (u64, Vec<Value>)>,
    ) -> (Rc<Op>, Incarnation) {
        self.incarnations += 1;
        let target = Incarnation(self.incarnations);
        self.targets.insert(target, Target { name: name.clone(), ids: Vec::new(), read_only });
        let new = |base: Vec<Value>| Register { current: base[0], base, versions: Vec::new() };
        self.registers.insert(Key::Size(target), new(vec![size]));
        for (block, base) in blocks {
            self.registers.insert(Key::Block(target, block), new(base));
        }
        let op = self.begin(what, true, None, vec![(Key::Name(name), target.0, Vec::new())]);
        (op, target)
    }

    /// Distinct contents that some target refers to now: the blocks that the store must keep.
    pub fn live_blocks(&self) -> u64 {
        let mut values: Vec<Value> = self
            .registers
            .iter()
            .filter(|(key, register)| matches!(key, Key::Block(..)) && register.current != 0)
            .map(|(_, register)| register.current)
            .collect();
        values.sort_unstable();
        values.dedup();
        values.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_counted_until_it_is_acknowledged() {
        let mut model = Model::default();
        let writes =
            |at: u64| (at..at + 5).map(|b| (Key::Block(Incarnation(1), b), 7 + b)).collect();
        let ops = [0, 10].map(|at| model.invoke("a write".to_owned(), false, writes(at)));
        assert_eq!((model.live_blocks(), model.blocks_in_flight()), (0, 10));
        model.acked(&ops[0], false);
        assert_eq!((model.live_blocks(), model.blocks_in_flight()), (5, 5));
        model.acked(&ops[1], true);
        assert_eq!((model.live_blocks(), model.blocks_in_flight()), (10, 0));
    }
}
