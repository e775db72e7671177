//! Yielding to other tasks.

use std::future::poll_fn;
use std::task::Poll;

/// Lets other tasks run once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
