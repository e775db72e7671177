//! Several jobs at once.

use super::error::{Mistake, SpecError};
use super::generator::Generator;
use super::job::Job;
use super::parse;
use super::spec::WorkloadSpec;
use crate::Request;

/// A workload whose specification is sound.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What is popular follows from this one.
    seed: u64,
    /// And all else that is drawn from this one.
    draws: u64,
    jobs: Vec<Job>,
}

impl Workload {
    /// The most jobs, copies counted.
    pub const MAX_JOBS: usize = 10_000;

    /// Checks a specification.
    ///
    /// # Errors
    ///
    /// The first mistake: its job, its field, and what to write instead.
    pub fn new(spec: &WorkloadSpec) -> Result<Self, SpecError> {
        let whole = |mistake: Mistake| mistake.in_job("");
        if let Some(field) = spec.unknown.keys().next() {
            return Err(whole(parse::unknown(field, field, &WorkloadSpec::FIELDS)));
        }
        if spec.jobs.is_empty() {
            return Err(whole(Mistake::new("job", "there is none: write at least one [[job]]")));
        }
        let mut jobs = Vec::new();
        for (index, spec) in spec.jobs.iter().enumerate() {
            let name = spec.name.clone().unwrap_or_else(|| format!("job {}", index + 1));
            let job = Job::check(spec, name.clone()).map_err(|mistake| mistake.in_job(&name))?;
            let copies = spec.numjobs.unwrap_or(1) as usize;
            if copies == 0 || jobs.len() + copies > Self::MAX_JOBS {
                let what = format!("{copies} is not from 1 to what 10,000 jobs in all allow");
                return Err(Mistake::new("numjobs", what).in_job(&name));
            }
            for copy in 0..copies {
                let mut job = job.clone();
                if copies > 1 {
                    job.name = format!("{name}.{copy}");
                }
                jobs.push(job);
            }
        }
        Ok(Workload { seed: spec.seed, draws: spec.seed, jobs })
    }

    /// The same with other draws: what is popular with it stays so.
    #[must_use]
    pub fn redrawn(mut self) -> Self {
        self.draws = !self.draws;
        self
    }

    /// The jobs, copies each for itself.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// How many requests all jobs make at most; `None` where one says no number.
    pub fn requests_max(&self) -> Option<u64> {
        let said = |job: &Job| job.number_ios.filter(|number| *number < u64::MAX);
        self.jobs.iter().try_fold(0u64, |sum, job| sum.checked_add(said(job)?))
    }

    /// The requests of one job.
    ///
    /// # Panics
    ///
    /// If there is no job of that number.
    pub fn generator(&self, job: usize) -> Generator {
        Generator::new(&self.jobs[job], (self.seed, self.draws), job as u64)
    }

    /// All jobs' requests in one order, for runs that measure no time.
    ///
    /// Timed jobs are merged by time. Jobs that follow completions take turns, each as many
    /// requests in a row as its `iodepth`.
    ///
    /// # Errors
    ///
    /// If there are jobs of both kinds: their order depends on how long requests take, so that
    /// only a timed run has one.
    pub fn interleaved(&self) -> Result<Interleaved, SpecError> {
        let timed = self.jobs[0].is_timed();
        if let Some(other) = self.jobs.iter().find(|job| job.is_timed() != timed) {
            let what = "some jobs have it and some do not: without measuring time they have no \
                        common order";
            return Err(Mistake::new("rate_iops", what).in_job(&other.name));
        }
        let generators = (0..self.jobs.len()).map(|job| self.generator(job)).collect::<Vec<_>>();
        let mut all = Interleaved { heads: Vec::new(), generators, timed, turn: 0, left: 0 };
        all.heads = all.generators.iter_mut().map(Iterator::next).collect();
        all.left = self.jobs[0].iodepth();
        Ok(all)
    }
}

/// The requests of all jobs, each with its job's number.
#[derive(Clone, Debug)]
pub struct Interleaved {
    generators: Vec<Generator>,
    /// The next request of each job.
    heads: Vec<Option<Request>>,
    timed: bool,
    turn: usize,
    left: u32,
}

impl Iterator for Interleaved {
    type Item = (usize, Request);

    fn next(&mut self) -> Option<(usize, Request)> {
        let job = if self.timed {
            let heads = self.heads.iter().enumerate();
            heads.filter_map(|(job, head)| Some((head.as_ref()?.time, job))).min()?.1
        } else {
            if self.heads.iter().all(Option::is_none) {
                return None;
            }
            while self.left == 0 || self.heads[self.turn].is_none() {
                self.turn = (self.turn + 1) % self.heads.len();
                self.left = self.generators[self.turn].job().iodepth();
            }
            self.left -= 1;
            self.turn
        };
        let request = self.heads[job].take()?;
        self.heads[job] = self.generators[job].next();
        Some((job, request))
    }
}
