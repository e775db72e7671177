//! The executor of a study: one engine, one drive, and clients, in virtual time.
//!
//! Tasks run in the order in which they are woken; the clock moves only when none can run, to the
//! next timer. Processor work takes virtual time where its price was stated, and none otherwise.
//! It does what [`Sim`](crate::Sim) does and no more: no worlds that end, no draws, no trace, so
//! that an event costs a fraction of that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_units::Instant;

use super::timers::{Timer, Timers};
use mjolnir_vtime::Chance;

/// What processor work takes in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Prices {
    /// Each mapping that a mark looks at, in nanoseconds.
    pub scan_ns_per_mapping: f64,
    /// Cores that marks may use.
    pub cores: usize,
}

/// Polls without any sign of life after which a world is called stuck: far more than any request
/// takes, and a minute at most.
const IDLE_POLLS_MAX: u64 = 400_000_000;
/// Polls between two looks at whether to go on. Where nothing takes time, one makes many writes.
const POLLS_A_LOOK: u64 = 1 << 10;

type Ready = Arc<Mutex<VecDeque<u32>>>;

/// What wakes a task. Wakers are `Send`, so the queue that they write to is behind a mutex, which
/// no other thread ever takes.
struct Handle {
    number: u32,
    queued: AtomicBool,
    ready: Ready,
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.push_back(self.number);
        }
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A place for a task. Its handle serves one task after the other: a late waker of the one before
/// polls the next for nothing, which every future bears.
struct Slot {
    future: Option<Task>,
    handle: Arc<Handle>,
    /// Absent while the task is polled.
    waker: Option<Waker>,
}

struct Core {
    now: Cell<u64>,
    cpu_ns: Cell<u64>,
    /// When each core that marks may use is free again.
    cores_free_ns: RefCell<Vec<u64>>,
    timed: Cell<bool>,
    prices: Prices,
    ready: Ready,
    /// The first of those that are ready, taken off `ready` all at once.
    turn: RefCell<VecDeque<u32>>,
    slots: RefCell<Vec<Slot>>,
    vacant: RefCell<Vec<u32>>,
    timers: RefCell<Timers>,
    chance: RefCell<Chance>,
    idle_polls: Cell<u64>,
}

/// See the module.
pub(super) struct World {
    core: Rc<Core>,
}

/// The main future's number in the ready queue.
const MAIN: u32 = 0;

impl World {
    /// A world at instant 0, in which nothing takes time yet. `seed` decides identities alone.
    pub fn new(seed: u64, prices: Prices) -> Self {
        let ready = Ready::default();
        let main = Self::slot(MAIN, &ready);
        World {
            core: Rc::new(Core {
                now: Cell::new(0),
                cpu_ns: Cell::new(0),
                cores_free_ns: RefCell::new(vec![0; prices.cores.max(1)]),
                timed: Cell::new(false),
                prices,
                ready,
                turn: RefCell::default(),
                slots: RefCell::new(vec![main]),
                vacant: RefCell::default(),
                timers: RefCell::default(),
                chance: RefCell::new(Chance::new(seed)),
                idle_polls: Cell::new(0),
            }),
        }
    }

    fn slot(number: u32, ready: &Ready) -> Slot {
        let queued = AtomicBool::new(false);
        let handle = Arc::new(Handle { number, queued, ready: ready.clone() });
        Slot { future: None, waker: Some(Waker::from(handle.clone())), handle }
    }

    /// What lives in the world is given this.
    pub fn runtime(&self) -> WorldRuntime {
        WorldRuntime { core: self.core.clone() }
    }

    /// Runs until `main` is done. `go_on` is asked now and then; where it says no, or where nothing
    /// can ever happen any more, the run ends with a sentence that says so.
    pub fn run<T>(
        &self,
        main: impl Future<Output = T>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<T, String> {
        let core = &self.core;
        let mut main = pin!(main);
        let handle = core.slots.borrow()[MAIN as usize].handle.clone();
        let waker = Waker::from(handle.clone());
        handle.wake_by_ref();
        let mut polls = 0u64;
        loop {
            polls += 1;
            if polls.is_multiple_of(POLLS_A_LOOK) {
                if !go_on() {
                    return Err("the run was interrupted".to_owned());
                }
                core.idle_polls.set(core.idle_polls.get() + POLLS_A_LOOK);
                if core.idle_polls.get() > IDLE_POLLS_MAX {
                    return Err(format!(
                        "no request completed in {IDLE_POLLS_MAX} steps of the simulation: the \
                         drive works, but gets nowhere (too little spare space?)"
                    ));
                }
            }
            match core.next_ready() {
                Some(MAIN) => {
                    handle.queued.store(false, Ordering::Relaxed);
                    let polled = main.as_mut().poll(&mut Context::from_waker(&waker));
                    if let Poll::Ready(outcome) = polled {
                        return Ok(outcome);
                    }
                }
                Some(number) => core.poll(number),
                None => core.jump()?,
            }
        }
    }
}

impl Drop for World {
    /// Tasks hold runtimes, which hold the table that holds the tasks: break the circle.
    fn drop(&mut self) {
        let slots = std::mem::take(&mut *self.core.slots.borrow_mut());
        drop(slots);
        let timers = std::mem::take(&mut *self.core.timers.borrow_mut());
        drop(timers);
    }
}

impl Core {
    /// Takes the core that is free first; answers when the job is done.
    fn take_core(&self, cost_ns: u64) -> u64 {
        let mut cores = self.cores_free_ns.borrow_mut();
        let first = cores.iter_mut().min().expect("there is a core");
        *first = self.now.get().max(*first) + cost_ns;
        *first
    }

    /// The task that has been ready for the longest.
    fn next_ready(&self) -> Option<u32> {
        let mut turn = self.turn.borrow_mut();
        if turn.is_empty() {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *turn, &mut *ready);
        }
        turn.pop_front()
    }

    fn poll(&self, number: u32) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(number as usize) else { return };
        slot.handle.queued.store(false, Ordering::Relaxed);
        let Some(mut future) = slot.future.take() else { return };
        // Taken along, not cloned: that would be two atomic steps for each poll.
        let waker = slot.waker.take().expect("a task is polled by one at a time");
        drop(slots);
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let left = (!done).then_some(future);
        if let Some(slot) = self.slots.borrow_mut().get_mut(number as usize) {
            slot.waker = Some(waker);
            slot.future = left;
        }
        if done {
            self.vacant.borrow_mut().push(number);
        }
    }

    /// Moves the clock to the next timer, and wakes all that are due then.
    fn jump(&self) -> Result<(), String> {
        let mut timers = self.timers.borrow_mut();
        let Some((first, waker)) = timers.pop() else {
            return Err(format!(
                "the simulation stands still at {} ns: nothing is under way and nothing is due",
                self.now.get()
            ));
        };
        let at = self.now.get().max(first);
        self.now.set(at);
        waker.wake();
        while let Some(waker) = timers.pop_due(at) {
            waker.wake();
        }
        Ok(())
    }
}

/// Completes at an instant.
pub(super) struct Sleep {
    core: Rc<Core>,
    until: u64,
    /// Its timer, and who is woken then: what tells the waker from others.
    set: Option<(Timer, *const ())>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.core.now.get() >= self.until {
            self.set = None; // Who moved the clock took it off.
            return Poll::Ready(());
        }
        let waker = context.waker();
        let timer = match self.set {
            Some((_, whom)) if whom == waker.data() => return Poll::Pending,
            Some((timer, _)) => {
                self.core.timers.borrow_mut().change(timer, waker.clone());
                timer
            }
            None => self.core.timers.borrow_mut().set(self.until, waker.clone()),
        };
        self.set = Some((timer, waker.data()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    /// Where nothing takes time a clock may stand for the whole run: what nobody waits for any more
    /// must not wait for it.
    fn drop(&mut self) {
        if let Some((timer, _)) = self.set {
            let waker = self.core.timers.borrow_mut().give_up(timer);
            drop(waker);
        }
    }
}

/// The runtime of a world.
#[derive(Clone)]
pub(super) struct WorldRuntime {
    core: Rc<Core>,
}

impl WorldRuntime {
    /// The present instant, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.core.now.get()
    }

    /// Completes at `until_ns`.
    pub fn sleep_until(&self, until_ns: u64) -> Sleep {
        Sleep { core: self.core.clone(), until: until_ns, set: None }
    }

    /// Whether NAND, link and processors take time.
    pub fn is_timed(&self) -> bool {
        self.core.timed.get()
    }

    /// From now on they do, or not.
    pub fn set_timed(&self, timed: bool) {
        self.core.timed.set(timed);
    }

    /// Something was achieved: the world is not stuck.
    pub fn note_progress(&self) {
        self.core.idle_polls.set(0);
    }

    /// Lets every other ready task run before this one goes on.
    pub fn give_way(&self) -> impl Future<Output = ()> + 'static {
        let mut waited = false;
        std::future::poll_fn(move |context| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }
}

impl Runtime for WorldRuntime {
    fn now(&self) -> Instant {
        Instant(self.core.now.get())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sleep_until(self.core.now.get().saturating_add(ns))
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut slots = self.core.slots.borrow_mut();
        let vacant = self.core.vacant.borrow_mut().pop();
        let number = vacant.unwrap_or_else(|| {
            let number = u32::try_from(slots.len()).expect("fewer tasks than memory has room for");
            slots.push(World::slot(number, &self.core.ready));
            number
        });
        let slot = &mut slots[number as usize];
        slot.future = Some(Box::pin(task));
        slot.handle.wake_by_ref();
    }

    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        self.parallel_steps(|number| (job(number), 0))
    }

    fn parallel_steps<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> (T, u64) + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        // As in the real world, it is under way whether or not it is asked for.
        let (result, steps) = job(0);
        let core = &self.core;
        let price_ns = if core.timed.get() { core.prices.scan_ns_per_mapping } else { 0.0 };
        let cost_ns = (steps as f64 * price_ns) as u64;
        core.cpu_ns.set(core.cpu_ns.get() + cost_ns);
        let done_ns = (cost_ns > 0).then(|| core.take_core(cost_ns));
        let runtime = self.clone();
        async move {
            if let Some(done_ns) = done_ns {
                runtime.sleep_until(done_ns).await;
            }
            (result, Duration::from_nanos(cost_ns))
        }
    }

    fn parallelism(&self) -> usize {
        self.core.prices.cores.max(1)
    }

    fn random(&self) -> u64 {
        self.core.chance.borrow_mut().bits()
    }

    fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.core.cpu_ns.get())
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::zip;

    use super::*;

    #[test]
    fn the_clock_jumps_from_timer_to_timer_in_order() {
        let world = World::new(1, Prices::default());
        let runtime = world.runtime();
        let seen: Rc<RefCell<Vec<(u64, u32)>>> = Rc::default();
        for (name, ns) in [(1, 30), (2, 10), (3, 30)] {
            let (seen, own) = (seen.clone(), runtime.clone());
            runtime.spawn(async move {
                own.sleep(Duration::from_nanos(ns)).await;
                seen.borrow_mut().push((own.now_ns(), name));
            });
        }
        let own = runtime.clone();
        let done = world.run(async move { own.sleep_until(40).await }, &mut || true);
        assert_eq!(done, Ok(()));
        assert_eq!(*seen.borrow(), [(10, 2), (30, 1), (30, 3)]);
    }

    #[test]
    fn what_nobody_sleeps_for_any_more_is_forgotten() {
        let world = World::new(1, Prices::default());
        let runtime = world.runtime();
        let own = runtime.clone();
        let done = world.run(
            async move {
                for _ in 0..100 {
                    let sleep = own.sleep(Duration::from_secs(1));
                    futures_lite::future::or(sleep, own.give_way()).await;
                }
                assert!(own.core.timers.borrow().is_empty());
                own.sleep_until(7).await;
                own.now_ns()
            },
            &mut || true,
        );
        assert_eq!(done, Ok(7));
    }

    #[test]
    fn jobs_beyond_the_cores_wait_for_one() {
        for (cores, wanted_ns) in [(1, 3_000), (2, 2_000), (3, 1_000)] {
            let world = World::new(1, Prices { scan_ns_per_mapping: 10.0, cores });
            let runtime = world.runtime();
            runtime.set_timed(true);
            let own = runtime.clone();
            let jobs = async move {
                let job = || own.parallel_steps(|_| ((), 100));
                zip(job(), zip(job(), job())).await;
                own.now_ns()
            };
            assert_eq!(world.run(jobs, &mut || true), Ok(wanted_ns), "{cores} cores");
            assert_eq!(runtime.cpu_time(), Duration::from_nanos(3_000));
        }
    }

    #[test]
    fn a_job_is_under_way_before_it_is_asked_for() {
        let world = World::new(1, Prices { scan_ns_per_mapping: 10.0, cores: 1 });
        let runtime = world.runtime();
        runtime.set_timed(true);
        let own = runtime.clone();
        let job = async move {
            let job = own.parallel_steps(|_| ((), 100));
            own.sleep_until(700).await;
            job.await;
            own.now_ns()
        };
        assert_eq!(world.run(job, &mut || true), Ok(1_000));
    }

    #[test]
    fn a_world_in_which_nothing_can_happen_says_so() {
        let world = World::new(1, Prices::default());
        let stuck = world.run(std::future::pending::<()>(), &mut || true).unwrap_err();
        assert!(stuck.contains("stands still"), "{stuck}");
    }

    #[test]
    fn a_run_ends_when_it_is_told_to() {
        let world = World::new(1, Prices::default());
        let runtime = world.runtime();
        let endless = async {
            loop {
                runtime.give_way().await;
            }
        };
        let told: Result<(), String> = world.run(endless, &mut || false);
        assert!(told.unwrap_err().contains("interrupted"));
    }
}
