//! The specification of a workload, as a person writes it.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// A number, or a text such as `64K` or `10ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// A text.
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

/// Several jobs at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// What all draws follow from; 0 if not said.
    #[serde(default)]
    pub seed: u64,
    /// The jobs.
    #[serde(default, rename = "job")]
    pub jobs: Vec<JobSpec>,
    /// Fields that there are not: refused, by name.
    #[serde(flatten, skip_serializing)]
    pub unknown: BTreeMap<String, IgnoredAny>,
}

impl WorkloadSpec {
    pub(super) const FIELDS: [&'static str; 2] = ["seed", "job"];
}

/// Declares a specification whose fields are all optional, with the list of their names.
macro_rules! fields {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "is_default")]
                pub $field: $type,
            )*
            /// Fields that there are not: refused, by name.
            #[serde(flatten, skip_serializing)]
            pub unknown: BTreeMap<String, IgnoredAny>,
        }

        impl $name {
            pub(super) const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fields! {
    /// One job: a client that makes requests of one kind. Sizes are numbers of bytes or texts such
    /// as `64K`; times are texts with a unit, such as `10ms`.
    JobSpec {
        /// What errors and results call it; `job N` if not said.
        name: Option<String>,
        /// How many of this job run at once, each with draws of its own; 1 if not said.
        numjobs: Option<u32>,
        /// The number of the volume that it uses; 0 if not said.
        volume: Option<u32>,
        /// `read`, `write`, `trim`, `rw` (or `readwrite`), in sequence; `randread`, `randwrite`,
        /// `randtrim`, `randrw`, at random. Must be said.
        rw: Option<String>,
        /// Percentage of reads where `rw` has both; 50 if not said.
        rwmixread: Option<u64>,
        /// Percentage of all requests that are trims instead; 0 if not said.
        rwmixtrim: Option<u64>,
        /// Percentage of all requests that write zeroes instead; 0 if not said.
        rwmixzeroes: Option<u64>,
        /// Request size: `4k`, or `8k,4k` for reads and writes, or `8k,4k,1m` with trims. 4 KiB if
        /// neither it nor `bssplit` is said.
        bs: Option<Value>,
        /// Request sizes with percentages: `4k/60:64k/40`; as `bs`, one for all, or one each with
        /// commas between.
        bssplit: Option<String>,
        /// What offsets are multiples of; the smallest request size if not said.
        blockalign: Option<Value>,
        /// Where the job's part of the volume begins; 0 if not said.
        offset: Option<Value>,
        /// How long that part is. Must be said.
        size: Option<Value>,
        /// From the start of a sequential request to the start of the next; its own length if not
        /// said.
        stride: Option<Value>,
        /// Where random requests go: `random` (each block alike; if not said), `zipf:THETA`
        /// (the block of rank k as often as 1/k^THETA, ranks scattered over the part),
        /// `hotcold:ACCESSES/SPACE` (percentages), or `zoned:ACCESSES/SPACE:...`.
        random_distribution: Option<String>,
        /// Requests that may be under way at once; 1 if not said.
        iodepth: Option<u32>,
        /// Time from a completion to the next request in its place; none if not said. Only without
        /// `rate_iops`.
        thinktime: Option<Value>,
        /// Requests a second, whenever those before complete. Without it, requests follow
        /// completions.
        rate_iops: Option<u64>,
        /// `linear` (equal distances; if not said) or `poisson`.
        rate_process: Option<String>,
        /// With `rate_iops`: requests come for this long ...
        burst_on: Option<Value>,
        /// ... and then none for this long, and so on.
        burst_off: Option<Value>,
        /// When the first request may come; at once if not said.
        startdelay: Option<Value>,
        /// Ends after so many requests (flushes not counted).
        number_ios: Option<u64>,
        /// Ends once requests of so many bytes were made. If none of `number_ios`, `io_size` and
        /// `runtime` is said, this is `size`.
        io_size: Option<Value>,
        /// Ends after this long. Without `rate_iops` that is for whoever issues the requests to
        /// see to.
        runtime: Option<Value>,
        /// A flush after every so many writes; none if 0 or not said.
        fsync: Option<u64>,
        /// The stream hint of its writes.
        stream: Option<u8>,
        /// Phases, one after the other and from the first again.
        phase: Vec<PhaseSpec>,
    }
}

fields! {
    /// What a phase changes; what it does not say is as in the job.
    PhaseSpec {
        /// How many requests it lasts. Must be said.
        number_ios: Option<u64>,
        /// Moves all random addresses on by this percentage of the part, around its end: the hot
        /// set is elsewhere.
        hot_offset: Option<u64>,
        /// As the job's.
        rwmixread: Option<u64>,
        /// As the job's.
        random_distribution: Option<String>,
        /// As the job's; only if the job has one.
        rate_iops: Option<u64>,
    }
}

impl PartialEq for PhaseSpec {
    fn eq(&self, other: &Self) -> bool {
        (&self.number_ios, &self.hot_offset, &self.rwmixread, &self.random_distribution)
            == (&other.number_ios, &other.hot_offset, &other.rwmixread, &other.random_distribution)
            && self.rate_iops == other.rate_iops
    }
}
