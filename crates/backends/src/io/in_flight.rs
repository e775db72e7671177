//! Waits for requests whose futures may have been dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use event_listener::{Event, Listener, listener};

/// Counts requests in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    idle: Event,
}

/// One request in flight, until dropped.
pub(crate) struct Hold(Arc<InFlight>);

impl InFlight {
    /// Counts one more.
    pub fn hold(self: &Arc<Self>) -> Hold {
        self.count.fetch_add(1, Ordering::Relaxed);
        Hold(self.clone())
    }

    /// Whether there are none.
    pub fn is_idle(&self) -> bool {
        // Acquire: what the requests did is seen after them.
        self.count.load(Ordering::Acquire) == 0
    }

    /// Blocks the thread until there are none.
    pub fn wait(&self) {
        while !self.is_idle() {
            listener!(self.idle => idle);
            if !self.is_idle() {
                idle.wait();
            }
        }
    }

    /// Completes when there are none.
    pub async fn idle(&self) {
        while !self.is_idle() {
            listener!(self.idle => idle);
            if !self.is_idle() {
                idle.await;
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            self.0.idle.notify(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn idle_waits_for_the_last_hold() {
        let in_flight = Arc::new(InFlight::default());
        block_on(in_flight.idle());
        let (first, second) = (in_flight.hold(), in_flight.hold());
        let mut idle = pin!(in_flight.idle());
        assert!(block_on(poll_once(&mut idle)).is_none());
        drop(first);
        assert!(block_on(poll_once(&mut idle)).is_none());
        std::thread::spawn(move || drop(second));
        in_flight.wait();
        block_on(idle);
    }
}
