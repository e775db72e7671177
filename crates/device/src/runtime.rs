//! The Runtime contract.

use std::future::Future;
use std::time::Duration;

use mjolnir_units::Instant;

/// Time, tasks, processors and chance, of whichever world the engine runs in.
///
/// Tasks run on one thread, interleaved only at `.await`. Only the closures given to
/// [`parallel`](Runtime::parallel) may run elsewhere.
pub trait Runtime: Clone + 'static {
    /// The present instant. Never goes back.
    fn now(&self) -> Instant;

    /// Completes once `duration` has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static;

    /// Starts a task that runs by itself until it ends.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Runs a pure computation, beside this thread if there is a processor for it: then it is under way
    /// whether or not the future is asked. Returns its result and the processor time that it took. It is
    /// told a number below [`parallelism`](Runtime::parallelism) that no other has while it runs: memory
    /// that is kept for each number needs no lock, and is likely to be in its processor's cache.
    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static;

    /// As [`parallel`](Runtime::parallel), for a job that tells how many like steps it took, by which a
    /// world that does not measure processor time prices it.
    fn parallel_steps<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> (T, u64) + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        self.parallel(|number| job(number).0)
    }

    /// How many jobs can run at once, one of this thread's own included if it may have any; at least 1.
    fn parallelism(&self) -> usize;

    /// Where there are as many threads as processors only if this one counts: the number, as of a job, under
    /// which it does a part of the work itself while jobs are under way. Such a part should be short, since
    /// all that this thread serves waits for it.
    fn own_job(&self) -> Option<usize> {
        None
    }

    /// Fresh random bits, for identities; the lab draws them from its seed.
    fn random(&self) -> u64;

    /// Nanoseconds of processor time this thread has used, or virtual time's stand-in for it.
    /// Reclaim bounds its share of a core by this.
    fn cpu_time(&self) -> Duration;
}
