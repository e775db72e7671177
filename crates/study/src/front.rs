//! What lies between the host and the engine: the queue, the link, a core of the drive.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mjolnir_flash::controller::ControllerSpec;
use mjolnir_flash::nand::Timeline;
use mjolnir_units::Instant;
use mjolnir_vtime::SimRuntime;

/// The front of a drive: charges queue, link and processor as [`mjolnir_flash::Ssd`] does.
pub(super) struct Front {
    runtime: SimRuntime,
    link: RefCell<Timeline>,
    link_ns_per_byte: f64,
    link_command_ns: u64,
    pub buffer_ns: u64,
    request_ns: u64,
    core: RefCell<Timeline>,
    /// Free ones: while there are any, nobody waits.
    places: Cell<u32>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

/// One who waits for a place in the queue.
struct Waiter {
    /// Whether a place was handed to it, which it has not taken yet.
    granted: Cell<bool>,
    waker: RefCell<Waker>,
}

/// A wait for a place, until it has one or is dropped.
struct Turn<'a> {
    front: &'a Front,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Turn<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let front = self.front;
        let Some(waiter) = &self.waiter else {
            if front.places.get() > 0 {
                front.places.set(front.places.get() - 1);
                return Poll::Ready(());
            }
            let (granted, waker) = (Cell::new(false), RefCell::new(context.waker().clone()));
            let waiter = Rc::new(Waiter { granted, waker });
            front.waiting.borrow_mut().push_back(waiter.clone());
            self.waiter = Some(waiter);
            return Poll::Pending;
        };
        if waiter.granted.get() {
            self.waiter = None;
            return Poll::Ready(());
        }
        waiter.waker.borrow_mut().clone_from(context.waker());
        Poll::Pending
    }
}

impl Drop for Turn<'_> {
    /// Whoever gives up leaves the line, or hands on the place that it was just given.
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        match waiter.granted.get() {
            true => self.front.release(),
            false => self.front.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &waiter)),
        }
    }
}

/// A place in the drive's queue, until it is dropped.
pub(super) struct Place<'a>(&'a Front);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Front {
    /// The front that a device file describes; each request takes `request_ns` of a core.
    pub fn new(runtime: SimRuntime, controller: &ControllerSpec, request_ns: f64) -> Self {
        Front {
            runtime,
            link: RefCell::default(),
            link_ns_per_byte: controller.link_ns_per_byte,
            link_command_ns: controller.link_command_ns,
            buffer_ns: controller.buffer_ns,
            request_ns: request_ns as u64,
            core: RefCell::default(),
            places: Cell::new(controller.queue_depth),
            waiting: RefCell::default(),
        }
    }

    /// Waits for a place in the queue.
    pub async fn enter(&self) -> Place<'_> {
        Turn { front: self, waiter: None }.await;
        Place(self)
    }

    /// Hands a place to the first in the line: were it free until that one is polled, whoever gave it up
    /// could take it back before.
    fn release(&self) {
        let first = self.waiting.borrow_mut().pop_front();
        match first {
            Some(waiter) => {
                waiter.granted.set(true);
                waiter.waker.borrow().wake_by_ref();
            }
            None => self.places.set(self.places.get() + 1),
        }
    }

    /// Takes the link for a command and its data, not before `earliest`; answers when that is over.
    pub fn transfer(&self, earliest: u64, bytes: u64) -> u64 {
        let data = (bytes as f64 * self.link_ns_per_byte).round() as u64;
        let length = self.link_command_ns + data;
        self.link.borrow_mut().take(self.runtime.now_ns(), earliest, length) + length
    }

    /// Takes the core for a request that is there at `from`; answers when that is over.
    pub fn compute(&self, from: u64) -> u64 {
        let now = self.runtime.now_ns();
        self.core.borrow_mut().take(now, from, self.request_ns) + self.request_ns
    }

    /// Waits until an instant, if it is not past.
    pub async fn until(&self, instant: u64) {
        if instant > self.runtime.now_ns() {
            self.runtime.sleep_until(Instant(instant)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_lite::future::poll_once;
    use mjolnir_device::Runtime as _;
    use mjolnir_flash::Device;
    use mjolnir_vtime::Jobs;
    use std::time::Duration;

    use super::super::world::simulation;
    use super::*;

    const NO_TIME: Jobs = Jobs::BySteps { step_ns: 0.0, cores: 1 };

    fn front(runtime: &SimRuntime, places: u32) -> Front {
        let mut controller = Device::shipped("disksim-ssd").unwrap().controller;
        controller.queue_depth = places;
        Front::new(runtime.clone(), &controller, 0.0)
    }

    #[test]
    fn clients_beyond_the_queue_take_turns() {
        let sim = simulation(1, NO_TIME);
        let runtime = sim.world();
        let front = Rc::new(front(&runtime, 2));
        let served: Rc<RefCell<[u32; 5]>> = Rc::default();
        for client in 0..5 {
            let (front, served, own) = (front.clone(), served.clone(), runtime.clone());
            runtime.spawn(async move {
                loop {
                    let _place = front.enter().await;
                    own.sleep(Duration::from_nanos(10)).await;
                    served.borrow_mut()[client] += 1;
                }
            });
        }
        sim.run(runtime.sleep_until(Instant(1_001))).unwrap();
        assert_eq!(*served.borrow(), [40; 5]);
    }

    /// Some give up before they have a place, some when they were just given one.
    #[test]
    fn whoever_leaves_the_line_takes_no_place_along() {
        let sim = simulation(1, NO_TIME);
        let front = front(&sim.world(), 1);
        let line = async move {
            let first = front.enter().await;
            {
                let mut gives_up = pin!(front.enter());
                assert!(poll_once(gives_up.as_mut()).await.is_none());
            }
            let mut third = pin!(front.enter());
            {
                let mut second = pin!(front.enter());
                assert!(poll_once(second.as_mut()).await.is_none());
                assert!(poll_once(third.as_mut()).await.is_none());
                drop(first);
            }
            drop(third.await);
            drop(poll_once(front.enter()).await.expect("nobody is there"));
        };
        assert_eq!(sim.run(line), Ok(()));
    }
}
