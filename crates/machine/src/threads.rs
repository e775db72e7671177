//! A runtime with as many threads for pure jobs as it is told.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_host::{HostRuntime, Workers};
use mjolnir_units::Instant;

/// The real world with a number of threads that can be changed. With one, jobs run on the engine's
/// own thread, which else only hands them out.
#[derive(Clone)]
pub struct Threads {
    host: HostRuntime,
    /// None where jobs run on the engine's own thread.
    workers: Rc<RefCell<Option<Workers>>>,
}

impl Threads {
    /// One thread.
    pub fn one(host: HostRuntime) -> Self {
        Threads { host, workers: Rc::default() }
    }

    /// So many from now on. No job may be under way.
    pub fn set(&self, threads: usize) {
        *self.workers.borrow_mut() = (threads > 1).then(|| Workers::new(threads));
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
        let begun = match &*self.workers.borrow() {
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
        self.workers.borrow().as_ref().map_or(1, Workers::threads)
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
    use super::*;

    #[test]
    fn one_thread_is_the_own_one_and_others_are_others() {
        mjolnir_host::run(async |host: HostRuntime| {
            let threads = Threads::one(host);
            let own = std::thread::current().id();
            let id = |_| std::thread::current().id();
            assert_eq!(threads.parallel(id).await.0, own);
            threads.set(3);
            assert_eq!(threads.parallelism(), 3);
            let ran = [threads.parallel(id), threads.parallel(id), threads.parallel(id)];
            for ran in ran {
                assert_ne!(ran.await.0, own);
            }
            threads.set(1);
            assert_eq!(threads.parallel(id).await.0, own);
        });
    }
}
