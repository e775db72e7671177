//! What lies between the host and the engine: the queue, the link, a core of the drive.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use mjolnir_flash::controller::ControllerSpec;
use mjolnir_flash::nand::Timeline;

use super::world::WorldRuntime;

/// The front of a drive: charges queue, link and processor as [`mjolnir_flash::Ssd`] does.
pub(super) struct Front {
    runtime: WorldRuntime,
    link: RefCell<Timeline>,
    link_ns_per_byte: f64,
    link_command_ns: u64,
    pub buffer_ns: u64,
    request_ns: f64,
    core_free_ns: Cell<u64>,
    places: Cell<u32>,
    waiting: RefCell<VecDeque<Waker>>,
}

/// A place in the drive's queue, until it is dropped.
pub(super) struct Place<'a>(&'a Front);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.places.set(self.0.places.get() + 1);
        if let Some(waker) = self.0.waiting.borrow_mut().pop_front() {
            waker.wake();
        }
    }
}

impl Front {
    /// The front that a device file describes; each request takes `request_ns` of a core.
    pub fn new(runtime: WorldRuntime, controller: &ControllerSpec, request_ns: f64) -> Self {
        Front {
            runtime,
            link: RefCell::default(),
            link_ns_per_byte: controller.link_ns_per_byte,
            link_command_ns: controller.link_command_ns,
            buffer_ns: controller.buffer_ns,
            request_ns,
            core_free_ns: Cell::new(0),
            places: Cell::new(controller.queue_depth),
            waiting: RefCell::default(),
        }
    }

    /// Waits for a place in the queue.
    pub async fn enter(&self) -> Place<'_> {
        poll_fn(|context| {
            if self.places.get() > 0 {
                self.places.set(self.places.get() - 1);
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await;
        Place(self)
    }

    /// Takes the link for a command and its data, not before `earliest`; answers when that is over.
    pub fn transfer(&self, earliest: u64, bytes: u64) -> u64 {
        let data = (bytes as f64 * self.link_ns_per_byte).round() as u64;
        let length = self.link_command_ns + data;
        self.link.borrow_mut().take(self.runtime.now_ns(), earliest, length) + length
    }

    /// Takes the core for a request that is there at `from`; answers when that is over.
    pub fn compute(&self, from: u64) -> u64 {
        let done = self.core_free_ns.get().max(from) + self.request_ns as u64;
        self.core_free_ns.set(done);
        done
    }

    /// Waits until an instant, if it is not past.
    pub async fn until(&self, instant: u64) {
        if instant > self.runtime.now_ns() {
            self.runtime.sleep_until(instant).await;
        }
    }
}
