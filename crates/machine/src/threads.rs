//! A runtime with as many threads for pure jobs as it is told.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_host::{HostRuntime, Workers};
use mjolnir_units::Instant;

/// The real world with a number of threads that can be changed, the engine's own included: with one, jobs
/// run on that.
#[derive(Clone)]
pub struct Threads {
    host: HostRuntime,
    choice: Rc<Choice>,
}

/// How many threads there are, and those that there were when they last were several: as a server's, they stay.
/// A system starts all that wait for jobs where one processor is idle, and parts them only when they have
/// worked for some milliseconds.
struct Choice {
    threads: Cell<usize>,
    workers: RefCell<Option<Workers>>,
}

impl Threads {
    /// One thread.
    pub fn one(host: HostRuntime) -> Self {
        let choice = Choice { threads: Cell::new(1), workers: RefCell::default() };
        Threads { host, choice: Rc::new(choice) }
    }

    /// So many from now on; several are the same ones as before if they were as many. No job may be under way.
    pub fn set(&self, threads: usize) {
        self.choice.threads.set(threads);
        let mut workers = self.choice.workers.borrow_mut();
        let others = threads.saturating_sub(1);
        if others > 0 && workers.as_ref().is_none_or(|workers| workers.threads() != others) {
            *workers = Some(Workers::new(others));
        }
    }

    /// Those that jobs run on, unless it is the engine's own.
    fn others(&self) -> Option<Ref<'_, Workers>> {
        let workers = (self.choice.threads.get() > 1).then(|| self.choice.workers.borrow());
        workers.and_then(|workers| Ref::filter_map(workers, Option::as_ref).ok())
    }
}

impl Runtime for Threads {
    fn now(&self) -> Instant {
        self.host.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.host.sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.host.spawn(task);
    }

    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        let begun = match self.others() {
            Some(workers) => Ok(workers.run(job)),
            None => Err((self.host.clone(), job)),
        };
        async move {
            match begun {
                Ok(running) => running.await,
                Err((host, job)) => {
                    let before = host.cpu_time();
                    let result = job(0);
                    (result, host.cpu_time().saturating_sub(before))
                }
            }
        }
    }

    fn parallelism(&self) -> usize {
        self.others().map_or(1, |workers| 1 + workers.threads())
    }

    fn own_job(&self) -> Option<usize> {
        self.others().map(|workers| workers.threads())
    }

    fn random(&self) -> u64 {
        self.host.random()
    }

    fn cpu_time(&self) -> Duration {
        self.host.cpu_time()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Barrier};

    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn one_thread_is_the_own_one_and_others_are_others() {
        mjolnir_host::run(async |host: HostRuntime| {
            let threads = Threads::one(host);
            let own = std::thread::current().id();
            let id = |_| std::thread::current().id();
            assert_eq!(threads.parallel(id).await.0, own);
            threads.set(3);
            assert_eq!((threads.parallelism(), threads.own_job()), (3, Some(2)));
            let others = async || {
                let all = Arc::new(Barrier::new(2));
                let meet = || {
                    let all = all.clone();
                    threads.parallel(move |number| {
                        all.wait();
                        (number, std::thread::current().id())
                    })
                };
                let met = join_all([meet(), meet()]).await;
                met.into_iter().map(|(met, _)| met).collect::<BTreeMap<_, _>>()
            };
            let two = others().await;
            assert!(two.keys().eq(&[0, 1]) && two.values().all(|id| *id != own));
            threads.set(1);
            assert_eq!((threads.parallelism(), threads.own_job()), (1, None));
            assert_eq!(threads.parallel(id).await.0, own);
            threads.set(3);
            assert_eq!(others().await, two, "they stay");
        });
    }
}
