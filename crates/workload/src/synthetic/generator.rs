//! The requests of one job.

use mjolnir_units::Instant;

use super::addresses::Slots;
use super::arrivals::Arrivals;
use super::chance::Chance;
use super::job::Job;
use super::mix::Shares;
use crate::{Op, Request};

/// Yields the requests of one job, in order.
///
/// A timed job's have the times at which they come. Those of the others have the job's start:
/// each is to be issued as soon as fewer than [`Job::iodepth`] are under way.
#[derive(Clone, Debug)]
pub struct Generator {
    job: Job,
    kinds: Chance,
    lengths: Chance,
    places: Chance,
    times: Chance,
    arrivals: Arrivals,
    phases: Vec<Now>,
    phase: usize,
    /// Requests left in the phase; unbounded without phases.
    phase_left: u64,
    /// Where the next sequential read, write and trim begin, within the part.
    next: [u64; 3],
    made: u64,
    bytes: u64,
    writes_since_flush: u64,
    flush_due: Option<Instant>,
    done: bool,
}

/// What holds in a phase.
#[derive(Clone, Debug)]
struct Now {
    ios: u64,
    shares: Shares,
    slots: Slots,
    turned: u64,
    rate: u64,
}

impl Generator {
    /// Of `job`, the number `index` of its workload. What is popular follows from `seed`, all else from
    /// `draws`.
    pub(super) fn new(job: &Job, (seed, draws): (u64, u64), index: u64) -> Self {
        let source = |purpose| Chance::new(draws, index, purpose);
        let key = Chance::new(seed, index, 4).bits();
        let slots = |distribution| {
            Slots::new(distribution, job.slots(), key).expect("checked with the job")
        };
        let rate = job.rate.map_or(1, |(_, rate)| rate);
        let mut phases: Vec<Now> = job
            .phases
            .iter()
            .map(|phase| Now {
                ios: phase.ios,
                shares: phase.shares,
                slots: slots(&phase.distribution),
                turned: (u128::from(job.slots()) * u128::from(phase.hot_percent) / 100) as u64,
                rate: phase.rate.unwrap_or(rate),
            })
            .collect();
        if phases.is_empty() {
            let slots = slots(&job.distribution);
            phases.push(Now { ios: u64::MAX, shares: job.shares, slots, turned: 0, rate });
        }
        Generator {
            kinds: source(0),
            lengths: source(1),
            places: source(2),
            times: source(3),
            arrivals: Arrivals::new(job.start_ns, job.burst_ns),
            phase_left: phases[0].ios,
            phases,
            phase: 0,
            next: [0; 3],
            made: 0,
            bytes: 0,
            writes_since_flush: 0,
            flush_due: None,
            done: false,
            job: job.clone(),
        }
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    fn flush(&self, time: Instant) -> Request {
        let volume = self.job.volume;
        Request { time, volume, op: Op::Flush, offset: 0, length: 0, stream: None, latency: None }
    }

    /// Where a request of this length goes, within the part.
    fn place(&mut self, op: Op, length: u64) -> u64 {
        let job = &self.job;
        if job.random {
            let now = &self.phases[self.phase];
            let count = job.slots();
            let slot = (u128::from(now.slots.draw(&mut self.places)) + u128::from(now.turned))
                % u128::from(count);
            let offset = slot as u64 * job.align;
            return offset.min((job.size - length) / job.align * job.align);
        }
        let next = match op {
            Op::Read => &mut self.next[0],
            Op::Trim => &mut self.next[2],
            Op::Write | Op::WriteZeroes | Op::Flush => &mut self.next[1],
        };
        if *next + length > job.size {
            *next = 0;
        }
        let offset = *next;
        // Stays on the alignment, as the first request was.
        let step = job.stride.unwrap_or(length).next_multiple_of(job.align);
        *next = offset.saturating_add(step);
        offset
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if let Some(time) = self.flush_due.take() {
            return Some(self.flush(time));
        }
        let job = &self.job;
        if self.done
            || job.number_ios.is_some_and(|limit| self.made >= limit)
            || job.io_bytes.is_some_and(|limit| self.bytes >= limit)
        {
            return None;
        }
        if self.phase_left == 0 {
            self.phase = (self.phase + 1) % self.phases.len();
            self.phase_left = self.phases[self.phase].ios;
        }
        let now = &self.phases[self.phase];
        let time = match job.rate {
            Some((arrival, _)) => self.arrivals.next(arrival, now.rate, &mut self.times),
            None => Instant(job.start_ns),
        };
        if job.rate.is_some()
            && job.runtime_ns.is_some_and(|runtime| time.0 - job.start_ns >= runtime)
        {
            self.done = true;
            return None;
        }
        let op = now.shares.draw(&mut self.kinds);
        let sizes = match op {
            Op::Read => &job.sizes[0],
            Op::Trim => &job.sizes[2],
            Op::Write | Op::WriteZeroes | Op::Flush => &job.sizes[1],
        };
        let length = sizes.draw(&mut self.lengths);
        let (volume, base, fsync) = (job.volume, job.offset, job.fsync);
        let stream = job.stream.filter(|_| op == Op::Write);
        let offset = base + self.place(op, length);
        self.made += 1;
        self.bytes = self.bytes.saturating_add(length);
        self.phase_left -= 1;
        if op == Op::Write && fsync > 0 {
            self.writes_since_flush += 1;
            if self.writes_since_flush == fsync {
                self.writes_since_flush = 0;
                self.flush_due = Some(time);
            }
        }
        Some(Request { time, volume, op, offset, length, stream, latency: None })
    }
}
