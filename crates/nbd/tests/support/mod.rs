//! What the tests stand on: a naive store, an in-memory stream, a client that speaks bytes, and
//! an executor that notices when nothing will ever happen again.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod client;
pub mod drive;
pub mod memory;
pub mod pipe;

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use client::Client;
use memory::MemoryStore;
use mjolnir_nbd::{Disconnect, Options, Served, serve};
use pipe::duplex;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a future until it ends, or (`None`) until nothing is left that could wake it.
pub fn run_until_stalled<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(flag.clone());
    let mut cx = Context::from_waker(&waker);
    while flag.0.swap(false, Ordering::Relaxed) {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return Some(value);
        }
    }
    None
}

/// Runs a future that must end.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    run_until_stalled(future).expect("client and server wait for each other")
}

/// One connection with `talk` as the client; returns how it ended for the server, and what the
/// client returned.
pub fn connect<T, F: Future<Output = T>>(
    store: &Rc<MemoryStore>,
    options: &Options,
    talk: impl FnOnce(Client) -> F,
) -> (Result<Served, Disconnect>, T) {
    let (near, far) = duplex(1 << 20, usize::MAX);
    run(futures_lite::future::zip(serve(&**store, far, options), talk(Client::new(near))))
}
