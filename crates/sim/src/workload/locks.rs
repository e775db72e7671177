//! Locks of the driver, not of the store: they keep two operations from changing one register of
//! the model at once, so that the model always knows what to expect.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::Incarnation;

/// A number past all blocks, which stands for a target's being there, its size and its identity.
pub(super) const SHAPE: Range<u64> = u64::MAX - 1..u64::MAX;

/// What is held.
#[derive(Clone, Default)]
pub(super) struct Locks {
    held: Rc<RefCell<Vec<(u64, Want)>>>,
}

/// A range of blocks of a target, to look at or to change.
#[derive(Clone, Debug)]
pub(super) struct Want {
    target: Incarnation,
    blocks: Range<u64>,
    change: bool,
}

impl Want {
    pub fn look(target: Incarnation, blocks: Range<u64>) -> Self {
        Want { target, blocks, change: false }
    }

    pub fn change(target: Incarnation, blocks: Range<u64>) -> Self {
        Want { target, blocks, change: true }
    }

    fn meets(&self, other: &Want) -> bool {
        self.target == other.target
            && (self.change || other.change)
            && self.blocks.start < other.blocks.end
            && other.blocks.start < self.blocks.end
    }
}

/// Held until dropped.
pub(super) struct Guard {
    locks: Locks,
    number: u64,
}

impl Locks {
    /// Takes all, or none if one of them is in the way of another operation.
    pub fn try_take(&self, wants: Vec<Want>) -> Option<Guard> {
        let mut held = self.held.borrow_mut();
        if wants.iter().any(|want| held.iter().any(|(_, other)| want.meets(other))) {
            return None;
        }
        let number = held.last().map_or(0, |(number, _)| number + 1);
        held.extend(wants.into_iter().map(|want| (number, want)));
        Some(Guard { locks: self.clone(), number })
    }
}

impl Guard {
    /// Never lets go: what an operation with an unknown outcome changed is touched no more.
    pub fn keep_for_ever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.locks.held.borrow_mut().retain(|(number, _)| *number != self.number);
    }
}
