//! A runtime with as many threads for pure jobs as it is told.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use async_channel::Sender;
use mjolnir_device::Runtime;
use mjolnir_host::HostRuntime;
use mjolnir_units::Instant;

type Job = Box<dyn FnOnce() + Send>;

/// The real world with a number of threads that can be changed. With one, jobs run on the engine's
/// own thread, which else only hands them out.
#[derive(Clone)]
pub struct Threads {
    host: HostRuntime,
    pool: Rc<RefCell<Pool>>,
}

struct Pool {
    threads: usize,
    /// Threads end when it is dropped. None where jobs run on the engine's own thread.
    jobs: Option<Sender<Job>>,
}

impl Threads {
    /// One thread.
    pub fn one(host: HostRuntime) -> Self {
        Threads { host, pool: Rc::new(RefCell::new(Pool { threads: 1, jobs: None })) }
    }

    /// So many from now on. No job may be under way.
    pub fn set(&self, threads: usize) {
        let (send, receive) = async_channel::unbounded::<Job>();
        for _ in 0..if threads > 1 { threads } else { 0 } {
            let receive = receive.clone();
            std::thread::spawn(move || {
                while let Ok(job) = receive.recv_blocking() {
                    job();
                }
            });
        }
        *self.pool.borrow_mut() = Pool { threads, jobs: (threads > 1).then_some(send) };
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
        job: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        let timed = move || {
            let before = thread_time();
            let result = job();
            (result, thread_time().saturating_sub(before))
        };
        // Handed out here, and not when the future is first asked, so that it is under way.
        let jobs = self.pool.borrow().jobs.clone();
        let begun = match jobs {
            None => Err(timed),
            Some(jobs) => {
                let (send, receive) = async_channel::bounded(1);
                let job: Job = Box::new(move || {
                    // Whoever asked may be gone.
                    let _ = send.try_send(timed());
                });
                jobs.try_send(job).expect("threads take jobs as long as there is a pool");
                Ok(receive)
            }
        };
        async move {
            match begun {
                Err(job) => job(),
                Ok(result) => result.recv().await.expect("a job answers"),
            }
        }
    }

    fn parallelism(&self) -> usize {
        self.pool.borrow().threads
    }

    fn random(&self) -> u64 {
        self.host.random()
    }

    fn cpu_time(&self) -> Duration {
        self.host.cpu_time()
    }
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_the_own_one_and_others_are_others() {
        mjolnir_host::run(async |host: HostRuntime| {
            let threads = Threads::one(host);
            let own = std::thread::current().id();
            let id = || std::thread::current().id();
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
