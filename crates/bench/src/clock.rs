//! Wall time and processor time.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What a stretch of work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// By the wall clock, in seconds.
    pub wall_s: f64,
    /// Of this thread's processor time, in seconds.
    pub thread_s: f64,
    /// Of the whole process's processor time, in seconds.
    pub process_s: f64,
}

/// A stretch of work that has begun.
pub struct Timer {
    wall: Instant,
    thread: Duration,
    process: Duration,
}

fn processor(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Timer {
    /// Begins now.
    pub fn start() -> Self {
        Timer {
            thread: processor(ClockId::ThreadCPUTime),
            process: processor(ClockId::ProcessCPUTime),
            wall: Instant::now(),
        }
    }

    /// What it took until now. Call it on the thread that began it.
    pub fn took(&self) -> Took {
        Took {
            wall_s: self.wall.elapsed().as_secs_f64(),
            thread_s: (processor(ClockId::ThreadCPUTime) - self.thread).as_secs_f64(),
            process_s: (processor(ClockId::ProcessCPUTime) - self.process).as_secs_f64(),
        }
    }
}

/// What `work` took.
pub fn time(work: impl FnOnce()) -> Took {
    let timer = Timer::start();
    work();
    timer.took()
}
