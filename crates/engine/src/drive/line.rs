//! The line of clients that wait for admission. Only the first checks whether it may proceed.

use std::cell::Cell;

use event_listener::Event;

/// A line of waiters; the first one holds the turn.
#[derive(Default)]
pub(crate) struct Line {
    /// Number of waiters in the line.
    length: Cell<usize>,
    /// Whether the first waiter waits for something.
    pub blocked: Cell<bool>,
    /// Signals that the turn is free; wakes the longest waiter.
    free: Event,
}

impl Line {
    /// Joins the line, and waits for the turn. Dropping the future leaves the line.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        // Waiters are notified one after another, in order. A client takes the turn if it joins an
        // empty line or was notified; no other client tries while some wait.
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
pub(crate) struct Turn<'a> {
    line: &'a Line,
    /// Whether this place holds the turn.
    taken: bool,
}

impl Turn<'_> {
    /// Marks the first waiter as waiting: new clients join the line behind it.
    pub(crate) fn block(&self) {
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiter<'a> = Pin<Box<dyn Future<Output = Turn<'a>> + 'a>>;

    /// A client that joins the line now.
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
        // The next waiter was called but has not run yet: a client that joins now is behind all of
        // them.
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
        // One of four leaves, before or after it was called; later ones join meanwhile.
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
