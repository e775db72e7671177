//! Errors in a specification.

use std::fmt;

/// A mistake in a specification: where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The job, as errors call it; empty if it is the workload as a whole.
    pub job: String,
    /// The field.
    pub field: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.job.is_empty() {
            write!(f, "job {:?}, ", self.job)?;
        }
        write!(f, "field {}: {}", self.field, self.what)
    }
}

impl std::error::Error for SpecError {}

/// A mistake, before it is known in which job.
#[derive(Debug)]
pub(super) struct Mistake {
    pub field: String,
    pub what: String,
}

impl Mistake {
    pub(super) fn new(field: &str, what: impl Into<String>) -> Self {
        Mistake { field: field.to_owned(), what: what.into() }
    }

    pub(super) fn in_job(self, job: &str) -> SpecError {
        SpecError { job: job.to_owned(), field: self.field, what: self.what }
    }
}
