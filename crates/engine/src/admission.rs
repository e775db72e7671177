//! Admission: clients whose writes must wait stand in a line.
//!
//! Only the first of the line looks whether it may go, each time that something changes; so what
//! reclaim does for one client does not wake all the others. While it waits, nobody passes those in
//! the line. Once it need not wait any more, the others are called one after another, and whoever
//! comes then goes at once as long as nothing is in the way: so the line ends, however busy clients are.
//!
//! A write that is longer than a group stands in line for each part of it. Trims and what else makes
//! room stand in none.

use std::cell::Cell;

use event_listener::Event;
use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::engine::{Engine, State};
use crate::memory::{dirty_bytes_max, undurable_nodes_max};
use crate::options::OpenOptions;

/// A line, the first of which has the turn.
#[derive(Default)]
pub(crate) struct Line {
    /// How many stand in it.
    length: Cell<usize>,
    /// Whether the first one waits for something.
    blocked: Cell<bool>,
    /// The turn is free: for the one who has waited longest.
    free: Event,
}

impl Line {
    /// Joins the line, and waits until the turn comes. Whoever's future is dropped has left.
    async fn turn(&self) -> Turn<'_> {
        // Those who wait are notified one after another, in order. The turn is taken by whoever
        // joins an empty line, or was notified: nobody else asks for it while some wait.
        let first = self.length.get() == 0;
        self.length.set(self.length.get() + 1);
        let mut turn = Turn { line: self, taken: false };
        if !first {
            self.free.listen().await;
        }
        turn.taken = true;
        turn
    }
}

/// A place in the line.
struct Turn<'a> {
    line: &'a Line,
    /// Whether it is the first.
    taken: bool,
}

impl Turn<'_> {
    /// The first one must wait: others stand behind it.
    fn block(&self) {
        debug_assert!(self.taken, "only the first one waits for something");
        self.line.blocked.set(true);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.line.length.set(self.line.length.get() - 1);
        if self.taken {
            self.line.blocked.set(false);
            self.line.free.notify(1);
        }
    }
}

/// What a client's write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Too much is unwritten.
    Dirty,
    /// Too much was accepted since the flush began that is under way.
    Unflushed,
    /// Checkpoints have more of the map to write than memory has room for.
    Map,
    /// No free space is left for clients.
    Panic,
    /// Reclaim has its share to do first.
    Share,
}

impl State {
    /// Whether checkpoints have more of the map to write than memory has room for.
    fn outruns_checkpoints(&self, options: &OpenOptions) -> bool {
        self.undurable_map_bytes() > undurable_nodes_max(options)
    }

    /// Whether the device's flush, which is under way, lags behind clients. Once it ends the next one
    /// covers what was accepted meanwhile: so half of the bound may be, each time.
    fn outruns_flushes(&self, options: &OpenOptions) -> bool {
        self.flush_running && self.log.since_flush > options.unflushed_bytes_max / 2
    }

    /// What keeps clients from writing; nothing if the store takes no more changes, which they shall
    /// be told.
    fn obstacle(&self, options: &OpenOptions) -> Option<Obstacle> {
        if self.check_health().is_err() {
            None
        } else if self.log.dirty_bytes > dirty_bytes_max(options) {
            Some(Obstacle::Dirty)
        } else if self.outruns_flushes(options) {
            Some(Obstacle::Unflushed)
        } else if self.outruns_checkpoints(options) {
            Some(Obstacle::Map)
        } else if self.reclaim.gate_closed() {
            Some(if self.reclaim.last_pacing.panic { Obstacle::Panic } else { Obstacle::Share })
        } else {
            None
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until a client's write may be accepted: within the bound on unwritten data, and as
    /// pacing allows.
    pub(crate) async fn admit(&self, blocks: u64) -> Result<(), Error> {
        if self.inner.line.blocked.get() || self.obstacle().is_some() {
            let _waiting = Waiting::new(self);
            let turn = self.inner.line.turn().await;
            self.pass(&turn).await;
        }
        let mut state = self.state();
        state.check_health()?;
        state.reclaim.client_wrote(blocks);
        Ok(())
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.state().obstacle(&self.inner.options)
    }

    /// Waits while something is in the way, and has those know who can do something about it.
    async fn pass(&self, turn: &Turn<'_>) {
        let options = &self.inner.options;
        while let Some(obstacle) = self.obstacle() {
            turn.block();
            self.tell_of(obstacle);
            self.wait_while(|state| state.obstacle(options) == Some(obstacle)).await;
        }
    }

    fn tell_of(&self, obstacle: Obstacle) {
        match obstacle {
            Obstacle::Dirty => {
                // What is bounded to less than a group would else wait for the group to linger.
                let mut guard = self.state();
                let state = &mut *guard;
                state.log.close_logged_groups(&mut state.space);
                drop(guard);
                self.submit();
            }
            // Checkpoints are begun in time by whoever makes the nodes dirty; a flush runs.
            Obstacle::Map | Obstacle::Unflushed => {}
            Obstacle::Panic | Obstacle::Share => {
                self.inner.lead_wanted.notify(1);
                self.call_reclaim();
            }
        }
    }

    /// Waits while checkpoints have more of the map to write than memory has room for. More than
    /// one is due for is never left by the last one, so this ends.
    pub(crate) async fn admit_nodes(&self) {
        let options = &self.inner.options;
        let busy =
            |state: &mut State| state.check_health().is_ok() && state.outruns_checkpoints(options);
        if busy(&mut self.state()) {
            self.wait_while(busy).await;
        }
    }
}

/// A client that waits to be admitted, or for space, counted until it ends or its future is dropped.
pub(crate) struct Waiting<D: Device, R: Runtime>(Engine<D, R>);

impl<D: Device, R: Runtime> Waiting<D, R> {
    pub fn new(engine: &Engine<D, R>) -> Self {
        engine.state().clients_waiting += 1;
        Waiting(engine.clone())
    }
}

impl<D: Device, R: Runtime> Drop for Waiting<D, R> {
    fn drop(&mut self) {
        let last = {
            let mut state = self.0.state();
            state.clients_waiting -= 1;
            state.clients_waiting == 0
        };
        if last {
            self.0.notify();
        }
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

    fn is_empty(line: &Line) -> bool {
        line.length.get() == 0 && !line.blocked.get()
    }

    #[test]
    fn turns_come_in_order_and_nobody_passes() {
        let line = Line::default();
        let (_, first) = join(&line);
        let mut waiters: Vec<_> = (0..3).map(|_| join(&line)).collect();
        assert!(first.is_some() && waiters.iter().all(|(_, turn)| turn.is_none()));
        first.as_ref().unwrap().block();
        assert!(line.blocked.get());
        drop(first);
        assert!(!line.blocked.get(), "nobody is known to wait for something");
        // The next one has been called, and not come yet: whoever comes now is behind all of them.
        waiters.push(join(&line));
        for next in 0..4 {
            assert!(!is_empty(&line));
            for (waiter, _) in &mut waiters[next + 1..] {
                assert!(look(waiter).is_none(), "somebody passes {next}");
            }
            let turn = look(&mut waiters[next].0);
            assert!(turn.is_some(), "{next} waits for nobody");
        }
        drop(waiters);
        assert!(is_empty(&line));
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
                assert!(is_empty(&line));
            }
        }
        // All leave, one of them called.
        let line = Line::default();
        let (_, first) = join(&line);
        let waiters: Vec<_> = (0..3).map(|_| join(&line)).collect();
        drop(first);
        drop(waiters);
        assert!(is_empty(&line) && join(&line).1.is_some());
    }
}
