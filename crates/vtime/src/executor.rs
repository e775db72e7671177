//! A single-threaded executor in virtual time.
//!
//! Nothing runs by itself: the clock moves by what each poll costs, if it costs anything, and jumps to
//! the next timer when no task can run. Which of several ready tasks runs first is either their order of
//! waking, or drawn from the seed ([`Order`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mjolnir_units::Instant;

use crate::runtime::Sleep;
use crate::tasks::{Handle, Queue, Tasks, Woken};
use crate::timers::Timers;
use crate::trace::Trace;
use crate::{Chance, Jobs, Options, Order, SimRuntime, Stuck};

/// Names the tasks that a power cut ends together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorldId(u32);

/// A simulation: a clock, tasks in worlds, one source of chance, one trace.
pub struct Sim {
    pub(crate) core: Rc<Core>,
}

pub(crate) struct Core {
    options: Options,
    pub now: Cell<u64>,
    /// When timers were last fired: none is due before the clock moves.
    fired: Cell<u64>,
    /// Processor time that polls took.
    charged: Cell<u64>,
    /// Numbers tasks and timers; equal instants are ordered by it.
    numbers: Cell<u64>,
    pub timed: Cell<bool>,
    pub idle_polls: Cell<u64>,
    pub queue: Queue,
    /// The first of those that are ready, taken off `queue` all at once.
    turn: RefCell<VecDeque<Woken>>,
    pub tasks: RefCell<Tasks>,
    pub timers: RefCell<Timers>,
    worlds: RefCell<Vec<World>>,
    chance: RefCell<Chance>,
    /// What worlds draw themselves. It is a source of its own: what they draw does not shift what happens.
    pub drawn: RefCell<Chance>,
    pub trace: RefCell<Trace>,
}

/// Tasks that end together, and the processors that their jobs run on.
pub(crate) struct World {
    pub alive: bool,
    pub jobs: Jobs,
    /// The number of the next job, of jobs that are alike.
    pub next_job: usize,
    /// When each core is free again.
    pub cores_free_ns: Vec<u64>,
    /// Processor time that jobs took.
    pub jobs_ns: u64,
}

/// The main future's number.
const MAIN: u64 = 0;
/// Polls between two looks at whether to go on. Where nothing takes time, one makes many writes.
const POLLS_A_LOOK: u64 = 1 << 10;

impl Sim {
    /// A simulation at instant 0 whose chances `seed` decides.
    pub fn new(seed: u64, options: Options) -> Self {
        Sim {
            core: Rc::new(Core {
                options,
                now: Cell::new(0),
                fired: Cell::new(0),
                charged: Cell::new(0),
                numbers: Cell::new(MAIN),
                timed: Cell::new(options.timed),
                idle_polls: Cell::new(0),
                queue: Queue::default(),
                turn: RefCell::default(),
                tasks: RefCell::default(),
                timers: RefCell::default(),
                worlds: RefCell::default(),
                chance: RefCell::new(Chance::new(seed)),
                drawn: RefCell::new(Chance::new(!seed)),
                trace: RefCell::new(Trace::new(options.loud)),
            }),
        }
    }

    /// A new world, and the runtime that what lives in it is given.
    pub fn world(&self) -> SimRuntime {
        self.world_with(self.core.options.jobs)
    }

    /// A new world, with processors of its own on which jobs cost so much.
    pub fn world_with(&self, jobs: Jobs) -> SimRuntime {
        let mut worlds = self.core.worlds.borrow_mut();
        let id = WorldId(u32::try_from(worlds.len()).expect("fewer worlds than that"));
        let cores_free_ns = match jobs {
            Jobs::Alike { .. } => Vec::new(),
            Jobs::BySteps { cores, .. } => vec![0; cores.max(1)],
        };
        worlds.push(World { alive: true, jobs, next_job: 0, cores_free_ns, jobs_ns: 0 });
        SimRuntime { core: self.core.clone(), world: id }
    }

    /// Ends a world: its tasks are dropped where they stand, and it takes no new ones.
    pub fn kill(&self, world: WorldId) {
        self.core.world(world, |world| world.alive = false);
        let doomed = self.core.tasks.borrow_mut().end_world(world);
        // What is dropped may wake, sleep or spawn, and so needs the tables.
        drop(doomed);
    }

    /// Has a world stand still: its tasks do not run before it is [released](Self::release). The clock goes
    /// on, and so do its timers.
    pub fn hold(&self, world: WorldId) {
        self.core.tasks.borrow_mut().hold(world);
    }

    /// Lets a world go on that was held.
    pub fn release(&self, world: WorldId) {
        let waiting = self.core.tasks.borrow_mut().release(world);
        waiting.into_iter().for_each(|woken| self.core.queue.push(woken));
    }

    /// Runs until `main` is done, and returns its outcome.
    pub fn run<T>(&self, main: impl Future<Output = T>) -> Result<T, Stuck> {
        self.run_watched(main, &mut || true)
    }

    /// Runs until `main` is done. `go_on` is asked now and then; where it says no, the run ends.
    pub fn run_watched<T>(
        &self,
        main: impl Future<Output = T>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<T, Stuck> {
        let core = &self.core;
        let handle = Handle::new(MAIN, u32::MAX, &core.queue);
        handle.wake_by_ref();
        let waker = Waker::from(handle.clone());
        let mut main = pin!(main);
        let limit = nanoseconds(core.options.time_limit);
        let mut polls = 0u64;
        loop {
            core.fire_timers();
            polls += 1;
            if core.now.get() > limit || polls > core.options.poll_limit {
                return Err(Stuck::TooLong(Instant(core.now.get())));
            }
            if polls.is_multiple_of(POLLS_A_LOOK) {
                core.look(go_on)?;
            }
            let Some(woken) = core.next_ready() else {
                core.jump()?;
                continue;
            };
            core.charge(core.options.poll_cost);
            if core.options.traced {
                let mut trace = core.trace.borrow_mut();
                trace.mix(woken.number);
                trace.mix(core.now.get());
            }
            if woken.number != MAIN {
                core.poll_task(woken);
                continue;
            }
            handle.unqueue();
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
        let timer = self.core.clone().sleep_until(until.0);
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
        self.core.worlds.borrow_mut().iter_mut().for_each(|world| world.alive = false);
        let tasks = std::mem::take(&mut *self.core.tasks.borrow_mut());
        drop(tasks);
        let timers = std::mem::take(&mut *self.core.timers.borrow_mut());
        drop(timers);
    }
}

impl Core {
    pub fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Looks at a world, or changes it.
    pub fn world<T>(&self, id: WorldId, with: impl FnOnce(&mut World) -> T) -> T {
        with(&mut self.worlds.borrow_mut()[id.0 as usize])
    }

    /// Whether a trace is kept.
    pub fn is_traced(&self) -> bool {
        self.options.traced
    }

    /// Processor time that polls took, in nanoseconds.
    pub fn charged_ns(&self) -> u64 {
        self.charged.get()
    }

    fn charge(&self, cost: Duration) {
        let cost = cost.as_nanos() as u64;
        self.now.set(self.now.get() + cost);
        self.charged.set(self.charged.get() + cost);
    }

    fn look(&self, go_on: &mut dyn FnMut() -> bool) -> Result<(), Stuck> {
        if !go_on() {
            return Err(Stuck::Interrupted);
        }
        self.idle_polls.set(self.idle_polls.get() + POLLS_A_LOOK);
        let limit = self.options.idle_poll_limit;
        if self.idle_polls.get() > limit { Err(Stuck::Idle(limit)) } else { Ok(()) }
    }

    fn next_ready(&self) -> Option<Woken> {
        let mut turn = self.turn.borrow_mut();
        match self.options.order {
            Order::Woken => {
                if turn.is_empty() {
                    self.queue.drain_into(&mut turn);
                }
                turn.pop_front()
            }
            Order::Drawn => {
                self.queue.drain_into(&mut turn);
                if turn.len() < 2 {
                    return turn.pop_front();
                }
                let index = self.chance.borrow_mut().below(turn.len() as u64) as usize;
                turn.remove(index)
            }
        }
    }

    fn fire_timers(&self) {
        let now = self.now.get();
        if self.fired.replace(now) == now {
            return;
        }
        loop {
            let waker = self.timers.borrow_mut().pop_due(now);
            let Some(waker) = waker else { return };
            waker.wake();
        }
    }

    /// Moves the clock to the next timer.
    fn jump(&self) -> Result<(), Stuck> {
        let next = self.timers.borrow_mut().next();
        let at = next.ok_or(Stuck::Deadlock(Instant(self.now.get())))?;
        self.now.set(self.now.get().max(at));
        Ok(())
    }

    fn poll_task(&self, woken: Woken) {
        // A task that ended or was killed may still stand in the queue.
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            if tasks.must_wait(woken) { None } else { tasks.take(woken) }
        };
        let Some((mut future, waker)) = taken else { return };
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        // What is dropped may wake, sleep or spawn, and so needs the tables.
        let dropped = if done {
            self.tasks.borrow_mut().end(woken);
            Some(future)
        } else {
            self.tasks.borrow_mut().put_back(woken, future, waker)
        };
        drop(dropped);
    }

    pub fn sleep_until(self: Rc<Self>, until_ns: u64) -> Sleep {
        Sleep::new(self.number(), self, until_ns)
    }
}

/// As many nanoseconds, or as many as there are.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
