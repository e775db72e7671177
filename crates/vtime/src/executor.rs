//! A single-threaded executor in virtual time.
//!
//! Nothing runs by itself: the clock moves by a small charge for each poll, and jumps to the next
//! timer when no task can run. Which of several ready tasks runs first is either their order of
//! waking, or drawn from the seed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_units::Instant;

use crate::Chance;
use crate::trace::Trace;

/// How a simulation behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Draw which ready task runs next, instead of taking the one that woke first.
    pub shuffle: bool,
    /// Virtual time that each poll of a task costs, on the clock and on the processor.
    pub poll_cost: Duration,
    /// Virtual time that each job given to [`Runtime::parallel`] costs.
    pub job_cost: Duration,
    /// Whether this thread does a part of what is handed out ([`Runtime::own_job`]).
    pub own_job: bool,
    /// Virtual time after which a simulation that is not done is called stuck.
    pub time_limit: Duration,
    /// Polls after which the same is said of it, for tasks that spin.
    pub poll_limit: u64,
    /// Print every event.
    pub loud: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            shuffle: false,
            poll_cost: Duration::from_nanos(300),
            job_cost: Duration::from_micros(20),
            own_job: false,
            time_limit: Duration::from_secs(600),
            poll_limit: 5_000_000,
            loud: false,
        }
    }
}

/// Why a simulation cannot come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// No task is ready and no timer is set, but the main future waits.
    Deadlock(Instant),
    /// The time limit or the poll limit has passed.
    TooLong(Instant),
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stuck::Deadlock(at) => {
                write!(f, "deadlock at {} ns: nothing is ready, no timer is set", at.0)
            }
            Stuck::TooLong(at) => write!(f, "not done at {} ns of virtual time", at.0),
        }
    }
}

/// Names the tasks that a power cut ends together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorldId(u32);

/// A simulation: a clock, tasks in worlds, one source of chance, one trace.
pub struct Sim {
    core: Rc<Core>,
}

struct Core {
    options: Options,
    now: Cell<u64>,
    charged: Cell<u64>,
    /// Numbers tasks and timers; equal instants are ordered by it.
    numbers: Cell<u64>,
    /// The number of the next job that is handed to `parallel`.
    jobs: Cell<usize>,
    ready: Arc<Mutex<VecDeque<u64>>>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    timers: RefCell<BTreeMap<(u64, u64), Waker>>,
    worlds: RefCell<BTreeSet<WorldId>>,
    world_count: Cell<u32>,
    chance: RefCell<Chance>,
    /// What worlds draw themselves. It is a source of its own: what they draw does not shift what happens.
    drawn: RefCell<Chance>,
    trace: RefCell<Trace>,
}

struct Task {
    world: WorldId,
    /// Absent while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    handle: Arc<Handle>,
}

/// What wakes a task. Wakers are `Send`, so the queue they write to is behind a mutex, which no
/// other thread ever takes.
struct Handle {
    number: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<VecDeque<u64>>>,
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().expect("no poll panics with the queue locked").push_back(self.number);
        }
    }
}

/// The main future's number in the ready queue.
const MAIN: u64 = 0;
/// Jobs that can run at once.
const PARALLELISM: usize = 2;

impl Sim {
    /// A simulation at instant 0 whose chances `seed` decides.
    pub fn new(seed: u64, options: Options) -> Self {
        Sim {
            core: Rc::new(Core {
                options,
                now: Cell::new(0),
                charged: Cell::new(0),
                numbers: Cell::new(MAIN),
                jobs: Cell::new(0),
                ready: Arc::default(),
                tasks: RefCell::default(),
                timers: RefCell::default(),
                worlds: RefCell::default(),
                world_count: Cell::new(0),
                chance: RefCell::new(Chance::new(seed)),
                drawn: RefCell::new(Chance::new(!seed)),
                trace: RefCell::new(Trace::new(options.loud)),
            }),
        }
    }

    /// A new world, and the runtime that what lives in it is given.
    pub fn world(&self) -> SimRuntime {
        let world = WorldId(self.core.world_count.get());
        self.core.world_count.set(world.0 + 1);
        self.core.worlds.borrow_mut().insert(world);
        SimRuntime { core: self.core.clone(), world }
    }

    /// Ends a world: its tasks are dropped where they stand, and it takes no new ones.
    pub fn kill(&self, world: WorldId) {
        self.core.worlds.borrow_mut().remove(&world);
        let mut tasks = self.core.tasks.borrow_mut();
        let doomed: Vec<u64> = tasks
            .iter()
            .filter(|(_, task)| task.world == world)
            .map(|(&number, _)| number)
            .collect();
        let doomed: Vec<Task> = doomed.iter().filter_map(|number| tasks.remove(number)).collect();
        // What is dropped may wake, sleep or spawn, and so needs the tables.
        drop(tasks);
        drop(doomed);
    }

    /// Runs until `main` is done, and returns its outcome.
    pub fn run<T>(&self, main: impl Future<Output = T>) -> Result<T, Stuck> {
        let core = &self.core;
        let handle = Arc::new(Handle {
            number: MAIN,
            queued: AtomicBool::new(false),
            ready: core.ready.clone(),
        });
        handle.wake_by_ref();
        let waker = Waker::from(handle.clone());
        let mut main = pin!(main);
        let limit = core.options.time_limit.as_nanos() as u64;
        let mut polls = 0;
        loop {
            core.fire_timers();
            polls += 1;
            if core.now.get() > limit || polls > core.options.poll_limit {
                return Err(Stuck::TooLong(Instant(core.now.get())));
            }
            let Some(number) = core.next_ready() else {
                core.jump()?;
                continue;
            };
            core.charge(core.options.poll_cost);
            core.trace.borrow_mut().mix(number);
            core.trace.borrow_mut().mix(core.now.get());
            if number != MAIN {
                core.poll_task(number);
                continue;
            }
            handle.queued.store(false, Ordering::Relaxed);
            if let Poll::Ready(outcome) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(outcome);
            }
        }
    }

    /// Runs until `main` is done or the clock says `until`; `None` if that came first.
    pub fn run_until<T>(
        &self,
        until: Instant,
        main: impl Future<Output = T>,
    ) -> Result<Option<T>, Stuck> {
        let timer = self.core.clone().sleep_until(until);
        self.run(futures_lite::future::or(async { Some(main.await) }, async {
            timer.await;
            None
        }))
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        Instant(self.core.now.get())
    }

    /// A digest of everything that happened so far: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.core.trace.borrow().hash()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.core.trace.borrow().events()
    }

    /// The last events, as lines.
    pub fn tail(&self) -> Vec<String> {
        self.core.trace.borrow().tail()
    }
}

impl Drop for Sim {
    /// Tasks hold runtimes, which hold the tables that hold the tasks: break the circle.
    fn drop(&mut self) {
        self.core.worlds.borrow_mut().clear();
        let tasks = std::mem::take(&mut *self.core.tasks.borrow_mut());
        drop(tasks);
        self.core.timers.borrow_mut().clear();
    }
}

impl Core {
    fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    fn charge(&self, cost: Duration) {
        let cost = cost.as_nanos() as u64;
        self.now.set(self.now.get() + cost);
        self.charged.set(self.charged.get() + cost);
    }

    fn next_ready(&self) -> Option<u64> {
        let mut ready = self.ready.lock().expect("no poll panics with the queue locked");
        if self.options.shuffle && ready.len() > 1 {
            let index = self.chance.borrow_mut().below(ready.len() as u64) as usize;
            return ready.remove(index);
        }
        ready.pop_front()
    }

    fn fire_timers(&self) {
        loop {
            let mut timers = self.timers.borrow_mut();
            let Some(first) = timers.first_entry().filter(|entry| entry.key().0 <= self.now.get())
            else {
                return;
            };
            let waker = first.remove();
            drop(timers);
            waker.wake();
        }
    }

    /// Moves the clock to the next timer.
    fn jump(&self) -> Result<(), Stuck> {
        let next = self.timers.borrow().keys().next().map(|&(at, _)| at);
        let at = next.ok_or(Stuck::Deadlock(Instant(self.now.get())))?;
        self.now.set(self.now.get().max(at));
        Ok(())
    }

    fn poll_task(&self, number: u64) {
        let mut tasks = self.tasks.borrow_mut();
        // A task that ended or was killed may still stand in the queue.
        let Some(task) = tasks.get_mut(&number) else { return };
        let mut future = task.future.take().expect("a task is not polled from within itself");
        let handle = task.handle.clone();
        drop(tasks);
        handle.queued.store(false, Ordering::Relaxed);
        let done = future.as_mut().poll(&mut Context::from_waker(&Waker::from(handle))).is_ready();
        let mut tasks = self.tasks.borrow_mut();
        if done {
            tasks.remove(&number);
        } else if let Some(task) = tasks.get_mut(&number) {
            task.future = Some(future);
            return;
        }
        drop(tasks);
        drop(future);
    }

    fn sleep_until(self: Rc<Self>, until: Instant) -> Sleep {
        Sleep { number: self.number(), core: self, until: until.0 }
    }
}

struct Sleep {
    core: Rc<Core>,
    until: u64,
    number: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.core.now.get() >= self.until {
            return Poll::Ready(());
        }
        let key = (self.until, self.number);
        self.core.timers.borrow_mut().insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let timer = self.core.timers.borrow_mut().remove(&(self.until, self.number));
        drop(timer);
    }
}

/// The runtime of one world of a simulation.
#[derive(Clone)]
pub struct SimRuntime {
    core: Rc<Core>,
    world: WorldId,
}

impl SimRuntime {
    /// The world that this runtime's tasks belong to.
    pub fn world(&self) -> WorldId {
        self.world
    }

    /// Completes at `instant`.
    pub fn sleep_until(&self, instant: Instant) -> impl Future<Output = ()> + 'static {
        self.core.clone().sleep_until(instant)
    }

    /// Lets every other ready task run before this one goes on.
    pub fn give_way(&self) -> impl Future<Output = ()> + 'static {
        let mut waited = false;
        poll_fn(move |cx| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Records an event.
    pub fn trace(&self, what: &'static str, words: [u64; 3]) {
        self.core.trace.borrow_mut().add(self.now(), what, words);
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Instant {
        Instant(self.core.now.get())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.sleep_until(self.now() + duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        if !self.core.worlds.borrow().contains(&self.world) {
            return;
        }
        let number = self.core.number();
        let ready = self.core.ready.clone();
        let handle = Arc::new(Handle { number, queued: AtomicBool::new(false), ready });
        handle.wake_by_ref();
        let task = Task { world: self.world, future: Some(Box::pin(task)), handle };
        self.core.tasks.borrow_mut().insert(number, task);
    }

    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        // Each begins when the one before has ended, and any number will do: by turns, so that what is
        // kept for each number is put together again.
        let number = self.core.jobs.get();
        self.core.jobs.set((number + 1) % self.own_job().unwrap_or(PARALLELISM));
        // As in the real world, it is under way whether or not it is asked for.
        let result = job(number);
        let cost = self.core.options.job_cost;
        let ended = self.sleep(cost);
        async move {
            ended.await;
            (result, cost)
        }
    }

    fn parallelism(&self) -> usize {
        PARALLELISM
    }

    fn own_job(&self) -> Option<usize> {
        self.core.options.own_job.then_some(PARALLELISM - 1)
    }

    fn random(&self) -> u64 {
        self.core.drawn.borrow_mut().bits()
    }

    fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.core.charged.get())
    }
}

#[cfg(test)]
mod tests;
