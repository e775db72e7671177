//! Transactions of a coordinator: prepared, decided at once, in a later life of the store, or never.
//!
//! What a transaction writes is invoked in the model only when it is committed: until then nothing may show. Over a
//! power cut the model does not know of it, so what is known of each is kept here.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use mjolnir_device::Runtime;
use mjolnir_store::{Change, Error, ErrorKind, Op as StoreOp, TransactionId, TransactionState};
use mjolnir_vtime::Chance;

use super::Kind;
use super::data::Place;
use super::ground::Ground;
use super::locks::{Guard, Want};
use crate::model::{Contents, Writes, pattern_block};
use crate::{Incarnation, Key, Model, Subject, Trouble, Value, Violation};

/// Patterns of transactions have numbers from here on, which no operation has.
const NUMBERS: u64 = 1 << 39;

/// How far a transaction is known to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Prepared,
    Committing,
    Committed,
    Aborting,
    Aborted,
    Forgetting,
    /// A step failed: it may be anything.
    Unclear,
}

impl Stage {
    /// What a store may say of it after a power cut.
    fn allows(self, state: TransactionState) -> bool {
        use TransactionState::{Committed, Prepared, Unknown};
        match self {
            Stage::Preparing | Stage::Aborting => state != Committed,
            Stage::Prepared => state == Prepared,
            Stage::Committing => state != Unknown,
            Stage::Committed => state == Committed,
            Stage::Aborted => state == Unknown,
            Stage::Forgetting => state != Prepared,
            Stage::Unclear => true,
        }
    }
}

#[derive(Clone)]
struct Transaction {
    id: TransactionId,
    what: String,
    places: Vec<Place>,
    writes: Writes,
    stage: Stage,
    /// A client is at it.
    busy: bool,
}

/// All transactions that a store may know, over all of its lives.
#[derive(Default)]
pub(crate) struct Transactions {
    all: Vec<Transaction>,
    begun: u64,
}

impl Transactions {
    /// Whether a store may hold something for one.
    pub fn may_hold(&self) -> bool {
        let settled =
            |stage| matches!(stage, Stage::Committed | Stage::Aborted | Stage::Forgetting);
        self.all.iter().any(|of| !settled(of.stage))
    }

    /// Blocks that wait with them.
    pub fn staged_blocks(&self) -> u64 {
        self.all.iter().map(|of| of.writes.len() as u64).sum()
    }

    /// Compares what a store says after a recovery, and takes it over.
    pub fn recovered<S: Subject>(&mut self, store: &S, model: &Model) -> Result<(), Violation> {
        for of in &mut self.all {
            let (was, state) = (of.stage, store.transaction(of.id));
            let broken = |how: &str| {
                let (id, what) = (of.id, &of.what);
                Err(Violation::new(format!("transaction {id} ({what}) was {was:?}, and {how}")))
            };
            if !was.allows(state) {
                return broken(&format!("is {state:?} after a power cut"));
            }
            let now: Vec<Value> = of.writes.iter().map(|(key, _)| model.current(key)).collect();
            let pairs = || of.writes.iter().map(|(_, value)| *value).zip(now.iter().copied());
            // A pattern of its own tells; zeroes may be anybody's.
            let shows = pairs().any(|(value, now)| value != 0 && value == now);
            match state {
                TransactionState::Committed
                    if was == Stage::Committing && !pairs().all(|(value, now)| value == now) =>
                {
                    return broken("is called committed, but is not in force");
                }
                TransactionState::Prepared if shows => {
                    return broken("is called prepared, but a part of it is in force");
                }
                // A commit that was forgotten is unknown, too.
                TransactionState::Unknown
                    if shows && !matches!(was, Stage::Forgetting | Stage::Unclear) =>
                {
                    return broken("is not known, but a part of it is in force");
                }
                _ => {}
            }
            of.busy = false;
            of.stage = match state {
                TransactionState::Prepared => Stage::Prepared,
                TransactionState::Committed => Stage::Committed,
                TransactionState::Unknown => Stage::Aborted,
            };
        }
        // What is unknown now stays so.
        self.all.retain(|of| of.stage != Stage::Aborted);
        Ok(())
    }

    fn of(&mut self, id: TransactionId) -> &mut Transaction {
        self.all.iter_mut().find(|of| of.id == id).expect("it was begun")
    }
}

impl<S: Subject> Ground<S> {
    /// Prepares a transaction, or goes on with one that was left.
    pub(super) async fn transact(&self, chance: &mut Chance) -> Result<(), Violation> {
        if !S::IS_MEMBER {
            return Ok(());
        }
        let left = {
            let transactions = self.transactions.borrow();
            let waits = |of: &&Transaction| of.stage == Stage::Prepared && !of.busy;
            transactions.all.iter().find(waits).map(|of| (of.id, of.places.clone()))
        };
        if let Some((id, places)) = left.filter(|_| !chance.one_in(3)) {
            let wants = places.into_iter().flat_map(|place| place.change()).collect();
            let Some(guard) = self.locks.try_take(wants) else { return Ok(()) };
            self.transactions.borrow_mut().of(id).busy = true;
            self.try_to_delete(id).await?;
            return self.decide(chance, id, guard).await;
        }
        let Some((id, guard, changes)) = self.plan_transaction(chance) else { return Ok(()) };
        if let Err(error) = self.store.prepare(id, changes).await {
            self.transactions.borrow_mut().of(id).stage = Stage::Unclear;
            guard.keep_for_ever();
            return self.weigh("the preparation of a transaction", &error, &[]);
        }
        self.transactions.borrow_mut().of(id).stage = Stage::Prepared;
        self.expect(id, TransactionState::Prepared)?;
        if chance.one_in(3) {
            self.try_to_delete(id).await?;
        }
        self.runtime.sleep(Duration::from_micros(chance.below(2_000))).await;
        if chance.one_in(4) {
            // Its coordinator is gone. It is of this life still: nobody else is at these blocks.
            guard.keep_for_ever();
            return Ok(());
        }
        self.decide(chance, id, guard).await
    }

    /// A transaction with the lock on what it changes, and its changes.
    fn plan_transaction(&self, chance: &mut Chance) -> Option<(TransactionId, Guard, Vec<Change>)> {
        let mut places = Vec::new();
        for _ in 0..chance.within(1..5) {
            places.push((self.some_place(chance, true, true)?, chance.one_in(4)));
        }
        let wants: Vec<Want> = places.iter().flat_map(|(place, _)| place.change()).collect();
        let guard = self.locks.try_take(wants)?;
        let mut transactions = self.transactions.borrow_mut();
        transactions.begun += 1;
        let number = NUMBERS + transactions.begun;
        let model = &mut *self.model.borrow_mut();
        let (mut writes, mut changes, mut said) = (Writes::new(), Vec::new(), Vec::new());
        let mut index = 0;
        for (place, is_trim) in &places {
            let (id, offset, length) = (model.id(place.target), place.offset, place.length);
            let mut data = Vec::new();
            for block in place.blocks() {
                let key = Key::Block(place.target, block);
                let value = match is_trim {
                    true => 0,
                    false => {
                        let seed = Contents::seed(number, index);
                        data.extend_from_slice(&pattern_block(seed));
                        model.contents.pattern(seed)
                    }
                };
                index += 1;
                writes.retain(|(other, _)| *other != key);
                writes.push((key, value));
            }
            changes.push(Change::Bytes(match is_trim {
                true => StoreOp::Trim { of: id, offset, length },
                false => StoreOp::Write { to: id, offset, data: Bytes::from(data) },
            }));
            said.push(format!("{} {}", if *is_trim { "trim" } else { "write" }, place.say(model)));
        }
        let id = TransactionId(transactions.begun.into());
        transactions.all.push(Transaction {
            id,
            what: said.join(", "),
            places: places.into_iter().map(|(place, _)| place).collect(),
            writes,
            stage: Stage::Preparing,
            busy: true,
        });
        Some((id, guard, changes))
    }

    /// What a transaction holds cannot be deleted, whoever tries.
    async fn try_to_delete(&self, id: TransactionId) -> Result<(), Violation> {
        let target: Incarnation = self.transactions.borrow_mut().of(id).places[0].target;
        let name = self.model.borrow().name(target).to_owned();
        match self.store.delete_volume(&name).await {
            Err(error) if error.kind == ErrorKind::Busy => Ok(()),
            Err(error) => self.weigh("the deletion of what a transaction holds", &error, &[]),
            Ok(()) => Err(Violation::new(format!("{name} was deleted, which {id} holds"))),
        }
    }

    /// Commits or aborts, and sometimes has a commit forgotten.
    async fn decide(
        &self,
        chance: &mut Chance,
        id: TransactionId,
        guard: Guard,
    ) -> Result<(), Violation> {
        let set = |stage| self.transactions.borrow_mut().of(id).stage = stage;
        if chance.one_in(3) {
            set(Stage::Aborting);
            if let Err(error) = self.store.abort(id).await {
                set(Stage::Unclear);
                guard.keep_for_ever();
                return self.refused("the abort", id, &error);
            }
            set(Stage::Aborted);
            self.count(Kind::Transaction);
            return self.expect(id, TransactionState::Unknown);
        }
        let op = {
            let (mut transactions, mut model) =
                (self.transactions.borrow_mut(), self.model.borrow_mut());
            let of = transactions.of(id);
            of.stage = Stage::Committing;
            model.invoke(format!("transaction {id}: {}", of.what), true, of.writes.clone())
        };
        let result = self.store.commit(id).await;
        if let Err(error) = &result {
            self.refused("the commit", id, error)?;
        }
        if self.settle(&op, guard, true, result).await?.is_none() {
            set(Stage::Unclear);
            return Ok(());
        }
        set(Stage::Committed);
        self.expect(id, TransactionState::Committed)?;
        self.count(Kind::Transaction);
        if !chance.one_in(4) {
            set(Stage::Forgetting);
            match self.store.forget(id).await {
                Ok(()) => self.expect(id, TransactionState::Unknown)?,
                Err(error) => self.weigh("forgetting a transaction", &error, &[])?,
            }
        }
        Ok(())
    }

    /// Neither space nor other transactions are a reason not to end one, unless bad places took the
    /// reserve.
    fn refused(&self, what: &str, id: TransactionId, error: &Error) -> Result<(), Violation> {
        let takes_places =
            [Trouble::BadPlaces, Trouble::FailedWrites].contains(&self.swarm.trouble);
        let is_bad = takes_places && error.kind == ErrorKind::NoSpace;
        if is_bad || self.disk.faults().faults() > 0 || self.disk.is_off() {
            return Ok(());
        }
        Err(Violation::new(format!("{what} of transaction {id} was refused: {error}")))
    }

    fn expect(&self, id: TransactionId, expected: TransactionState) -> Result<(), Violation> {
        let state = self.store.transaction(id);
        if state == expected {
            return Ok(());
        }
        Err(Violation::new(format!("transaction {id} is {state:?}, and should be {expected:?}")))
    }
}

/// What all lives of a store share of them.
pub(crate) type Shared = Rc<std::cell::RefCell<Transactions>>;
