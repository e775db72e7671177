//! Records clients' requests to a store, in the format of `docs/reference/trace-format.md`.
//!
//! [`Recorded`] is the store with a [`Recorder`] listening: the recorder notes each request at its
//! start and at its end. Requests are recorded in the order of their starts, each with its
//! duration. So the recorder keeps requests in flight in a ring, and encodes them when the oldest
//! ends. Full frames go to a thread that only writes (`record/file.rs`).
//!
//! Invariants:
//! * Memory is bounded, and a request allocates nothing: the ring has a fixed length, and so has
//!   the queue of frames, whose buffers are reused.
//! * Serving never waits for a recording. A recording that cannot be written ends. The file then
//!   has all earlier requests up to its last whole frame, and never a gap.

mod file;
mod store;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_store::Store;
use mjolnir_units::{Instant, TreeId};
use mjolnir_workload::trace::{FrameEncoder, Volumes};
use mjolnir_workload::{MAX_ADDRESS, Op, Request, VolumeId};
use serde::{Deserialize, Serialize};

use crate::{HostError, HostErrorKind, HostRuntime};
use file::{Batch, Created, Frames};

pub use file::may_record;
pub use store::Recorded;

/// The most requests kept until the oldest of them ends. With more in flight, the oldest is
/// recorded without its latency.
const IN_FLIGHT_MAX: usize = 4096;

/// The state of a recording, running or ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The recording's file.
    pub file: PathBuf,
    /// Requests in the recording. While it grows, requests in flight do not count, and requests
    /// about to be written do.
    pub requests: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Whether it is still growing.
    pub active: bool,
    /// Why the recording ended by itself.
    pub failed: Option<String>,
}

/// Records requests to stores while a recording is on.
pub struct Recorder {
    runtime: HostRuntime,
    /// Number of the next noted request. Numbers continue from one recording to the next, so that a
    /// request's late end is never taken for another's.
    next: Cell<u64>,
    /// The file that a recording is about to be made to.
    starting: RefCell<Option<PathBuf>>,
    active: RefCell<Option<Active>>,
    ended: RefCell<Option<Recording>>,
}

/// A recording that grows.
struct Active {
    path: PathBuf,
    began: Instant,
    encoder: FrameEncoder,
    volumes: BTreeMap<TreeId, VolumeId>,
    /// Requests from number `first` on, in the order in which they were made.
    in_flight: VecDeque<Noted>,
    first: u64,
    requests: u64,
    frames: Frames,
}

/// A request, kept until it and all earlier requests have ended.
struct Noted {
    request: Request,
    ended: bool,
}

/// A recording about to begin: until it has begun or failed, or its caller stops waiting.
struct Starting<'a>(&'a Recorder);

impl<'a> Starting<'a> {
    fn new(recorder: &'a Recorder, path: &Path) -> Self {
        recorder.starting.replace(Some(path.to_owned()));
        Starting(recorder)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.starting.take();
    }
}

/// A noted request that has not ended. Dropping it means that it ended without success.
struct Asked<'a> {
    recorder: &'a Recorder,
    /// Its numbers, from the first to before the last.
    numbers: std::ops::Range<u64>,
}

impl Recorder {
    /// A recorder without a recording.
    pub fn new(runtime: HostRuntime) -> Rc<Self> {
        let (starting, active, ended) = Default::default();
        Rc::new(Recorder { runtime, next: Cell::new(0), starting, active, ended })
    }

    /// Begins a recording in a new file; with `replace`, an existing recording is replaced. Call
    /// [`tend`](Self::tend) every second from then on.
    ///
    /// # Errors
    ///
    /// [`Busy`](HostErrorKind::Busy) if a recording is being made here or to that file; the errors
    /// of [`may_record`]; the system's errors.
    pub async fn start(&self, path: &Path, replace: bool) -> Result<(), HostError> {
        let busy = |path: &Path, what| {
            HostError::new(
                HostErrorKind::Busy,
                format!("a recording to {} is being {what}; stop it first", path.display()),
            )
        };
        if let Some(active) = &*self.active.borrow() {
            return Err(busy(&active.path, "made"));
        }
        if let Some(path) = &*self.starting.borrow() {
            return Err(busy(path, "begun"));
        }
        let _starting = Starting::new(self, path);
        // The disk may be slow, and clients must not wait for it.
        let to = path.to_owned();
        let create = move || Created::new(&to, replace);
        let frames = blocking::unblock(create).await?.keep();
        *self.active.borrow_mut() = Some(Active {
            path: path.to_owned(),
            began: self.runtime.now(),
            encoder: FrameEncoder::new(),
            volumes: BTreeMap::new(),
            in_flight: VecDeque::with_capacity(IN_FLIGHT_MAX),
            first: self.next.get(),
            requests: 0,
            frames,
        });
        Ok(())
    }

    /// Sends the recorded requests to the file. If the recording had to end, returns the reason,
    /// once.
    pub fn tend(&self) -> Option<String> {
        let mut slot = self.active.borrow_mut();
        let active = slot.as_mut()?;
        let sent = if active.encoder.waiting() > 0 { active.send() } else { Ok(()) };
        let failed = sent.err().or_else(|| active.frames.failed())?;
        let why = format!(
            "the recording to {} ended, and what was recorded before is in it: {failed}",
            active.path.display()
        );
        let (bytes, requests) = active.frames.written();
        let recording = Recording { requests, bytes, active: false, ..active.recording() };
        *self.ended.borrow_mut() = Some(Recording { failed: Some(failed), ..recording });
        *slot = None;
        Some(why)
    }

    /// Ends the recording, including requests in flight, and waits until all of it is in the file.
    ///
    /// # Errors
    ///
    /// [`Invalid`](HostErrorKind::Invalid) if nothing is being recorded, [`Io`](HostErrorKind::Io)
    /// if the rest could not be written; the file is then readable up to its last whole frame.
    pub async fn stop(&self) -> Result<Recording, HostError> {
        let Some(mut active) = self.active.take() else {
            return Err(HostError::new(HostErrorKind::Invalid, "nothing is being recorded"));
        };
        let rest = active.encode_all();
        let ((bytes, requests), failed) = active.frames.finish(rest).await;
        let recording =
            Recording { file: active.path.clone(), requests, bytes, active: false, failed };
        *self.ended.borrow_mut() = Some(recording.clone());
        match &recording.failed {
            None => Ok(recording),
            Some(why) => Err(HostError::new(
                HostErrorKind::Io,
                format!("the end of the recording to {} is lost: {why}", active.path.display()),
            )),
        }
    }

    /// The running recording, else the last one, if any.
    pub fn recording(&self) -> Option<Recording> {
        match &*self.active.borrow() {
            Some(active) => Some(active.recording()),
            None => self.ended.borrow().clone(),
        }
    }

    /// Notes a request, and a flush right behind it if it is `durable`: the format has no other way
    /// to express this.
    fn note<S: Store>(
        &self,
        store: &S,
        target: TreeId,
        op: Op,
        (offset, length): (u64, u64),
        durable: bool,
    ) -> Option<Asked<'_>> {
        let mut slot = self.active.borrow_mut();
        let active = slot.as_mut()?;
        // The store refuses an address past every volume, so it need not be recorded.
        if length > MAX_ADDRESS || offset > MAX_ADDRESS - length {
            return None;
        }
        let volume = active.volume(store, target)?;
        let time = Instant(self.runtime.now().0 - active.began.0);
        let request = Request { time, volume, op, offset, length, stream: None, latency: None };
        active.note(request);
        if durable {
            active.note(Request { op: Op::Flush, offset: 0, length: 0, ..request });
        }
        let first = self.next.get();
        self.next.set(first + 1 + u64::from(durable));
        Some(Asked { recorder: self, numbers: first..self.next.get() })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("recording", &self.recording()).finish_non_exhaustive()
    }
}

impl Active {
    fn recording(&self) -> Recording {
        Recording {
            file: self.path.clone(),
            requests: self.requests,
            bytes: self.frames.written().0,
            active: true,
            failed: None,
        }
    }

    /// The recording's number for a volume or snapshot. `None` if it has no name because it is
    /// being deleted, or if a recording has no more numbers: such requests are left out.
    fn volume<S: Store>(&mut self, store: &S, target: TreeId) -> Option<VolumeId> {
        if let Some(volume) = self.volumes.get(&target) {
            return Some(*volume);
        }
        let volume = VolumeId(u32::try_from(self.volumes.len()).expect("bounded"));
        if self.volumes.len() == Volumes::MAX {
            return None;
        }
        self.encoder.name(volume, &store.info(target).ok()?.name);
        self.volumes.insert(target, volume);
        Some(volume)
    }

    fn note(&mut self, request: Request) {
        if self.in_flight.len() == IN_FLIGHT_MAX {
            self.encode_first();
        }
        self.in_flight.push_back(Noted { request, ended: false });
    }

    /// Puts the oldest request into the frame being made.
    fn encode_first(&mut self) {
        let noted = self.in_flight.pop_front().expect("asked for with one there");
        self.first += 1;
        self.requests += 1;
        if self.encoder.push(&noted.request) {
            // The next `tend` reports a failure, which has no other effect.
            let _ = self.send();
        }
    }

    /// Puts all requests into frames, those in flight without latency, and the end behind them.
    fn encode_all(&mut self) -> Vec<Batch> {
        let mut rest = Vec::new();
        while let Some(noted) = self.in_flight.pop_front() {
            self.requests += 1;
            if self.encoder.push(&noted.request) {
                rest.push(self.take());
            }
        }
        let mut frames = self.frames.buffer();
        self.encoder.end(&mut frames);
        rest.push(Batch { frames, requests: self.requests });
        rest
    }

    /// Takes the frame being made.
    fn take(&mut self) -> Batch {
        let mut frames = self.frames.buffer();
        self.encoder.take(&mut frames);
        Batch { frames, requests: self.requests }
    }

    /// Sends the frame being made to the file's thread.
    fn send(&mut self) -> Result<(), String> {
        let batch = self.take();
        self.frames.send(batch)
    }
}

impl Asked<'_> {
    /// The request ended with success.
    fn ended(mut self) {
        self.end(true);
    }

    fn end(&mut self, well: bool) {
        let mut slot = self.recorder.active.borrow_mut();
        let Some(active) = &mut *slot else { return };
        let now = self.recorder.runtime.now();
        for number in std::mem::take(&mut self.numbers) {
            let Some(index) = number.checked_sub(active.first) else { continue };
            let Some(noted) = active.in_flight.get_mut(index as usize) else { continue };
            noted.ended = true;
            if well {
                let took = now.0 - active.began.0 - noted.request.time.0;
                noted.request.latency = Some(Duration::from_nanos(took));
            }
        }
        while active.in_flight.front().is_some_and(|noted| noted.ended) {
            active.encode_first();
        }
    }
}

/// Ends a request, if it was noted, with success.
fn end(asked: Option<Asked<'_>>) {
    if let Some(asked) = asked {
        asked.ended();
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            self.end(false);
        }
    }
}
