//! The executor, and the Runtime that it provides.

use std::any::Any;
use std::cell::OnceCell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use async_executor::LocalExecutor;
use async_io::Timer;
use futures_lite::FutureExt;
use futures_lite::future::yield_now;
use futures_util::stream::{FuturesUnordered, StreamExt};
use mjolnir_device::Runtime;
use mjolnir_units::Instant;

use crate::workers::{Workers, thread_cpu_time};

/// The engine's runtime in the real world. Clones are handles of one runtime.
#[derive(Clone)]
pub struct HostRuntime {
    inner: Rc<Inner>,
}

struct Inner {
    // Weak, since tasks hold the runtime and the executor holds the tasks.
    executor: Weak<LocalExecutor<'static>>,
    began: std::time::Instant,
    /// Processors.
    parallelism: usize,
    /// Made for the first job: one thread less than there are processors, and at least one.
    workers: OnceCell<Workers>,
    /// A panicking task sends its panic here.
    panics: Sender<Panic>,
}

type Panic = Box<dyn Any + Send>;

/// Runs `main` to its end on this thread, with the tasks that it spawns; returns what it returns.
/// Tasks that have not ended by then are dropped.
///
/// Panics as soon as a task does: other tasks would wait for it for ever, and it may leave half a
/// change that they all see.
///
/// Ready tasks run in turns, in the order of their waking. Between turns, timers and files that
/// became ready wake their tasks. When no task is ready, the thread sleeps.
pub fn run<T>(main: impl AsyncFnOnce(HostRuntime) -> T) -> T {
    let executor = Rc::new(LocalExecutor::new());
    let (panics, panicked) = async_channel::unbounded();
    let inner = Inner {
        executor: Rc::downgrade(&executor),
        began: std::time::Instant::now(),
        parallelism: std::thread::available_parallelism().map_or(1, usize::from),
        workers: OnceCell::new(),
        panics,
    };
    let runtime = HostRuntime { inner: Rc::new(inner) };
    // Polled only when woken, as tasks are.
    let mut main = FuturesUnordered::from_iter([main(runtime)]);
    let tasks = run_tasks(&executor, &panicked).or(panic_as_told(&panicked));
    async_io::block_on(main.next().or(tasks)).expect("it is asked for once")
}

/// Resumes the panic of the first task that panics.
async fn panic_as_told<T>(panicked: &Receiver<Panic>) -> T {
    match panicked.recv().await {
        Ok(panic) => resume_unwind(panic),
        Err(_) => pending().await, // Nobody is left who could start a task.
    }
}

/// A turn of tasks ends after this time, so that a task that waits for a timer or a file does not
/// wait for many long steps of others, or after a number of steps.
const TURN: Duration = Duration::from_micros(200);
const TURN_TASKS: usize = 200;

/// Runs tasks for ever, but none after a panic. Each time it is pending, timers and files are
/// polled.
async fn run_tasks<T>(executor: &LocalExecutor<'_>, panicked: &Receiver<Panic>) -> T {
    loop {
        let mut began = std::time::Instant::now();
        let mut first = pin!(executor.tick());
        poll_fn(|context| {
            began = std::time::Instant::now(); // It sleeps until there is a task, and runs it.
            first.as_mut().poll(context)
        })
        .await;
        let mut ran = 1;
        loop {
            if ran >= TURN_TASKS || began.elapsed() >= TURN || !panicked.is_empty() {
                yield_now().await;
                break;
            }
            if !executor.try_tick() {
                break;
            }
            ran += 1;
        }
    }
}

impl Runtime for HostRuntime {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.inner.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        let timer = Timer::after(duration);
        async move {
            timer.await;
        }
    }

    /// As the contract says; once [`run`] is ending, the task is dropped instead.
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let Some(executor) = self.inner.executor.upgrade() else { return };
        let panics = self.inner.panics.clone();
        let told = async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let _ = panics.try_send(panic); // Else it is all over already.
            }
        };
        executor.spawn(told).detach();
    }

    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        let threads = (self.inner.parallelism - 1).max(1);
        self.inner.workers.get_or_init(|| Workers::new(threads)).run(job)
    }

    fn parallelism(&self) -> usize {
        self.inner.parallelism
    }

    /// The last number, unless it is the only one. With one thread more than processors, each
    /// thread would sometimes wait for a processor, and this thread's clients with it.
    fn own_job(&self) -> Option<usize> {
        self.inner.parallelism.checked_sub(1).filter(|number| *number > 0)
    }

    /// From the system's generator.
    ///
    /// # Panics
    ///
    /// If the system has none: identities must not repeat.
    fn random(&self) -> u64 {
        getrandom::u64().expect("the system gives random bits")
    }

    fn cpu_time(&self) -> Duration {
        thread_cpu_time()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn tasks_run_in_order_and_main_returns() {
        let order = run(async |runtime: HostRuntime| {
            let order = Rc::new(RefCell::new(Vec::new()));
            for n in 0..3 {
                let order = order.clone();
                runtime.spawn(async move {
                    order.borrow_mut().push(n);
                    yield_now().await;
                    order.borrow_mut().push(n + 10);
                });
            }
            while order.borrow().len() < 6 {
                yield_now().await;
            }
            order.take()
        });
        assert_eq!(order, [0, 1, 2, 10, 11, 12]);
    }

    #[test]
    fn time_passes_while_asleep_and_is_cheap() {
        run(async |runtime: HostRuntime| {
            let (began, cpu) = (runtime.now(), runtime.cpu_time());
            runtime.sleep(Duration::from_millis(50)).await;
            let passed = runtime.now().since(began);
            assert!(passed >= Duration::from_millis(50), "{passed:?}");
            let used = runtime.cpu_time() - cpu;
            assert!(used < passed, "{used:?} of processor time in a sleep of {passed:?}");
        });
    }

    #[test]
    fn long_steps_do_not_keep_timers_waiting() {
        let steps = run(async |runtime| {
            let (steps, due) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
            let (counted, ends) = (steps.clone(), due.clone());
            runtime.spawn(async move {
                while !ends.get() {
                    let began = std::time::Instant::now();
                    while began.elapsed() < Duration::from_micros(200) {}
                    counted.set(counted.get() + 1);
                    yield_now().await;
                }
            });
            runtime.sleep(Duration::from_millis(2)).await;
            due.set(true);
            steps.get()
        });
        assert!(steps < 100, "{steps} steps of 200 us ran before a timer of 2 ms was heard");
    }

    #[test]
    fn parallel_jobs_run_elsewhere_and_return() {
        run(async |runtime: HostRuntime| {
            let here = std::thread::current().id();
            let (there, _) = runtime.parallel(move |_| std::thread::current().id()).await;
            assert_ne!(here, there);
            assert!(runtime.parallelism() >= 1);
            assert_ne!(runtime.random(), runtime.random());
        });
    }

    #[test]
    fn a_task_that_panics_takes_all_with_it() {
        static RAN: AtomicBool = AtomicBool::new(false);
        let outcome = std::panic::catch_unwind(|| {
            run(async |runtime: HostRuntime| {
                let other = runtime.clone();
                runtime.spawn(async move {
                    yield_now().await;
                    other.spawn(async { panic!("as told") });
                    other.spawn(async { RAN.store(true, Ordering::Relaxed) });
                });
                pending::<()>().await; // As whoever waits for what that task would have done.
            });
        });
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"as told"));
        assert!(!RAN.load(Ordering::Relaxed), "a task ran after one that left half of a change");
    }

    #[test]
    fn tasks_left_at_the_end_are_dropped_even_if_they_hold_the_runtime() {
        struct Tell(Rc<Cell<bool>>);
        impl Drop for Tell {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let dropped = Rc::new(Cell::new(false));
        let tell = Tell(dropped.clone());
        run(async move |runtime: HostRuntime| {
            let held = runtime.clone();
            runtime.spawn(async move {
                let _tell = tell;
                held.sleep(Duration::from_secs(3600)).await;
            });
            yield_now().await;
        });
        assert!(dropped.get());
    }
}
