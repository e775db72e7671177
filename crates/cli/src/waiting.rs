//! Connections whose peer has asked for nothing yet, and so has proved nothing. However many there
//! are, they keep out nobody who asks: the one that has waited longest gives way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use event_listener::Event;

/// A request to stop, heard by everyone who listens.
#[derive(Default)]
pub struct Stop {
    asked: Cell<bool>,
    event: Event,
}

impl Stop {
    /// Asks for it.
    pub fn ask(&self) {
        self.asked.set(true);
        self.event.notify(usize::MAX);
    }

    /// Whether it was asked for.
    pub fn is_requested(&self) -> bool {
        self.asked.get()
    }

    /// Completes once it was asked for.
    pub async fn requested(&self) {
        while !self.asked.get() {
            self.event.listen().await;
        }
    }
}

/// The connections that wait.
#[derive(Default)]
pub struct WaitingRoom {
    /// What ends each of them: first those that never asked for anything, each by when it came.
    ends: RefCell<BTreeMap<(bool, u64), Rc<Stop>>>,
    /// So many there have been.
    count: Cell<u64>,
    /// Those that were told to end, and are not gone yet.
    ending: Cell<usize>,
}

/// One that waits; it does no more when this is dropped.
pub struct Waiting {
    room: Rc<WaitingRoom>,
    key: (bool, u64),
    end: Rc<Stop>,
}

impl WaitingRoom {
    /// One more waits. Those that have asked for something before give way after all that have not.
    pub fn enter(self: Rc<Self>, has_asked: bool) -> Waiting {
        let (key, end) = ((has_asked, self.count.get()), Rc::new(Stop::default()));
        self.count.set(key.1 + 1);
        self.ends.borrow_mut().insert(key, end.clone());
        Waiting { room: self, key, end }
    }

    /// How many wait, but for those that were told to end.
    pub fn len(&self) -> usize {
        self.ends.borrow().len()
    }

    /// How many were told to end, and are not gone yet.
    pub fn ending(&self) -> usize {
        self.ending.get()
    }

    /// Ends the one that is to give way first; false if there is none.
    pub fn end_first(&self) -> bool {
        let Some((_, end)) = self.ends.borrow_mut().pop_first() else { return false };
        self.ending.set(self.ending.get() + 1);
        end.ask();
        true
    }
}

impl Waiting {
    /// Completes once it is to give way.
    pub async fn is_to_end(&self) {
        self.end.requested().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.room.ends.borrow_mut().remove(&self.key).is_none() {
            self.room.ending.set(self.room.ending.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_asked_gives_way_first_and_of_those_who_came_first() {
        let room = Rc::new(WaitingRoom::default());
        let enter = |has_asked| room.clone().enter(has_asked);
        let waiting = [enter(true), enter(false), enter(true), enter(false)];
        let ended = || waiting.iter().map(|one| one.end.is_requested()).collect::<Vec<_>>();
        for expected in [
            [false, true, false, false],
            [false, true, false, true],
            [true, true, false, true],
            [true, true, true, true],
        ] {
            assert!(room.end_first());
            assert_eq!(ended(), expected);
        }
        assert!(!room.end_first());
        assert_eq!((room.len(), room.ending()), (0, 4));
        drop(waiting);
        assert_eq!(room.ending(), 0);
    }
}
