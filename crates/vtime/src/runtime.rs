//! What lives in a world is given this: the clock, timers, tasks and jobs of a simulation.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_units::Instant;

use crate::executor::{Core, World, nanoseconds};
use crate::timers::Timer;
use crate::{Jobs, WorldId};

/// Jobs that can run at once where they are alike.
const PARALLELISM: usize = 2;

/// Completes at an instant.
pub(crate) struct Sleep {
    core: Rc<Core>,
    until: u64,
    number: u64,
    /// Its timer, and who is woken then: what tells the waker from others.
    set: Option<(Timer, *const ())>,
}

impl Sleep {
    pub fn new(number: u64, core: Rc<Core>, until: u64) -> Self {
        Sleep { core, until, number, set: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.core.now.get() >= self.until {
            return Poll::Ready(());
        }
        let waker = context.waker();
        let timer = match self.set {
            Some((_, whom)) if whom == waker.data() => return Poll::Pending,
            Some((timer, _)) => {
                self.core.timers.borrow_mut().change(timer, waker.clone());
                timer
            }
            None => self.core.timers.borrow_mut().set(self.until, self.number, waker.clone()),
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

/// The runtime of one world of a simulation.
#[derive(Clone)]
pub struct SimRuntime {
    pub(crate) core: Rc<Core>,
    pub(crate) world: WorldId,
}

impl SimRuntime {
    /// The world that this runtime's tasks belong to.
    pub fn world(&self) -> WorldId {
        self.world
    }

    /// The present instant, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.core.now.get()
    }

    /// Completes at `instant`.
    pub fn sleep_until(&self, instant: Instant) -> impl Future<Output = ()> + 'static + use<> {
        self.core.clone().sleep_until(instant.0)
    }

    /// Whether jobs, and whatever is modelled, take time.
    pub fn is_timed(&self) -> bool {
        self.core.timed.get()
    }

    /// From now on they do, or not, in all worlds.
    pub fn set_timed(&self, timed: bool) {
        self.core.timed.set(timed);
    }

    /// Something was achieved: the simulation is not stuck.
    pub fn note_progress(&self) {
        self.core.idle_polls.set(0);
    }

    /// Lets every other ready task run before this one goes on.
    pub fn give_way(&self) -> impl Future<Output = ()> + 'static + use<> {
        let mut waited = false;
        poll_fn(move |cx| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Records an event, if a trace is kept.
    pub fn trace(&self, what: &'static str, words: [u64; 3]) {
        if self.core.is_traced() {
            self.core.trace.borrow_mut().add(Instant(self.now_ns()), what, words);
        }
    }

    fn of_world<T>(&self, with: impl FnOnce(&mut World) -> T) -> T {
        self.core.world(self.world, with)
    }
}

impl World {
    /// The number of a job that begins now.
    fn number_job(&mut self) -> usize {
        let Jobs::Alike { own_job, .. } = self.jobs else { return 0 };
        let number = self.next_job;
        self.next_job = (number + 1) % if own_job { PARALLELISM - 1 } else { PARALLELISM };
        number
    }

    /// What a job of so many steps costs that began at `now_ns`, and when it is done if that takes time.
    fn price(&mut self, steps: u64, now_ns: u64, timed: bool) -> (u64, Option<u64>) {
        match self.jobs {
            Jobs::Alike { cost, .. } => {
                let cost_ns = nanoseconds(cost);
                (cost_ns, timed.then(|| now_ns.saturating_add(cost_ns)))
            }
            Jobs::BySteps { step_ns, .. } => {
                let cost_ns = if timed { (steps as f64 * step_ns) as u64 } else { 0 };
                self.jobs_ns += cost_ns;
                (cost_ns, (cost_ns > 0).then(|| self.take_core(now_ns, cost_ns)))
            }
        }
    }

    /// Takes the core that is free first; answers when the job is done.
    fn take_core(&mut self, now_ns: u64, cost_ns: u64) -> u64 {
        let first = self.cores_free_ns.iter_mut().min().expect("there is a core");
        *first = now_ns.max(*first) + cost_ns;
        *first
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Instant {
        Instant(self.now_ns())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.core.clone().sleep_until(self.now_ns().saturating_add(nanoseconds(duration)))
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        if self.of_world(|world| world.alive) {
            let (number, task) = (self.core.number(), Box::pin(task));
            self.core.tasks.borrow_mut().add(number, self.world, task, &self.core.queue);
        }
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
        let (result, steps) = job(self.of_world(World::number_job));
        let (now_ns, timed) = (self.now_ns(), self.is_timed());
        let (cost_ns, done_ns) = self.of_world(|world| world.price(steps, now_ns, timed));
        let ended = done_ns.map(|done_ns| self.core.clone().sleep_until(done_ns));
        async move {
            if let Some(ended) = ended {
                ended.await;
            }
            (result, Duration::from_nanos(cost_ns))
        }
    }

    fn parallelism(&self) -> usize {
        match self.of_world(|world| world.jobs) {
            Jobs::Alike { .. } => PARALLELISM,
            Jobs::BySteps { cores, .. } => cores.max(1),
        }
    }

    fn own_job(&self) -> Option<usize> {
        let jobs = self.of_world(|world| world.jobs);
        matches!(jobs, Jobs::Alike { own_job: true, .. }).then_some(PARALLELISM - 1)
    }

    fn random(&self) -> u64 {
        self.core.drawn.borrow_mut().bits()
    }

    fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.core.charged_ns() + self.of_world(|world| world.jobs_ns))
    }
}
