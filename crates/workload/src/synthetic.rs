//! Requests made by rule, in the terms of fio.
//!
//! A person writes a [`WorkloadSpec`] (TOML, through serde); [`Workload::new`] checks it and names
//! errors by job and field. A [`Generator`] yields the requests of one job: the same ones on every
//! machine for the same specification and seed, because only integers and the exact operations of
//! floating point (`+ - * /`) go into them, and the generator of random bits is pinned.
//!
//! ```toml
//! seed = 7
//!
//! [[job]]
//! name = "database"
//! rw = "randrw"
//! rwmixread = 70
//! bssplit = "4k/80:16k/20"
//! size = "8G"
//! random_distribution = "zipf:1.1"
//! iodepth = 16
//! number_ios = 1000000
//!
//! [[job]]
//! name = "log"
//! rw = "write"
//! bs = "32k"
//! offset = "8G"
//! size = "1G"
//! rate_iops = 200
//! rate_process = "poisson"
//! fsync = 8
//! stream = 2
//! runtime = "10m"
//! ```

mod addresses;
mod arrivals;
mod chance;
mod error;
mod generator;
mod job;
mod logarithm;
mod mix;
mod parse;
mod scatter;
mod spec;
mod workload;
mod zipf;

pub use error::SpecError;
pub use generator::Generator;
pub use job::{Arrival, Job};
pub use spec::{JobSpec, PhaseSpec, Value, WorkloadSpec};
pub use workload::{Interleaved, Workload};
