//! Threads for pure jobs.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use async_channel::Sender;
use rustix::time::{ClockId, clock_gettime};

type Job = Box<dyn FnOnce(usize) + Send>;

/// Threads that take jobs in order, each the next job as soon as it is free. The threads stay the
/// same for the life of this, so that a job finds the data of the last job with the same number in
/// its processor's cache. Dropping this ends the threads once their jobs are done.
pub struct Workers {
    threads: usize,
    jobs: Sender<Job>,
}

impl Workers {
    /// Starts `threads` threads, or fewer if the system gives no more. Without threads,
    /// [`run`](Self::run) does the jobs itself.
    pub fn new(threads: usize) -> Self {
        let (jobs, queue) = async_channel::unbounded::<Job>();
        let mut started = 0;
        while started < threads {
            let number = started;
            let queue = queue.clone();
            let work = move || {
                while let Ok(job) = queue.recv_blocking() {
                    job(number);
                }
            };
            let thread = std::thread::Builder::new().name(format!("job-{number}"));
            if thread.spawn(work).is_err() {
                break;
            }
            started += 1;
        }
        Workers { threads: started.max(1), jobs }
    }

    /// The number of jobs that run at once.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Hands out a job, which runs whether or not the future is polled. The job gets the number of
    /// its thread, from 0. The future yields the job's result and processor time, or panics as the
    /// job did.
    pub fn run<T: Send + 'static, J: FnOnce(usize) -> T + Send + 'static>(
        &self,
        job: J,
    ) -> impl Future<Output = (T, Duration)> + use<T, J> {
        let (send, receive) = async_channel::bounded(1);
        let job: Job = Box::new(move |number| {
            let before = thread_cpu_time();
            let result = catch_unwind(AssertUnwindSafe(|| job(number)));
            // The caller may be gone.
            let _ = send.try_send((result, thread_cpu_time().saturating_sub(before)));
        });
        if let Err(refused) = self.jobs.try_send(job) {
            refused.into_inner()(0); // There are no threads.
        }
        async move {
            let (result, took) = receive.recv().await.expect("every job answers");
            (result.unwrap_or_else(|panic| resume_unwind(panic)), took)
        }
    }
}

/// Processor time that this thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_number_is_one_thread_for_good_and_jobs_run_at_once() {
        crate::run(async |_| {
            let workers = Workers::new(2);
            // Each waits for the other, which it would for ever if they did not run at once.
            let ((to_a, from_b), (to_b, from_a)) = (mpsc::channel(), mpsc::channel());
            let a = workers.run(move |number| {
                to_b.send(number).unwrap();
                from_b.recv().unwrap()
            });
            let b = workers.run(move |number| {
                to_a.send(number).unwrap();
                from_a.recv().unwrap()
            });
            let (a, b) = (a.await.0, b.await.0);
            assert_eq!(a + b, 1, "threads 0 and 1");
            let mut seen = BTreeMap::new();
            for _ in 0..100 {
                let (number, thread) =
                    workers.run(|number| (number, std::thread::current().id())).await.0;
                assert_eq!(*seen.entry(number).or_insert(thread), thread);
            }
        });
    }

    #[test]
    fn without_threads_jobs_are_done_at_once() {
        crate::run(async |_| {
            let workers = Workers::new(0);
            let here = std::thread::current().id();
            assert_eq!(workers.threads(), 1);
            assert_eq!(
                workers.run(|number| (number, std::thread::current().id())).await.0,
                (0, here)
            );
        });
    }

    #[test]
    fn a_job_that_panics_does_so_to_whoever_asked_and_its_thread_goes_on() {
        crate::run(async |_| {
            let workers = Workers::new(1);
            let failing = workers.run(|_| -> () { panic!("as told") });
            let failed = futures_lite::FutureExt::catch_unwind(AssertUnwindSafe(failing)).await;
            assert_eq!(failed.unwrap_err().downcast_ref(), Some(&"as told"));
            assert_eq!(workers.run(|_| 7).await.0, 7);
        });
    }
}
