//! Converts one format to another.

use std::fmt;
use std::io::{self, Read, Write};

use serde::Serialize;

use super::fault::TraceError;
use super::reader::TraceReader;
use super::writer::{Losses, TraceWriter};

/// How a conversion went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Conversion {
    /// Requests read.
    pub read: u64,
    /// Requests written.
    pub written: u64,
    /// What the target could not hold.
    pub losses: Losses,
}

/// Why a conversion stopped.
#[derive(Debug)]
pub enum ConvertError {
    /// The source cannot be read on.
    Read(TraceError),
    /// The target cannot be written.
    Write(io::Error),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvertError::Read(error) => error.fmt(f),
            ConvertError::Write(error) => write!(f, "cannot write the trace: {error}"),
        }
    }
}

impl std::error::Error for ConvertError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConvertError::Read(error) => Some(error),
            ConvertError::Write(error) => Some(error),
        }
    }
}

/// Writes all that is left of a trace, and ends the target. The reader's report says how reading
/// went.
///
/// # Errors
///
/// If reading stops at an error or writing fails. The target is then incomplete, and in our own
/// format has no closing mark.
pub fn convert<R: Read, W: Write>(
    reader: &mut TraceReader<R>,
    mut writer: TraceWriter<W>,
) -> Result<(W, Conversion), ConvertError> {
    let mut read = 0;
    while let Some(request) = reader.next_request().map_err(ConvertError::Read)? {
        read += 1;
        writer.write(&request, reader.volumes()).map_err(ConvertError::Write)?;
    }
    let written = writer.written();
    let (out, losses) = writer.finish().map_err(ConvertError::Write)?;
    Ok((out, Conversion { read, written, losses }))
}
