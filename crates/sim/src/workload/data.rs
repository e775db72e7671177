//! Operations on bytes of volumes.

use std::collections::BTreeMap;

use bytes::Bytes;
use mjolnir_store::{Durability, Mapping, Op, Store, ZeroMode};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};
use mjolnir_vtime::Chance;

use super::Kind;
use super::ground::{Ground, blocks_of};
use super::locks::{SHAPE, Want};
use crate::model::{Writes, pattern_block};
use crate::{Contents, Incarnation, Key, Model, Value, Violation};

/// A byte range of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub target: Incarnation,
    pub offset: u64,
    pub length: u64,
}

impl Place {
    pub fn blocks(&self) -> std::ops::Range<u64> {
        self.offset / BLOCK_SIZE..(self.offset + self.length).div_ceil(BLOCK_SIZE)
    }

    /// The blocks of something of that size that lie in it whole, its last one included.
    fn whole_blocks(&self, size: u64) -> std::ops::Range<u64> {
        let (start, end) = (self.offset.div_ceil(BLOCK_SIZE), self.offset + self.length);
        let end = if end == size { end.div_ceil(BLOCK_SIZE) } else { end / BLOCK_SIZE };
        start..end.max(start)
    }

    pub fn look(&self) -> [Want; 2] {
        [Want::look(self.target, self.blocks()), Want::look(self.target, SHAPE)]
    }

    pub fn change(&self) -> [Want; 2] {
        [Want::change(self.target, self.blocks()), Want::look(self.target, SHAPE)]
    }

    pub fn say(&self, model: &Model) -> String {
        format!("{}:{}+{}", model.name(self.target), self.offset, self.length)
    }
}

impl<S: Store> Ground<S> {
    /// A volume (or any target), drawn.
    pub(super) fn some_target(&self, chance: &mut Chance, writable: bool) -> Option<Incarnation> {
        let model = self.model.borrow();
        let fit: Vec<Incarnation> = self
            .offered
            .borrow()
            .iter()
            .copied()
            .filter(|&target| !writable || !model.read_only(target))
            .collect();
        (!fit.is_empty()).then(|| *chance.pick(&fit))
    }

    /// A range, drawn; of whole blocks if `whole`.
    pub(super) fn some_place(
        &self,
        chance: &mut Chance,
        writable: bool,
        whole: bool,
    ) -> Option<Place> {
        let target = self.some_target(chance, writable)?;
        let size = self.model.borrow().size(target);
        let blocks = size / BLOCK_SIZE;
        if blocks == 0 {
            return None;
        }
        let most = if chance.one_in(12) { 160 } else { self.swarm.io_blocks }.min(blocks);
        let count = 1 + chance.below(most).min(chance.below(most * 2));
        let count = count.min(blocks);
        let hot = self.swarm.hot && !chance.one_in(5);
        let span = if hot { (blocks / 10).max(count) } else { blocks };
        let first = chance.below(span - count + 1);
        let (mut offset, mut length) = (first * BLOCK_SIZE, count * BLOCK_SIZE);
        if !whole && self.swarm.unaligned && chance.one_in(2) {
            let grain = *chance.pick(&[1, 512, 512]);
            let cut = chance.below(length.min(2 * BLOCK_SIZE) / grain) * grain;
            (offset, length) = (offset + cut, length - cut);
            length -= chance.below(length.min(2 * BLOCK_SIZE).div_ceil(grain)) * grain;
            if first + count == blocks && chance.one_in(2) {
                length = size - offset;
            }
        }
        Some(Place { target, offset, length })
    }

    /// As [`some_place`](Self::some_place), as long as `like` and of whole blocks.
    fn some_place_like(&self, chance: &mut Chance, like: Place, writable: bool) -> Option<Place> {
        let target = self.some_target(chance, writable)?;
        let blocks = self.model.borrow().size(target) / BLOCK_SIZE;
        let room = (blocks + 1).checked_sub(like.length / BLOCK_SIZE).filter(|&room| room > 0)?;
        Some(Place { target, offset: chance.below(room) * BLOCK_SIZE, length: like.length })
    }

    pub(super) async fn write(&self, chance: &mut Chance, durable: bool) -> Result<(), Violation> {
        let Some(place) = self.some_place(chance, true, false) else { return Ok(()) };
        let Some(guard) = self.locks.try_take(place.change().into()) else { return Ok(()) };
        let (op, id, data) = {
            let model = &mut *self.model.borrow_mut();
            let number = model.next_op();
            let (writes, data) = plan_write(model, place, number);
            let what =
                format!("{} {}", if durable { "durable write" } else { "write" }, place.say(model));
            (model.invoke(what, false, writes), model.id(place.target), data)
        };
        let durability = if durable { Durability::Durable } else { Durability::Buffered };
        let result = self.store.write(id, place.offset, Bytes::from(data), durability).await;
        if self.settle(&op, guard, durable, result).await?.is_some() {
            self.count(if durable { Kind::DurableWrite } else { Kind::Write });
        }
        Ok(())
    }

    pub(super) async fn check_read(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(place) = self.some_place(chance, false, false) else { return Ok(()) };
        let Some(_guard) = self.locks.try_take(place.look().into()) else { return Ok(()) };
        if let Some(bytes) = self.read(place.target, place.offset, place.length).await? {
            self.compare(place.target, place.offset, &bytes)?;
            self.count(Kind::Read);
        }
        Ok(())
    }

    pub(super) async fn zeroes(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(place) = self.some_place(chance, true, false) else { return Ok(()) };
        let Some(guard) = self.locks.try_take(place.change().into()) else { return Ok(()) };
        let durable = chance.one_in(8);
        let (op, id) = {
            let model = &mut *self.model.borrow_mut();
            let mut writes = Writes::new();
            for (block, within, part) in blocks_of(place.offset, place.length) {
                let old = model.block(place.target, block);
                let new = match part.len() {
                    BLOCK_BYTES => 0,
                    count => model.contents.overlay(old, within, &vec![0; count]),
                };
                writes.push((Key::Block(place.target, block), new));
            }
            let what = format!("zeroes {}", place.say(model));
            (model.invoke(what, false, writes), model.id(place.target))
        };
        let mode = *chance.pick(&[ZeroMode::Unmap, ZeroMode::KeepAllocated]);
        let durability = if durable { Durability::Durable } else { Durability::Buffered };
        let result = self.store.write_zeroes(id, place.offset, place.length, mode, durability);
        let result = result.await;
        if self.settle(&op, guard, durable, result).await?.is_some() {
            self.count(Kind::Zeroes);
        }
        Ok(())
    }

    pub(super) async fn trim(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(mut place) = self.some_place(chance, true, false) else { return Ok(()) };
        if self.crowded() && chance.one_in(4) {
            let size = self.model.borrow().size(place.target);
            place = Place { offset: 0, length: size, ..place };
        }
        let Some(guard) = self.locks.try_take(place.change().into()) else { return Ok(()) };
        let durable = chance.one_in(8);
        let (op, id) = {
            let model = &mut *self.model.borrow_mut();
            let blocks = place.whole_blocks(model.size(place.target));
            let writes = blocks.map(|block| (Key::Block(place.target, block), 0)).collect();
            let what = format!("trim {}", place.say(model));
            (model.invoke(what, true, writes), model.id(place.target))
        };
        let durability = if durable { Durability::Durable } else { Durability::Buffered };
        let result = self.store.trim(id, place.offset, place.length, durability).await;
        if self.settle(&op, guard, durable, result).await?.is_some() {
            self.count(Kind::Trim);
        }
        Ok(())
    }

    pub(super) async fn flush(&self) -> Result<(), Violation> {
        let ticket = self.model.borrow_mut().flush_begins();
        match self.store.flush().await {
            Ok(()) => {
                self.model.borrow_mut().flushed(ticket);
                self.count(Kind::Flush);
                Ok(())
            }
            Err(error) => self.weigh("a flush", &error, &[]),
        }
    }

    pub(super) async fn extents(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(place) = self.some_place(chance, false, true) else { return Ok(()) };
        let Some(_guard) = self.locks.try_take(place.look().into()) else { return Ok(()) };
        let id = self.model.borrow().id(place.target);
        let limit = chance.within(1..20) as usize;
        let extents = match self.store.extents(id, place.offset, place.length, limit).await {
            Ok(extents) => extents,
            Err(error) => return self.weigh("a query of extents", &error, &[]),
        };
        let total: u64 = extents.iter().map(|extent| extent.length).sum();
        if extents.is_empty() || extents.len() > limit || total > place.length {
            return Err(Violation::new(format!(
                "{} extents of {total} bytes answer a query of {} bytes and at most {limit}",
                extents.len(),
                place.length
            )));
        }
        let model = self.model.borrow();
        let mut offset = place.offset;
        for extent in extents {
            for (block, _, _) in blocks_of(offset, extent.length) {
                let value = model.block(place.target, block);
                if value != 0 && extent.mapping == Mapping::Hole {
                    return Err(Violation::new(format!(
                        "block {block} of {} is called a hole, but it holds {}",
                        model.name(place.target),
                        model.contents.describe(value)
                    )));
                }
            }
            offset += extent.length;
        }
        drop(model);
        self.count(Kind::Extents);
        Ok(())
    }

    /// Clone, move, or an atomic vector of several operations.
    pub(super) async fn vector(&self, chance: &mut Chance, kind: Kind) -> Result<(), Violation> {
        let count = if kind == Kind::Atomic { chance.within(1..6) } else { 1 };
        let (ops_max, bytes_max) = self.store.atomic_limit();
        let mut steps = Vec::new();
        let mut payload = 0;
        for _ in 0..count.min(ops_max as u64) {
            let Some(to) = self.some_place(chance, true, true) else { return Ok(()) };
            let step = match kind {
                Kind::CloneRange => 2,
                Kind::MoveRange => 3,
                _ => chance.below(4),
            };
            let from = self.some_place_like(chance, to, step == 3);
            let step = match (step, from) {
                (0, _) if payload + to.length <= bytes_max => Step::Write { to },
                (2, Some(from)) => Step::Clone { from, to },
                (3, Some(from)) => Step::Move { from, to },
                _ => Step::Trim { of: to },
            };
            payload += if matches!(step, Step::Write { .. }) { to.length } else { 0 };
            steps.push(step);
        }
        let wants = steps.iter().flat_map(Step::wants).collect();
        let Some(guard) = self.locks.try_take(wants) else { return Ok(()) };
        let durable = chance.one_in(6);
        let (op, ops) = {
            let model = &mut *self.model.borrow_mut();
            let (ops, writes, what) = plan_vector(model, &steps);
            (model.invoke(what, true, writes), ops)
        };
        let durability = if durable { Durability::Durable } else { Durability::Buffered };
        let result = self.store.atomic(ops, durability).await;
        if self.settle(&op, guard, durable, result).await?.is_some() {
            self.count(kind);
        }
        Ok(())
    }
}

/// What a write of operation `number`'s pattern changes, and its bytes.
fn plan_write(model: &mut Model, place: Place, number: u64) -> (Writes, Vec<u8>) {
    let mut data = Vec::with_capacity(place.length as usize);
    let mut writes = Writes::new();
    for (index, (block, within, part)) in blocks_of(place.offset, place.length).enumerate() {
        let seed = Contents::seed(number, index as u64);
        let pattern = pattern_block(seed);
        let bytes = &pattern[within..within + part.len()];
        data.extend_from_slice(bytes);
        let value = match part.len() {
            BLOCK_BYTES => model.contents.pattern(seed),
            _ => {
                let old = model.block(place.target, block);
                model.contents.overlay(old, within, bytes)
            }
        };
        writes.push((Key::Block(place.target, block), value));
    }
    (writes, data)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { to: Place },
    Trim { of: Place },
    Clone { from: Place, to: Place },
    Move { from: Place, to: Place },
}

impl Step {
    fn wants(&self) -> Vec<Want> {
        match self {
            Step::Write { to: place } | Step::Trim { of: place } => place.change().into(),
            Step::Clone { from, to } => [from.look(), to.change()].concat(),
            Step::Move { from, to } => [from.change(), to.change()].concat(),
        }
    }
}

/// The operations of a vector, what they change taken together, and a description.
fn plan_vector(model: &mut Model, steps: &[Step]) -> (Vec<Op>, Writes, String) {
    let number = model.next_op();
    let mut changed: BTreeMap<Key, Value> = BTreeMap::new();
    let (mut ops, mut said) = (Vec::new(), Vec::new());
    let mut index = 0;
    for step in steps {
        let copy = |model: &Model, changed: &BTreeMap<Key, Value>, from: Place| -> Vec<Value> {
            let keys = from.blocks().map(|block| Key::Block(from.target, block));
            keys.map(|key| changed.get(&key).copied().unwrap_or_else(|| model.current(&key)))
                .collect()
        };
        let (to, values) = match *step {
            Step::Write { to } => {
                let mut data = Vec::new();
                let mut values = Vec::new();
                for _ in to.blocks() {
                    let seed = Contents::seed(number, index);
                    index += 1;
                    data.extend_from_slice(&pattern_block(seed));
                    values.push(model.contents.pattern(seed));
                }
                let (offset, data) = (to.offset, Bytes::from(data));
                ops.push(Op::Write { to: model.id(to.target), offset, data });
                said.push(format!("write {}", to.say(model)));
                (to, values)
            }
            Step::Trim { of } => {
                let (offset, length) = (of.offset, of.length);
                ops.push(Op::Trim { of: model.id(of.target), offset, length });
                said.push(format!("trim {}", of.say(model)));
                (of, of.blocks().map(|_| 0).collect())
            }
            Step::Clone { from, to } => {
                ops.push(Op::Clone {
                    from: model.id(from.target),
                    from_offset: from.offset,
                    to: model.id(to.target),
                    to_offset: to.offset,
                    length: to.length,
                });
                said.push(format!("clone {} to {}", from.say(model), to.say(model)));
                (to, copy(model, &changed, from))
            }
            Step::Move { from, to } => {
                ops.push(Op::Move {
                    from: model.id(from.target),
                    from_offset: from.offset,
                    to: model.id(to.target),
                    to_offset: to.offset,
                    length: to.length,
                });
                said.push(format!("move {} to {}", from.say(model), to.say(model)));
                let values = copy(model, &changed, from);
                changed.extend(from.blocks().map(|block| (Key::Block(from.target, block), 0)));
                (to, values)
            }
        };
        for (block, value) in to.blocks().zip(values) {
            changed.insert(Key::Block(to.target, block), value);
        }
    }
    (ops, changed.into_iter().collect(), said.join(", "))
}
