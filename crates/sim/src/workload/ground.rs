//! What the clients of one life of a store share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mjolnir_store::{Chunk, Chunks, Error, ErrorKind, Store};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, TreeId};
use mjolnir_vtime::SimRuntime;

use super::locks::{Guard, Locks};
use super::{Kind, Swarm, Transactions};
use crate::model::{Op, describe_bytes, value_of};
use crate::{Found, FoundTarget, Incarnation, Key, Model, SimDisk, Trouble, Value, Violation};

/// How often what was done and refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations that succeeded, by kind.
    pub done: BTreeMap<Kind, u64>,
    /// Operations that were refused for a reason that was to be expected.
    pub refused: u64,
    /// Of those, for want of space.
    pub no_space: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Of those, during recovery.
    pub cuts_in_recovery: u64,
    /// Faults of the device that the store met.
    pub faults: u64,
}

pub(crate) struct Ground<S> {
    pub store: S,
    pub runtime: SimRuntime,
    pub disk: SimDisk,
    pub model: Rc<RefCell<Model>>,
    pub swarm: Rc<Swarm>,
    pub tally: Rc<RefCell<Tally>>,
    pub(super) transactions: Transactions,
    pub(super) locks: Locks,
    /// Targets that clients may use.
    pub(super) offered: RefCell<Vec<Incarnation>>,
    /// Names that are being given or taken away.
    pub(super) busy_names: RefCell<BTreeSet<String>>,
    /// Live blocks when last counted, and draws until they are counted again.
    live: Cell<(u64, u32)>,
}

impl<S: Store> Ground<S> {
    pub fn new(
        store: S,
        runtime: SimRuntime,
        disk: SimDisk,
        model: Rc<RefCell<Model>>,
        swarm: Rc<Swarm>,
        tally: Rc<RefCell<Tally>>,
        transactions: Transactions,
    ) -> Self {
        let offered = RefCell::new(model.borrow().existing());
        Ground {
            store,
            runtime,
            disk,
            model,
            swarm,
            tally,
            transactions,
            locks: Locks::default(),
            offered,
            busy_names: RefCell::default(),
            live: Cell::new((0, 0)),
        }
    }

    /// Whether clients should give space back rather than take some.
    pub(super) fn crowded(&self) -> bool {
        let (live, wait) = self.live.get();
        if wait > 0 {
            self.live.set((live, wait - 1));
            return live * 100 > self.swarm.capacity() * self.swarm.fill_percent;
        }
        self.live.set((self.model.borrow().live_blocks(), 16));
        self.crowded()
    }

    /// Whether so much is live, or may be, that a refusal for want of space is no surprise: of a write
    /// that is under way nobody knows how much the store has taken in. A store keeps some segments
    /// open and some in reserve, which on a device as small as these is much.
    fn nearly_full(&self) -> bool {
        let kept = (12 + u64::from(self.swarm.subject.streams)) * self.swarm.info.zone_blocks;
        let usable = self.swarm.capacity().saturating_sub(kept);
        let model = self.model.borrow();
        let staged = self.transactions.borrow().staged_blocks();
        (model.live_blocks() + model.blocks_in_flight() + staged) * 100 > usable * 60
    }

    /// Whether an error was to be expected; a violation if not.
    pub(super) fn weigh(
        &self,
        what: &str,
        error: &Error,
        expected: &[ErrorKind],
    ) -> Result<(), Violation> {
        let faulted = self.disk.faults().faults() > 0 || self.disk.is_off();
        let fine = match error.kind {
            kind if expected.contains(&kind) => true,
            // Of targets that a transaction of an earlier life holds.
            ErrorKind::Busy => self.transactions.borrow().may_hold(),
            // Bad segments are out of use for a while, also those of earlier lives.
            ErrorKind::NoSpace => {
                faulted && self.swarm.trouble != Trouble::Outages
                    || self.nearly_full()
                    || [Trouble::BadPlaces, Trouble::FailedWrites].contains(&self.swarm.trouble)
            }
            ErrorKind::Io | ErrorKind::Damaged | ErrorKind::Closed => {
                let endures = [Trouble::BadPlaces, Trouble::Outages].contains(&self.swarm.trouble);
                faulted && (!endures || self.disk.is_off())
            }
            _ => false,
        };
        let mut tally = self.tally.borrow_mut();
        tally.refused += 1;
        tally.no_space += u64::from(error.kind == ErrorKind::NoSpace);
        self.runtime.trace("refused", [error.kind as u64, 0, 0]);
        fine.then_some(()).ok_or_else(|| {
            let model = self.model.borrow();
            let (live, flying) = (model.live_blocks(), model.blocks_in_flight());
            Violation::new(format!(
                "{what} failed without cause ({:?}; {live} of {} blocks are live, {flying} in \
                 flight): {error}",
                error.kind,
                self.swarm.capacity()
            ))
        })
    }

    /// Closes an operation that changed something: acknowledged, or failed and read back. `None`
    /// if it failed.
    pub(super) async fn settle<T>(
        &self,
        op: &Rc<Op>,
        guard: Guard,
        durable: bool,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Violation> {
        let error = match result {
            Ok(value) => {
                self.model.borrow_mut().acked(op, durable);
                return Ok(Some(value));
            }
            Err(error) => error,
        };
        self.weigh(&op.to_string(), &error, &[])?;
        match self.observe(op).await {
            Some(outcome) => self.model.borrow_mut().failed(op, &outcome)?,
            None => guard.keep_for_ever(),
        }
        Ok(None)
    }

    /// What the registers that `op` was to change hold; `None` if they cannot be read.
    async fn observe(&self, op: &Rc<Op>) -> Option<Vec<Value>> {
        let mut outcome = Vec::new();
        for key in op.keys() {
            let value = match key {
                Key::Block(target, block) => {
                    let id = self.model.borrow().id(*target);
                    let offset = block * BLOCK_SIZE;
                    let length = self.store.info(id).ok()?.size.saturating_sub(offset);
                    let read = self.store.read(id, offset, length.min(BLOCK_SIZE)).await;
                    value_of(&joined(read.ok()?))
                }
                Key::Size(target) => {
                    let id = self.model.borrow().id(*target);
                    self.store.info(id).ok()?.size
                }
                Key::Name(name) => match self.store.find(name) {
                    Ok(_) => self.model.borrow().if_it_exists(op, key),
                    Err(error) if error.kind == ErrorKind::NotFound => 0,
                    Err(_) => return None,
                },
            };
            outcome.push(value);
        }
        Some(outcome)
    }

    /// Reads bytes; `None` if that was refused for a reason that was to be expected.
    pub(super) async fn read(
        &self,
        target: Incarnation,
        offset: u64,
        length: u64,
    ) -> Result<Option<Vec<u8>>, Violation> {
        let (id, what) = {
            let model = self.model.borrow();
            (model.id(target), format!("a read of {}:{offset}+{length}", model.name(target)))
        };
        match self.store.read(id, offset, length).await {
            Ok(chunks) => {
                let bytes = joined(chunks);
                if bytes.len() as u64 != length {
                    return Err(Violation::new(format!("{what} returned {} bytes", bytes.len())));
                }
                Ok(Some(bytes))
            }
            Err(error) => {
                self.weigh(&what, &error, &[])?;
                if error.kind == ErrorKind::Damaged && !error.message.contains(char::is_numeric) {
                    return Err(Violation::new(format!(
                        "{what} met damage, but the error names no address: {error}"
                    )));
                }
                Ok(None)
            }
        }
    }

    /// Compares bytes that were read under a lock with the model.
    pub(super) fn compare(
        &self,
        target: Incarnation,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let model = self.model.borrow();
        for (block, within, part) in blocks_of(offset, bytes.len() as u64) {
            let got = &bytes[part.clone()];
            let expected = model.block(target, block);
            let same = match got.len() {
                BLOCK_BYTES => value_of(got) == expected,
                _ => model.contents.bytes(expected)[within..within + got.len()] == *got,
            };
            if !same {
                return Err(Violation::new(format!(
                    "a read of {} returned {} for block {block} (from byte {within}, {} bytes), \
                     which holds {}",
                    model.name(target),
                    if got.len() == BLOCK_BYTES { describe_bytes(got) } else { "bytes".into() },
                    got.len(),
                    model.contents.describe(expected)
                )));
            }
        }
        Ok(())
    }

    pub(super) fn count(&self, kind: Kind) {
        *self.tally.borrow_mut().done.entry(kind).or_default() += 1;
        self.runtime.trace("done", [kind as u64, 0, 0]);
    }
}

/// Cuts a byte range at block boundaries: block number, first byte within it, and the part of the
/// range that lies there.
pub(super) fn blocks_of(
    offset: u64,
    length: u64,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = offset;
    std::iter::from_fn(move || {
        if at == offset + length {
            return None;
        }
        let (block, within) = (at / BLOCK_SIZE, at % BLOCK_SIZE);
        let count = (BLOCK_SIZE - within).min(offset + length - at);
        let start = (at - offset) as usize;
        at += count;
        Some((block, within as usize, start..start + count as usize))
    })
}

pub(crate) fn joined(chunks: Chunks) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Data(data) => bytes.extend_from_slice(&data),
            Chunk::Zeroes(length) => bytes.resize(bytes.len() + length as usize, 0),
        }
    }
    bytes
}

/// Reads all that a store holds.
pub(crate) async fn read_everything<S: Store>(store: &S) -> Result<Found, Error> {
    let mut found = Found::default();
    for info in store.targets() {
        let blocks = read_whole(store, info.id, info.size).await.map_err(|error| {
            Error::new(error.kind, format!("reading all of {}: {error}", info.name))
        })?;
        let (name, id, size, read_only) = (info.name, info.id, info.size, info.read_only);
        found.targets.push(FoundTarget { name, id, size, read_only, blocks });
    }
    Ok(found)
}

async fn read_whole<S: Store>(store: &S, id: TreeId, size: u64) -> Result<Vec<Value>, Error> {
    const STEP: u64 = 256 * BLOCK_SIZE;
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < size {
        let length = STEP.min(size - at);
        let bytes = joined(store.read(id, at, length).await?);
        if bytes.len() as u64 != length {
            let message = format!("a read of {at}+{length} returned {} bytes", bytes.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        blocks.extend(bytes.chunks(BLOCK_BYTES).map(value_of));
        at += length;
    }
    Ok(blocks)
}
