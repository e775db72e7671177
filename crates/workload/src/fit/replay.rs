//! All passes over a trace, fitted.

use std::fmt;

use super::{FitError, FitReport, Fitter, Pieces};
use crate::Request;

/// Why a replay stopped.
#[derive(Debug)]
pub enum ReplayError<E> {
    /// The trace cannot be opened or read on.
    Trace(E),
    /// A request does not fit.
    Fit(FitError),
}

impl<E: fmt::Display> fmt::Display for ReplayError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Trace(error) => error.fmt(f),
            ReplayError::Fit(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> std::error::Error for ReplayError<E> {}

/// Yields the requests of all passes over a trace, fitted to a device. Ends after an error.
pub struct Replay<F, I> {
    open: F,
    trace: Option<I>,
    fitter: Fitter,
    pieces: Pieces,
    pass: u32,
    /// Requests of the first pass that are still to be left out.
    skip: u64,
}

impl<F, I, E> Replay<F, I>
where
    F: FnMut() -> Result<I, E>,
    I: Iterator<Item = Result<Request, E>>,
{
    /// Over what `open` gives, once for each pass.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn new(mut open: F, fitter: Fitter) -> Result<Self, E> {
        let trace = Some(open()?);
        Ok(Replay { open, trace, fitter, pieces: Pieces::none(), pass: 1, skip: 0 })
    }

    /// Leaves out so many of the trace's requests at the beginning of the first pass. Times are as with
    /// them.
    #[must_use]
    pub fn begun_after(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// What fitting did so far.
    pub fn report(&self) -> &FitReport {
        self.fitter.report()
    }

    /// How many requests to keep under way; `None` if they have times.
    pub fn queue_depth(&self) -> Option<u32> {
        self.fitter.queue_depth()
    }
}

impl<F, I, E> Iterator for Replay<F, I>
where
    F: FnMut() -> Result<I, E>,
    I: Iterator<Item = Result<Request, E>>,
{
    type Item = Result<Request, ReplayError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Some(Ok(piece));
            }
            let step = match self.trace.as_mut()?.next() {
                Some(Ok(request)) if self.skip > 0 && self.pass == 1 => {
                    self.skip -= 1;
                    self.fitter.pass_over(&request);
                    continue;
                }
                Some(Ok(request)) => self.fitter.fit(&request).map_err(ReplayError::Fit),
                Some(Err(error)) => Err(ReplayError::Trace(error)),
                None if self.pass < self.fitter.passes() => {
                    self.pass += 1;
                    self.fitter.next_pass();
                    match (self.open)() {
                        Ok(trace) => {
                            self.trace = Some(trace);
                            continue;
                        }
                        Err(error) => Err(ReplayError::Trace(error)),
                    }
                }
                None => {
                    self.trace = None;
                    return None;
                }
            };
            match step {
                Ok(pieces) => self.pieces = pieces,
                Err(error) => {
                    self.trace = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
