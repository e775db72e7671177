//! Brings a trace to a device of another size, block size and speed, by stated rules.
//!
//! In this order, for each request:
//!
//! 1. **Volumes.** A device has one address space. [`VolumeRule::Concatenate`] lays a trace's
//!    volumes one after the other, each as long as its highest request reaches, rounded up to
//!    1 MiB; [`VolumeRule::Overlay`] lays all at 0; [`VolumeRule::Only`] takes one.
//! 2. **Blocks.** Reads, writes and writes of zeroes are widened to whole blocks; trims are
//!    narrowed to the whole blocks in them, and one without any is dropped: so the device does at
//!    least the work and gives up at most the data.
//! 3. **Addresses.** [`AddressRule::Exact`] refuses a request that goes past the device.
//!    [`AddressRule::Fold`] takes addresses modulo the device's size and splits a request that
//!    crosses its end. [`AddressRule::Scale`] cuts both spaces into regions of 1 MiB and maps
//!    region r of n to region ⌊r·m/n⌋ of m: near addresses stay near, the hot part keeps its share,
//!    and runs within a region stay runs.
//! 4. **Time.** As recorded, stretched, or not at all: as fast as a queue of a given depth allows.
//!
//! A trace may be replayed several times. Each pass continues in time where the last pass ended,
//! after the mean interval between two of its requests.
//!
//! A [`FitReport`] counts every change.

mod pieces;
mod replay;
mod report;

use mjolnir_units::{ByteSize, Instant};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{MAX_ADDRESS, Op, Request, VolumeId};
pub use pieces::Pieces;
pub use replay::{Replay, ReplayError};
pub use report::FitReport;

/// Bytes in a region of [`AddressRule::Scale`], and what volumes are rounded up to.
pub const REGION_BYTES: u64 = 1 << 20;

/// A device, as far as addresses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its size in bytes: whole blocks.
    pub bytes: u64,
    /// Its block size in bytes.
    pub block_bytes: u64,
}

/// How a trace's volumes become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeRule {
    /// One after the other.
    #[default]
    Concatenate,
    /// All in the same place.
    Overlay,
    /// This one; the others' requests are dropped.
    Only(VolumeId),
}

/// How addresses become the device's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressRule {
    /// They are; one past its end is an error.
    #[default]
    Exact,
    /// Modulo its size.
    Fold,
    /// In proportion.
    Scale,
}

/// How times become the device's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeRule {
    /// They are.
    #[default]
    AsRecorded,
    /// In percent: 50 is twice as fast, 200 half as fast.
    Stretch(u32),
    /// They are dropped: so many requests are kept under way.
    QueueDepth(u32),
}

/// How to fit a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[serde(expecting = "a table with `volumes`, `addresses`, `time` and `passes`, or some of them")]
pub struct FitSpec {
    /// How volumes become one.
    pub volumes: VolumeRule,
    /// How addresses become the device's.
    pub addresses: AddressRule,
    /// How times become the device's.
    pub time: TimeRule,
    /// How often the trace is passed over, from 1 on; 0 is taken for 1.
    pub passes: u32,
}

/// Why a trace does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    /// The device is none.
    #[error(
        "a device of {bytes} bytes in blocks of {block_bytes}: write a size of whole blocks, above 0"
    )]
    Target {
        /// Its size.
        bytes: u64,
        /// Its block size.
        block_bytes: u64,
    },
    /// A device without a region.
    #[error("a device of {0} is smaller than a region of 1 MiB: fold addresses instead of scaling")]
    NoRegion(ByteSize),
    /// Blocks that regions are not made of.
    #[error(
        "regions of 1 MiB are not made of blocks of {0} bytes: fold addresses instead of scaling"
    )]
    RegionBlocks(u64),
    /// A stretch or depth of 0.
    #[error("{0} must be above 0")]
    Zero(&'static str),
    /// The volume that alone is wanted is not in the trace.
    #[error("the trace has no volume number {0}: it has {1}")]
    NoVolume(u32, usize),
    /// The volumes together are too long.
    #[error("the trace's volumes together go past 1 EiB: take one, or lay them over each other")]
    TooLong,
    /// A request goes past the device.
    #[error(
        "a {op} of {length} bytes at {offset} goes past the device's end at {bytes}: \
         fold or scale the addresses, or take a larger device"
    )]
    PastEnd {
        /// What.
        op: Op,
        /// Where, on the device.
        offset: u64,
        /// How long.
        length: u64,
        /// The device's size.
        bytes: u64,
    },
    /// A request goes past what the trace's summary said.
    #[error(
        "a request to volume number {volume} ends at {end}, past the {known} that were said of \
         the trace: summarise the same trace that is fitted"
    )]
    NotSummarised {
        /// The volume.
        volume: u32,
        /// Where the request ends.
        end: u64,
        /// What was known.
        known: u64,
    },
}

/// Fits requests, one after the other.
#[derive(Clone, Debug)]
pub struct Fitter {
    spec: FitSpec,
    target: Target,
    /// The highest end of each volume, in bytes.
    ends: Vec<u64>,
    /// Where each volume begins.
    starts: Vec<u64>,
    /// Regions of the trace and of the device.
    regions: (u64, u64),
    /// The time at which this pass began, as recorded.
    pass_start_ns: u64,
    last_ns: u64,
    in_pass: u64,
    report: FitReport,
}

impl Fitter {
    /// A fitter for a trace whose volumes end at `volume_ends`
    /// ([`Summary::volume_ends`](crate::trace::Summary::volume_ends)).
    ///
    /// # Errors
    ///
    /// If the specification, the device or the volumes make no sense.
    pub fn new(spec: &FitSpec, target: Target, volume_ends: &[u64]) -> Result<Self, FitError> {
        let Target { bytes, block_bytes } = target;
        if block_bytes == 0
            || bytes == 0
            || !bytes.is_multiple_of(block_bytes)
            || bytes > MAX_ADDRESS
        {
            return Err(FitError::Target { bytes, block_bytes });
        }
        match spec.time {
            TimeRule::Stretch(0) => return Err(FitError::Zero("the stretch of time in percent")),
            TimeRule::QueueDepth(0) => return Err(FitError::Zero("the queue depth")),
            _ => {}
        }
        let mut starts = Vec::new();
        let mut length: u64 = 0;
        for (volume, end) in volume_ends.iter().enumerate() {
            let end = end.next_multiple_of(REGION_BYTES.max(block_bytes));
            match spec.volumes {
                VolumeRule::Concatenate => {
                    starts.push(length);
                    length = length.saturating_add(end);
                }
                VolumeRule::Overlay => {
                    starts.push(0);
                    length = length.max(end);
                }
                VolumeRule::Only(only) => {
                    starts.push(0);
                    if only.0 as usize == volume {
                        length = end;
                    }
                }
            }
        }
        if length > MAX_ADDRESS {
            return Err(FitError::TooLong);
        }
        if let VolumeRule::Only(only) = spec.volumes
            && only.0 as usize >= volume_ends.len()
        {
            return Err(FitError::NoVolume(only.0, volume_ends.len()));
        }
        let regions = (length.div_ceil(REGION_BYTES).max(1), bytes / REGION_BYTES);
        if spec.addresses == AddressRule::Scale && regions.1 == 0 {
            return Err(FitError::NoRegion(ByteSize(bytes)));
        }
        if spec.addresses == AddressRule::Scale && !REGION_BYTES.is_multiple_of(block_bytes) {
            return Err(FitError::RegionBlocks(block_bytes));
        }
        let report = FitReport::new(*spec, target, length);
        Ok(Fitter {
            spec: *spec,
            target,
            ends: volume_ends.to_vec(),
            starts,
            regions,
            pass_start_ns: 0,
            last_ns: 0,
            in_pass: 0,
            report,
        })
    }

    /// Fits a request; it may become several, or none. All go to volume 0.
    ///
    /// # Errors
    ///
    /// If it goes past the device and addresses are to be exact, or past what is known of the
    /// trace.
    pub fn fit(&mut self, request: &Request) -> Result<Pieces, FitError> {
        self.report.read += 1;
        self.pass_over(request);
        if matches!(self.spec.volumes, VolumeRule::Only(only) if only != request.volume) {
            self.report.of_other_volumes += 1;
            return Ok(Pieces::none());
        }
        let volume = request.volume.0 as usize;
        let known = self.ends.get(volume).copied().unwrap_or(0);
        if request.end() > known {
            let volume = request.volume.0;
            return Err(FitError::NotSummarised { volume, end: request.end(), known });
        }
        let start = self.starts.get(volume).copied().unwrap_or(0);
        let placed = Request {
            time: self.time(request.time),
            volume: VolumeId(0),
            offset: if request.op == Op::Flush { 0 } else { request.offset + start },
            ..*request
        };
        if request.op == Op::Flush {
            self.report.written += 1;
            return Ok(Pieces::one(placed));
        }
        let Some(aligned) = self.aligned(placed) else {
            self.report.trims_dropped += 1;
            return Ok(Pieces::none());
        };
        let pieces = self.addressed(aligned)?;
        self.report.written += pieces.count_left();
        self.report.split += u64::from(pieces.count_left() > 1);
        Ok(pieces)
    }

    /// A request of the trace that is left out: only the pass's length follows from it.
    pub fn pass_over(&mut self, request: &Request) {
        self.in_pass += 1;
        self.last_ns = self.last_ns.max(request.time.0);
    }

    /// Begins the trace again: what comes next is later than all before.
    pub fn next_pass(&mut self) {
        let gap = self.last_ns / self.in_pass.saturating_sub(1).max(1);
        self.pass_start_ns = self.pass_start_ns.saturating_add(self.last_ns).saturating_add(gap);
        (self.last_ns, self.in_pass) = (0, 0);
        self.report.passes += 1;
    }

    /// How many passes were asked for.
    pub fn passes(&self) -> u32 {
        self.spec.passes.max(1)
    }

    /// How many requests to keep under way; `None` if they have times.
    pub fn queue_depth(&self) -> Option<u32> {
        match self.spec.time {
            TimeRule::QueueDepth(depth) => Some(depth),
            TimeRule::AsRecorded | TimeRule::Stretch(_) => None,
        }
    }

    /// What was done so far.
    pub fn report(&self) -> &FitReport {
        &self.report
    }

    fn time(&self, time: Instant) -> Instant {
        let ns = self.pass_start_ns.saturating_add(time.0);
        match self.spec.time {
            TimeRule::AsRecorded => Instant(ns),
            TimeRule::Stretch(percent) => {
                let ns = u128::from(ns) * u128::from(percent) / 100;
                Instant(u64::try_from(ns).unwrap_or(u64::MAX))
            }
            TimeRule::QueueDepth(_) => Instant(0),
        }
    }

    /// In whole blocks; `None` if nothing is left.
    fn aligned(&mut self, request: Request) -> Option<Request> {
        let block = self.target.block_bytes;
        let (down, up) = (|at: u64| at / block * block, |at: u64| at.next_multiple_of(block));
        let (start, end) = match request.op {
            Op::Trim => (up(request.offset), down(request.end())),
            _ => (down(request.offset), up(request.end())),
        };
        if start >= end {
            return None;
        }
        let length = end - start;
        if length > request.length {
            self.report.widened += 1;
            self.report.widened_bytes += length - request.length;
        } else if length < request.length {
            self.report.trims_narrowed += 1;
        }
        Some(Request { offset: start, length, ..request })
    }

    fn addressed(&mut self, request: Request) -> Result<Pieces, FitError> {
        let bytes = self.target.bytes;
        match self.spec.addresses {
            AddressRule::Exact if request.end() > bytes => Err(FitError::PastEnd {
                op: request.op,
                offset: request.offset,
                length: request.length,
                bytes,
            }),
            AddressRule::Exact => Ok(Pieces::one(request)),
            AddressRule::Fold => {
                let length = request.length.min(bytes);
                self.report.cut += u64::from(length < request.length);
                self.report.folded += u64::from(request.end() > bytes);
                let offset = if length == bytes { 0 } else { request.offset % bytes };
                Ok(Pieces::around(Request { offset, length, ..request }, bytes))
            }
            AddressRule::Scale => {
                let (from, to) = self.regions;
                if from == to {
                    return Ok(Pieces::one(request));
                }
                self.report.scaled += 1;
                Ok(Pieces::scaled(request, from, to))
            }
        }
    }
}
