//! A job, checked.

use super::addresses::{Distribution, Slots};
use super::error::Mistake;
use super::mix::{Base, Shares, Sizes};
use super::parse;
use super::spec::{JobSpec, PhaseSpec, Value};
use crate::{MAX_ADDRESS, Op, VolumeId};

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// At equal distances.
    Linear,
    /// At random, independent of each other.
    Poisson,
}

/// A job whose specification is sound.
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) name: String,
    pub(super) volume: VolumeId,
    pub(super) random: bool,
    pub(super) shares: Shares,
    /// Of reads, writes and trims.
    pub(super) sizes: [Sizes; 3],
    pub(super) align: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) stride: Option<u64>,
    pub(super) distribution: Distribution,
    pub(super) iodepth: u32,
    pub(super) think_ns: u64,
    pub(super) rate: Option<(Arrival, u64)>,
    pub(super) burst_ns: Option<(u64, u64)>,
    pub(super) start_ns: u64,
    pub(super) number_ios: Option<u64>,
    pub(super) io_bytes: Option<u64>,
    pub(super) runtime_ns: Option<u64>,
    pub(super) fsync: u64,
    pub(super) stream: Option<u8>,
    pub(super) phases: Vec<Phase>,
}

/// A phase, with what it changes.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub ios: u64,
    pub hot_percent: u64,
    pub shares: Shares,
    pub distribution: Distribution,
    pub rate: Option<u64>,
}

impl Job {
    /// What errors and results call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The volume that it uses.
    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    /// Requests that may be under way at once.
    pub fn iodepth(&self) -> u32 {
        self.iodepth
    }

    /// Whether requests come at times of their own; else each follows a completion.
    pub fn is_timed(&self) -> bool {
        self.rate.is_some()
    }

    /// Nanoseconds from a completion to the next request in its place.
    pub fn think_ns(&self) -> u64 {
        self.think_ns
    }

    /// Nanoseconds before its first request.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Nanoseconds after its start when it ends, if it does so by time. A timed job's generator
    /// ends by itself; of the others, whoever issues the requests sees to it.
    pub fn runtime_ns(&self) -> Option<u64> {
        self.runtime_ns
    }

    /// The first byte that it may use, and the one after the last.
    pub fn range(&self) -> (u64, u64) {
        (self.offset, self.offset + self.size)
    }

    /// Whether it makes as many requests as there is a number for.
    pub fn goes_on(&self) -> bool {
        self.number_ios == Some(u64::MAX)
    }

    /// Whether any of its requests writes data.
    pub fn writes(&self) -> bool {
        let phases = self.phases.iter().map(|phase| &phase.shares);
        let mut shares =
            std::iter::once(&self.shares).filter(|_| self.phases.is_empty()).chain(phases);
        shares.any(Shares::write)
    }

    pub(super) fn slots(&self) -> u64 {
        self.size / self.align
    }

    pub(super) fn check(spec: &JobSpec, name: String) -> Result<Self, Mistake> {
        if let Some(field) = spec.unknown.keys().next() {
            return Err(parse::unknown(field, field, JobSpec::FIELDS));
        }
        let rw = spec.rw.as_deref().ok_or_else(|| {
            Mistake::new("rw", "must be said: read, write, randread, randwrite, rw, randrw, trim")
        })?;
        let (random, shares) = shares(rw, spec)?;
        let sizes = Sizes::of_job(spec.bs.as_ref(), spec.bssplit.as_deref())?;
        let (smallest, largest) = used(&sizes, &shares, spec);
        let size_or = |field, value: &Option<Value>, default| match value {
            Some(value) => parse::size(field, value),
            None => Ok(default),
        };
        let time_or = |field, value: &Option<Value>| {
            value.as_ref().map(|value| parse::time(field, value)).transpose()
        };
        let align = size_or("blockalign", &spec.blockalign, smallest)?;
        if align == 0 {
            return Err(Mistake::new("blockalign", "is 0: write at least 1"));
        }
        let offset = size_or("offset", &spec.offset, 0)?;
        let Some(size) = &spec.size else {
            return Err(Mistake::new("size", "must be said, as 16G"));
        };
        let size = parse::size("size", size)?;
        if size < largest || size < align {
            let what = format!("{size} bytes have no room for a request of {}", largest.max(align));
            return Err(Mistake::new("size", what));
        }
        if offset.checked_add(size).is_none_or(|end| end > MAX_ADDRESS) {
            return Err(Mistake::new("size", "offset and size together go past 1 EiB"));
        }
        let stride =
            spec.stride.as_ref().map(|stride| parse::size("stride", stride)).transpose()?;
        match stride {
            Some(0) => return Err(Mistake::new("stride", "is 0: the job would stand still")),
            Some(_) if random => {
                return Err(Mistake::new("stride", format!("has no meaning with rw = {rw:?}")));
            }
            _ => {}
        }
        let distribution = match &spec.random_distribution {
            Some(_) if !random => {
                let what = format!("has no meaning with rw = {rw:?}: write randread or the like");
                return Err(Mistake::new("random_distribution", what));
            }
            Some(text) => Distribution::parse(text)?,
            None => Distribution::Uniform,
        };
        // Whatever the key, it tells whether the zones have room.
        Slots::new(&distribution, size / align, 0)?;
        let iodepth = spec.iodepth.unwrap_or(1);
        if iodepth == 0 {
            return Err(Mistake::new("iodepth", "is 0: write at least 1"));
        }
        let (rate, burst_ns) = rate(spec)?;
        let number_ios = spec.number_ios;
        let runtime_ns = time_or("runtime", &spec.runtime)?;
        let io_bytes = match &spec.io_size {
            Some(value) => Some(parse::size("io_size", value)?),
            None if number_ios.is_none() && runtime_ns.is_none() => Some(size),
            None => None,
        };
        let mut job = Job {
            name,
            volume: VolumeId(spec.volume.unwrap_or(0)),
            random,
            shares,
            sizes,
            align,
            offset,
            size,
            stride,
            distribution,
            iodepth,
            think_ns: time_or("thinktime", &spec.thinktime)?.unwrap_or(0),
            rate,
            burst_ns,
            start_ns: time_or("startdelay", &spec.startdelay)?.unwrap_or(0),
            number_ios,
            io_bytes,
            runtime_ns,
            fsync: spec.fsync.unwrap_or(0),
            stream: spec.stream,
            phases: Vec::new(),
        };
        job.phases =
            spec.phase.iter().map(|phase| job.phase(phase)).collect::<Result<Vec<_>, _>>()?;
        Ok(job)
    }

    fn phase(&self, spec: &PhaseSpec) -> Result<Phase, Mistake> {
        let inside = |mistake: Mistake| Mistake {
            field: format!("phase.{}", mistake.field),
            what: mistake.what,
        };
        if let Some(field) = spec.unknown.keys().next() {
            return Err(inside(parse::unknown(field, field, PhaseSpec::FIELDS)));
        }
        let ios = match spec.number_ios {
            Some(ios) if ios > 0 => ios,
            _ => return Err(Mistake::new("phase.number_ios", "must be said, and at least 1")),
        };
        let hot_percent = spec.hot_offset.unwrap_or(0);
        let hot_percent = parse::percent("phase.hot_offset", hot_percent)?;
        if hot_percent > 0 && !self.random {
            return Err(Mistake::new("phase.hot_offset", "has no meaning in a sequential job"));
        }
        let mut shares = self.shares;
        if let Some(reads) = spec.rwmixread {
            if !matches!(shares.base, Base::Reads(_)) {
                let what = "has no meaning unless the job's rw is rw or randrw";
                return Err(Mistake::new("phase.rwmixread", what));
            }
            shares.base = Base::Reads(parse::percent("phase.rwmixread", reads)?);
        }
        let distribution = match &spec.random_distribution {
            Some(_) if !self.random => {
                let what = "has no meaning in a sequential job";
                return Err(Mistake::new("phase.random_distribution", what));
            }
            Some(text) => Distribution::parse(text).map_err(inside)?,
            None => self.distribution.clone(),
        };
        Slots::new(&distribution, self.slots(), 0).map_err(inside)?;
        let rate = match (spec.rate_iops, self.rate) {
            (Some(0), _) => return Err(Mistake::new("phase.rate_iops", "is 0: write at least 1")),
            (Some(_), None) => {
                let what = "is said, but the job has no rate_iops: write one there too";
                return Err(Mistake::new("phase.rate_iops", what));
            }
            (rate, _) => rate,
        };
        Ok(Phase { ios, hot_percent, shares, distribution, rate })
    }
}

/// Whether addresses are random, and the shares of operations.
fn shares(rw: &str, spec: &JobSpec) -> Result<(bool, Shares), Mistake> {
    const WORDS: [&str; 9] =
        ["read", "write", "trim", "rw", "readwrite", "randread", "randwrite", "randtrim", "randrw"];
    let reads = parse::percent("rwmixread", spec.rwmixread.unwrap_or(50))?;
    let (random, base) = match parse::word("rw", rw, &WORDS)? {
        0 => (false, Base::Only(Op::Read)),
        1 => (false, Base::Only(Op::Write)),
        2 => (false, Base::Only(Op::Trim)),
        3 | 4 => (false, Base::Reads(reads)),
        5 => (true, Base::Only(Op::Read)),
        6 => (true, Base::Only(Op::Write)),
        7 => (true, Base::Only(Op::Trim)),
        _ => (true, Base::Reads(reads)),
    };
    if spec.rwmixread.is_some() && matches!(base, Base::Only(_)) {
        let what = format!("has no meaning with rw = {rw:?}: write rw or randrw there");
        return Err(Mistake::new("rwmixread", what));
    }
    let trims = parse::percent("rwmixtrim", spec.rwmixtrim.unwrap_or(0))?;
    let zeroes = parse::percent("rwmixzeroes", spec.rwmixzeroes.unwrap_or(0))?;
    if trims + zeroes > 100 {
        let what = format!("together with rwmixtrim it is {} percent", trims + zeroes);
        return Err(Mistake::new("rwmixzeroes", what));
    }
    Ok((random, Shares { base, trims, zeroes }))
}

/// The smallest and largest size that the job's operations use.
fn used(sizes: &[Sizes; 3], shares: &Shares, spec: &JobSpec) -> (u64, u64) {
    let [read, write, trim] = sizes;
    let is_trim = matches!(shares.base, Base::Only(Op::Trim));
    let reads = matches!(shares.base, Base::Reads(_) | Base::Only(Op::Read));
    let writes = matches!(shares.base, Base::Reads(_) | Base::Only(Op::Write)) || shares.zeroes > 0;
    let trims = is_trim || spec.rwmixtrim.is_some_and(|percent| percent > 0);
    let used = || {
        [(reads, read), (writes, write), (trims, trim)]
            .into_iter()
            .filter(|(used, _)| *used)
            .map(|(_, sizes)| sizes)
    };
    (
        used().map(Sizes::smallest).min().expect("a job does something"),
        used().map(Sizes::largest).max().expect("a job does something"),
    )
}

type Rate = (Option<(Arrival, u64)>, Option<(u64, u64)>);

fn rate(spec: &JobSpec) -> Result<Rate, Mistake> {
    let Some(rate) = spec.rate_iops else {
        for (field, said) in [
            ("rate_process", spec.rate_process.is_some()),
            ("burst_on", spec.burst_on.is_some()),
            ("burst_off", spec.burst_off.is_some()),
        ] {
            if said {
                return Err(Mistake::new(field, "has no meaning without rate_iops"));
            }
        }
        return Ok((None, None));
    };
    if rate == 0 || rate > 1_000_000_000 {
        return Err(Mistake::new("rate_iops", format!("{rate} is not from 1 to 1,000,000,000")));
    }
    if spec.thinktime.is_some() {
        let what = "has no meaning with rate_iops: requests do not wait for completions";
        return Err(Mistake::new("thinktime", what));
    }
    let process = spec.rate_process.as_deref().unwrap_or("linear");
    let arrival = match parse::word("rate_process", process, &["linear", "poisson"])? {
        0 => Arrival::Linear,
        _ => Arrival::Poisson,
    };
    let burst = match (&spec.burst_on, &spec.burst_off) {
        (None, None) => None,
        (Some(on), Some(off)) => {
            let (on, off) = (parse::time("burst_on", on)?, parse::time("burst_off", off)?);
            if on == 0 {
                return Err(Mistake::new("burst_on", "is 0: no request would ever come"));
            }
            Some((on, off))
        }
        (Some(_), None) => return Err(Mistake::new("burst_off", "must be said beside burst_on")),
        (None, Some(_)) => return Err(Mistake::new("burst_on", "must be said beside burst_off")),
    };
    Ok((Some((arrival, rate)), burst))
}
