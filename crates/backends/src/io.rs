//! Reading and writing a file without blocking the thread: through io_uring, or through a pool of
//! threads where io_uring is not available. Neither knows of zones.

mod bounce;
mod in_flight;
mod pool;
mod syncs;
mod uring;

use std::fs::File;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Runtime};

pub(crate) use bounce::align;
pub(crate) use in_flight::{Hold, InFlight};
use syncs::Syncs;

use crate::file::Claim;

/// An open and locked file, and what its requests have learned about it.
pub(crate) struct Target {
    pub file: File,
    /// What is locked with it.
    claims: Vec<Claim>,
    /// A flush has failed: the kernel forgets what it could not write, so that a later flush
    /// would lie.
    lost: AtomicBool,
    syncs: Syncs,
}

impl Target {
    #[cfg(test)]
    pub fn new(file: File) -> Self {
        Self::with_claims(file, Vec::new())
    }

    /// One with which those claims are given up.
    pub fn with_claims(file: File, claims: Vec<Claim>) -> Self {
        Target { file, claims, lost: AtomicBool::new(false), syncs: Syncs::default() }
    }

    /// Makes what was written durable, on the caller's thread.
    pub fn sync(&self) -> io::Result<()> {
        self.sync_by(|| Ok(rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&self.file))?))
    }

    /// As [`sync`](Self::sync), with all that the file system knows of the file.
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync_by(|| self.file.sync_all())
    }

    fn sync_by(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let hold = self.syncs.begin();
        let result = self.note_sync(sync());
        drop(hold);
        result?;
        self.syncs.under_way().iter().for_each(|others| others.wait());
        self.check_lost()
    }

    /// Whether what a sync that has just succeeded was to make durable is so: waits for those that were
    /// under way beside it. The kernel tells of a failure once, and may have told one of them.
    pub async fn confirm_sync(&self) -> io::Result<()> {
        for others in self.syncs.under_way() {
            others.idle().await;
        }
        self.check_lost()
    }

    /// A sync begins that somebody else makes; what comes of it is [noted](Self::note_sync) before the hold
    /// is dropped.
    fn begin_sync(&self) -> Hold {
        self.syncs.begin()
    }

    fn note_sync(&self, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
        result
    }

    /// What was written was not lost though a sync failed: later ones count again.
    pub fn forgive(&self) {
        self.lost.store(false, Ordering::Relaxed);
    }

    fn check_lost(&self) -> io::Result<()> {
        match self.lost.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(io::Error::other(
                "another flush failed, and what it was to write may be lost; close the store and open \
                 it again",
            )),
        }
    }
}

impl Drop for Target {
    /// Unlocks the file now: the kernel may keep it open for a moment on behalf of a ring.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
        self.claims.clear();
    }
}

/// Something to do with the file. Offsets and lengths are bytes.
pub(crate) enum Request {
    /// Writes the pieces one after another.
    Write { offset: u64, pieces: Vec<Bytes> },
    /// Fills the buffer.
    Read { offset: u64, buffer: AlignedBuf },
    /// Makes what was written durable.
    Sync,
    /// Gives the space of a region of a regular file back.
    Punch { offset: u64, length: u64 },
}

impl Request {
    /// Bytes that are to be moved.
    fn bytes(&self) -> usize {
        match self {
            Request::Write { pieces, .. } => total(pieces),
            Request::Read { buffer, .. } => buffer.len(),
            Request::Sync | Request::Punch { .. } => 0,
        }
    }
}

/// How requests are carried out.
#[derive(Clone)]
pub(crate) enum Io {
    Uring(Rc<uring::Ring>),
    Pool(Arc<Target>),
}

impl Io {
    /// Requests go through a ring of their own, which a task on `runtime` tends. Fails where
    /// io_uring is not permitted or too old.
    pub fn uring(target: Arc<Target>, runtime: &impl Runtime) -> io::Result<Self> {
        Ok(Io::Uring(uring::Ring::new(target, runtime)?))
    }

    /// Requests go to a pool of threads.
    pub fn pool(target: Arc<Target>) -> Self {
        Io::Pool(target)
    }

    /// Starts a request. It goes on if the future is dropped, or does not begin; `hold` is
    /// released when it has ended. The buffer of a read is returned, of others nothing is.
    pub fn start(
        &self,
        request: Request,
        hold: Option<Hold>,
    ) -> impl Future<Output = io::Result<Option<AlignedBuf>>> + use<> {
        enum Started {
            Uring(uring::Pending),
            Pool(blocking::Task<io::Result<Option<AlignedBuf>>>),
        }
        let started = match self {
            Io::Uring(ring) => Started::Uring(uring::Ring::start(ring, request, hold)),
            Io::Pool(target) => {
                let target = target.clone();
                Started::Pool(blocking::unblock(move || {
                    let result = pool::run(&target, request);
                    drop(hold);
                    result
                }))
            }
        };
        async move {
            match started {
                Started::Uring(pending) => pending.await,
                Started::Pool(task) => task.await,
            }
        }
    }
}

/// The most pieces that one system call takes (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

fn total(pieces: &[Bytes]) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

/// The pieces after the first `done` bytes, at most [`PIECES_MAX`] of them, none of them empty.
fn remaining(pieces: &[Bytes], mut done: usize) -> impl Iterator<Item = &[u8]> {
    let rest = pieces.iter().filter_map(move |piece| {
        let skip = done.min(piece.len());
        done -= skip;
        (skip < piece.len()).then(|| &piece[skip..])
    });
    rest.take(PIECES_MAX)
}

#[cfg(test)]
mod tests;
