//! Experiments and studies on simulated flash, in virtual time, and advice.
//!
//! [`experiment`]s are sweeps of runs, with results and a report; [`study`] is what most of them
//! run; [`advise`] is made of both.
//!
//! **Imports** `units`, `device`, `store`, `policy`, `engine`, `flash`, `workload`, `vtime`.
//! **Leaves out** real time, real threads and real files, but for [`experiment`]: it runs on
//! threads and keeps results in files.

pub mod advise;
pub mod experiment;
pub mod recordings;
pub mod study;
