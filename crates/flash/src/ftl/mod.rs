//! Firmware: from logical pages to physical ones.

mod page_mapped;
mod spec;

pub use page_mapped::{
    Counts, FtlError, Overwrites, PageMapped, Precondition, PreconditionReport, Read, Reclaim,
    Report, RestoreError, Wear, WhyNoReclaim,
};
pub use spec::FtlSpec;
