//! The writes to one zone, of which only one is under way at a time.
//!
//! Appends get their addresses in the order of calls. They wait in a queue, and those that wait
//! together are written together. A write that fails ends the zone: what waits behind it fails, too,
//! until the zone is reset.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use event_listener::{Event, listener};
use mjolnir_device::DeviceError;

/// What became of an append.
#[derive(Default)]
pub(super) struct Answer {
    result: RefCell<Option<Result<(), DeviceError>>>,
    given: Event,
}

impl Answer {
    /// Says what became of it.
    pub fn give(&self, result: Result<(), DeviceError>) {
        *self.result.borrow_mut() = Some(result);
        self.given.notify(usize::MAX);
    }

    /// Completes once that is known.
    pub async fn wait(&self) -> Result<(), DeviceError> {
        loop {
            listener!(self.given => given);
            if let Some(result) = self.result.borrow().clone() {
                return result;
            }
            given.await;
        }
    }
}

/// Appends that are written together.
pub(super) struct Batch {
    /// Where the first one begins, in blocks from the zone's start.
    pub offset: u64,
    pub pieces: Vec<Bytes>,
    pub answers: Vec<Rc<Answer>>,
}

struct Waiting {
    offset: u64,
    pieces: Vec<Bytes>,
    answer: Rc<Answer>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Lane {
    state: RefCell<State>,
    idle: Event,
    /// A command to the zone is under way.
    is_commanded: Cell<bool>,
    is_free: Event,
}

/// The right to command a zone, until dropped.
pub(super) struct Turn(Rc<Lane>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.is_commanded.set(false);
        self.0.is_free.notify(1);
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    /// A task is writing what the queue holds.
    busy: bool,
    failed: Option<DeviceError>,
}

impl Lane {
    /// Adds an append. Whether a task must be started that writes the queue.
    pub fn push(&self, offset: u64, pieces: Vec<Bytes>) -> (Rc<Answer>, bool) {
        let answer = Rc::<Answer>::default();
        let state = &mut *self.state.borrow_mut();
        state.queue.push_back(Waiting { offset, pieces, answer: answer.clone() });
        (answer, !std::mem::replace(&mut state.busy, true))
    }

    /// Takes appends of at most `longest` bytes in all, and at least one; `None` if none waits: then the
    /// task ends. Appends behind a failed one are answered here.
    pub fn next(&self, longest: u64) -> Option<Batch> {
        let state = &mut *self.state.borrow_mut();
        if let Some(error) = &state.failed {
            state.queue.drain(..).for_each(|waiting| waiting.answer.give(Err(error.clone())));
        }
        let Some(first) = state.queue.pop_front() else {
            state.busy = false;
            self.idle.notify(usize::MAX);
            return None;
        };
        let length = |pieces: &[Bytes]| pieces.iter().map(Bytes::len).sum::<usize>() as u64;
        let mut bytes = length(&first.pieces);
        let mut batch =
            Batch { offset: first.offset, pieces: first.pieces, answers: vec![first.answer] };
        while let Some(next) = state.queue.front()
            && bytes + length(&next.pieces) <= longest
        {
            bytes += length(&next.pieces);
            let next = state.queue.pop_front().expect("it is the front");
            batch.pieces.extend(next.pieces);
            batch.answers.push(next.answer);
        }
        Some(batch)
    }

    /// A batch has ended.
    pub fn ended(&self, batch: Batch, result: Result<(), DeviceError>) {
        if let Err(error) = &result {
            self.state.borrow_mut().failed = Some(error.clone());
        }
        batch.answers.iter().for_each(|answer| answer.give(result.clone()));
    }

    /// Completes once nothing waits or is under way.
    pub async fn until_idle(&self) {
        loop {
            listener!(self.idle => idle);
            if !self.state.borrow().busy {
                return;
            }
            idle.await;
        }
    }

    /// The zone was reset.
    pub fn restart(&self) {
        self.state.borrow_mut().failed = None;
    }

    /// Completes when no other command to the zone is under way.
    pub async fn turn(self: Rc<Self>) -> Turn {
        loop {
            listener!(self.is_free => free);
            if !self.is_commanded.replace(true) {
                return Turn(self.clone());
            }
            free.await;
        }
    }

    /// Whether a write failed since the last reset.
    pub fn has_failed(&self) -> bool {
        self.state.borrow().failed.is_some()
    }
}
