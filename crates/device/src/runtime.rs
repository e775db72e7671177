//! The Runtime contract.

use std::future::Future;
use std::time::Duration;

use mjolnir_units::Instant;

/// Time, tasks, processors and chance, from the real or the virtual world.
///
/// Tasks run on one thread, interleaved only at `.await`. Only the closures given to
/// [`parallel`](Runtime::parallel) may run elsewhere.
pub trait Runtime: Clone + 'static {
    /// The present instant. Never goes back.
    fn now(&self) -> Instant;

    /// Completes once `duration` has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static;

    /// Starts a task that runs to its end.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Runs a pure computation, on another thread if there is a processor for it: then it runs
    /// whether or not the future is polled. Returns the result and the processor time taken. The
    /// job gets a number below [`parallelism`](Runtime::parallelism) that no other running job has.
    /// So memory kept for each number needs no lock, and is likely in the processor's cache.
    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static;

    /// As [`parallel`](Runtime::parallel), for a job that reports its number of equal steps. A
    /// world that does not measure processor time prices the job by them.
    fn parallel_steps<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> (T, u64) + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        self.parallel(|number| job(number).0)
    }

    /// The most jobs that can run at once, including a job of this thread if it may have one; at
    /// least 1.
    fn parallelism(&self) -> usize;

    /// The job number under which this thread does a part of the work itself while jobs run. `Some`
    /// if the threads are as many as the processors only with this one. Such a part should be
    /// short, since all tasks of this thread wait for it.
    fn own_job(&self) -> Option<usize> {
        None
    }

    /// Fresh random bits for ids; the lab draws them from its seed.
    fn random(&self) -> u64;

    /// Nanoseconds of processor time that this thread has used, or their equivalent in virtual
    /// time. Reclaim limits its share of a core by this.
    fn cpu_time(&self) -> Duration;
}
