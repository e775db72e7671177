//! Why a command failed, in the words that its user reads.

use std::fmt;

use mjolnir_host::HostError;
use mjolnir_store::Error;

/// A failure: one sentence, or nothing where the output said it all; and the exit status.
#[derive(Debug)]
pub struct Failure(Option<String>, u8);

impl Failure {
    /// A failure with its sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Failure(Some(message.into()), 1)
    }

    /// What was found is bad, and was printed already.
    pub fn told() -> Self {
        Failure(None, 1)
    }

    /// With another exit status than 1.
    pub fn with_status(self, status: u8) -> Self {
        Failure(self.0, status)
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        self.1
    }

    /// Prints it to standard error.
    pub fn tell(&self) {
        if let Some(message) = &self.0 {
            crate::complaints::complain(message);
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("problems were found"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::new(error.message)
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Failure::new(error.context)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::new(format!("{error:#}"))
    }
}
