//! Admission: clients whose writes must wait stand in a line.
//!
//! Only the first of the line looks whether it may go, each time that something changes; so what
//! reclaim does for one client does not wake all the others, and nobody passes those who came before.

use std::cell::Cell;

use event_listener::Event;
use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::engine::{Engine, State};
use crate::memory::{dirty_bytes_max, undurable_nodes_max};

/// A line, the first of which has the turn.
#[derive(Default)]
pub(crate) struct Line {
    /// Whether somebody has the turn.
    taken: Cell<bool>,
    /// How many have it or wait for it.
    length: Cell<usize>,
    /// The turn is free: for the one who has waited longest.
    free: Event,
}

impl Line {
    /// Whether nobody stands in it.
    fn is_empty(&self) -> bool {
        self.length.get() == 0
    }

    /// Joins the line, and waits until the turn comes. Whoever's future is dropped has left.
    async fn turn(&self) -> Turn<'_> {
        // Those who wait are notified one after another, in order. The turn is taken by whoever
        // joins an empty line, or was notified: nobody else asks for it while some wait.
        let first = self.is_empty();
        self.length.set(self.length.get() + 1);
        let mut turn = Turn { line: self, taken: false };
        if !first {
            self.free.listen().await;
        }
        debug_assert!(!self.taken.get(), "two have the turn");
        self.taken.set(true);
        turn.taken = true;
        turn
    }
}

/// A place in the line.
struct Turn<'a> {
    line: &'a Line,
    /// Whether it is the first, which has the turn.
    taken: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.line.length.set(self.line.length.get() - 1);
        if self.taken {
            self.line.taken.set(false);
            self.line.free.notify(1);
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until a client's write may be accepted: within the bound on unwritten data, and as
    /// pacing allows.
    pub(crate) async fn admit(&self, blocks: u64) -> Result<(), Error> {
        let most = dirty_bytes_max(&self.inner.options);
        let most_nodes = undurable_nodes_max(&self.inner.options);
        let busy = |state: &mut State| {
            state.check_health().is_ok()
                && (state.log.dirty_bytes > most
                    || state.undurable_map_bytes() > most_nodes
                    || !state.reclaim.client_may_write())
        };
        if self.inner.line.is_empty() && !busy(&mut self.state()) {
            return self.admitted(blocks);
        }
        let _waiting = Waiting::new(self);
        let _turn = self.inner.line.turn().await;
        if busy(&mut self.state()) {
            {
                // What is bounded to less than a group would else wait for the group to linger.
                let mut guard = self.state();
                let state = &mut *guard;
                if state.log.dirty_bytes > most {
                    state.log.close_logged_groups(&mut state.space);
                }
            }
            self.submit();
            if self.state().reclaim.gate_closed() {
                self.inner.lead_wanted.notify(1);
                self.call_reclaim();
            }
            self.wait_while(busy).await;
        }
        self.admitted(blocks)
    }

    /// Counts a client's write, which may go.
    fn admitted(&self, blocks: u64) -> Result<(), Error> {
        let mut state = self.state();
        state.check_health()?;
        state.reclaim.client_wrote(blocks);
        Ok(())
    }

    /// Waits while checkpoints have more of the map to write than memory has room for. More than
    /// one is due for is never left by the last one, so this ends.
    pub(crate) async fn admit_nodes(&self) {
        let most = undurable_nodes_max(&self.inner.options);
        let busy =
            |state: &mut State| state.check_health().is_ok() && state.undurable_map_bytes() > most;
        if busy(&mut self.state()) {
            self.wait_while(busy).await;
        }
    }
}

/// A client that waits for space or pacing, counted until it ends or its future is dropped.
pub(crate) struct Waiting<D: Device, R: Runtime>(Engine<D, R>);

impl<D: Device, R: Runtime> Waiting<D, R> {
    pub fn new(engine: &Engine<D, R>) -> Self {
        engine.state().clients_waiting += 1;
        Waiting(engine.clone())
    }
}

impl<D: Device, R: Runtime> Drop for Waiting<D, R> {
    fn drop(&mut self) {
        self.0.state().clients_waiting -= 1;
        self.0.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiter<'a> = Pin<Box<dyn Future<Output = Turn<'a>> + 'a>>;

    /// Somebody who joins the line now.
    fn join(line: &Line) -> (Waiter<'_>, Option<Turn<'_>>) {
        let mut waiter: Waiter<'_> = Box::pin(line.turn());
        let turn = look(&mut waiter);
        (waiter, turn)
    }

    fn look<'a>(waiter: &mut Waiter<'a>) -> Option<Turn<'a>> {
        match waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn turns_come_in_order_and_nobody_passes() {
        let line = Line::default();
        let (_, first) = join(&line);
        let mut waiters: Vec<_> = (0..3).map(|_| join(&line)).collect();
        assert!(first.is_some() && waiters.iter().all(|(_, turn)| turn.is_none()));
        drop(first);
        // The next one has been called, and not come yet: whoever comes now is behind all of them.
        waiters.push(join(&line));
        for next in 0..4 {
            assert!(!line.is_empty());
            for (waiter, _) in &mut waiters[next + 1..] {
                assert!(look(waiter).is_none(), "somebody passes {next}");
            }
            let turn = look(&mut waiters[next].0);
            assert!(turn.is_some(), "{next} waits for nobody");
        }
        drop(waiters);
        assert!(line.is_empty());
        assert!(join(&line).1.is_some());
    }

    #[test]
    fn whoever_leaves_holds_up_nobody() {
        // One of four leaves, before or after it was called, and later ones come meanwhile.
        for leaves in 0..3 {
            for called in [false, true] {
                let line = Line::default();
                let (_, first) = join(&line);
                let mut waiters: Vec<_> = (0..3).map(|_| join(&line)).collect();
                if !called {
                    drop(waiters.remove(leaves));
                    drop(first);
                } else {
                    drop(first);
                    drop(waiters.remove(leaves));
                }
                waiters.push(join(&line));
                for (number, (mut waiter, _)) in waiters.into_iter().enumerate() {
                    let turn = look(&mut waiter);
                    assert!(turn.is_some(), "{number} hangs after {leaves} left, called: {called}");
                }
                assert!(line.is_empty());
            }
        }
        // All leave, one of them called.
        let line = Line::default();
        let (_, first) = join(&line);
        let waiters: Vec<_> = (0..3).map(|_| join(&line)).collect();
        drop(first);
        drop(waiters);
        assert!(line.is_empty() && join(&line).1.is_some());
    }
}
