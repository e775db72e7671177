//! Wakers that remember whether they were woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// One direction of a transport, polled only when it may have news.
///
/// A connection is woken by its transport and by each of its requests. Without this, every finished
/// request would cost a read without data (a system call, and often a second one to be woken
/// again).
pub(crate) struct Signal {
    inner: Arc<Inner>,
    waker: Waker,
}

struct Inner {
    woken: AtomicBool,
    connection: AtomicWaker,
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.connection.wake();
    }
}

impl Signal {
    pub(crate) fn new() -> Self {
        let inner =
            Arc::new(Inner { woken: AtomicBool::new(true), connection: AtomicWaker::new() });
        Signal { waker: Waker::from(inner.clone()), inner }
    }

    /// Calls `act` with its own context, unless `act` was last not ready and was not woken since.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        // Registered before the flag is read: a later wake finds this waker.
        self.inner.connection.register(cx.waker());
        if !self.inner.woken.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        let answer = act(&mut Context::from_waker(&self.waker));
        if answer.is_ready() {
            // More data may be available.
            self.inner.woken.store(true, Ordering::Release);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ready_is_asked_again_only_once_woken() {
        let signal = Signal::new();
        let (mut asked, mut waker) = (0, None);
        let mut poll = |ready: bool, waker: &mut Option<Waker>| {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = signal.poll(&mut cx, |cx| {
                asked += 1;
                *waker = Some(cx.waker().clone());
                if ready { Poll::Ready(()) } else { Poll::Pending }
            });
            asked
        };
        assert_eq!([poll(true, &mut waker), poll(true, &mut waker)], [1, 2]);
        assert_eq!([poll(false, &mut waker), poll(false, &mut waker)], [3, 3]);
        waker.take().unwrap().wake();
        assert_eq!([poll(false, &mut waker), poll(false, &mut waker)], [4, 4]);
    }
}
