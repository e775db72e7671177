//! The file of a recording, and the thread that writes it.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use mjolnir_workload::trace::{FrameEncoder, TraceHeader};

use crate::{HostError, HostErrorKind};

/// Frames that may wait for the disk: about 8 MiB, some two million requests.
const QUEUE_FRAMES: usize = 128;

/// The most tries to open a file that turns out to be removed.
const OPENED_MAX: u32 = 8;

/// The queue of frames to the file's thread.
pub(super) struct Frames {
    queue: SyncSender<Batch>,
    /// Written buffers, to be reused.
    spent: Receiver<Vec<u8>>,
    thread: JoinHandle<()>,
    outcome: Arc<Outcome>,
}

/// The file of a recording about to begin. Dropping this removes the file.
pub(super) struct Created {
    path: PathBuf,
    frames: Option<Frames>,
}

impl Created {
    pub(super) fn new(path: &Path, replace: bool) -> Result<Self, HostError> {
        let frames = Frames::create(path, replace)?;
        Ok(Created { path: path.to_owned(), frames: Some(frames) })
    }

    pub(super) fn keep(mut self) -> Frames {
        self.frames.take().expect("it is kept once")
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if self.frames.is_some() {
            // Before the lock goes: after that, the path might lead to another program's file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whole frames.
pub(super) struct Batch {
    pub(super) frames: Vec<u8>,
    /// Requests in the recording up to their end.
    pub(super) requests: u64,
}

/// The thread's progress.
#[derive(Default)]
struct Outcome {
    /// Requests in the file.
    requests: AtomicU64,
    /// Bytes of the file, all of them whole frames.
    bytes: AtomicU64,
    failed: OnceLock<String>,
}

/// Refuses to record to a path in use.
///
/// # Errors
///
/// [`Exists`](HostErrorKind::Exists) if something is there, unless it is a recording and
/// `replace`; [`Io`](HostErrorKind::Io) if it cannot be looked at.
pub fn may_record(path: &Path, replace: bool) -> Result<(), HostError> {
    let what = || format!("recording to {}", path.display());
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let found = folder.map_or(Ok(()), |folder| folder.metadata().map(drop));
            found.map_err(HostError::of(what()))
        }
        Err(error) => Err(HostError::of(what())(error)),
        Ok(_) if !replace => Err(taken(path)),
        Ok(_) => open_recording(path).map(drop),
    }
}

fn taken(path: &Path) -> HostError {
    HostError::new(
        HostErrorKind::Exists,
        format!("{} exists already: name another file to record to", path.display()),
    )
}

/// Opens a file to be replaced, if it holds a recording or is empty.
fn open_recording(path: &Path) -> Result<File, HostError> {
    let name = path.display();
    let refuse = |why: &str| {
        let message = format!("{name} {why}, and only an older recording is replaced");
        Err(HostError::new(HostErrorKind::Invalid, message))
    };
    let failed = || HostError::of(format!("replacing the recording {name}"));
    // Opening another kind of file, such as a pipe or a device, may have effects.
    if !path.metadata().map_err(failed())?.is_file() {
        return refuse("is no plain file");
    }
    let mut file = File::options().read(true).write(true).open(path).map_err(failed())?;
    let mut head = Vec::new();
    (&mut file).take(8).read_to_end(&mut head).map_err(failed())?;
    if !head.is_empty() && head != TraceHeader::default().to_bytes()[..8] {
        return refuse("holds something else");
    }
    Ok(file)
}

/// Whether the path leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let of_file = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (of_file.dev(), of_file.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Frames {
    /// Makes the file, with its header, and starts the thread.
    pub(super) fn create(path: &Path, replace: bool) -> Result<Self, HostError> {
        let what = || format!("recording to {}", path.display());
        let mut tries = 0;
        let (mut file, is_new) = loop {
            let (file, is_new) = match File::options().write(true).create_new(true).open(path) {
                Ok(file) => (file, true),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(HostError::of(what())(error));
                }
                Err(_) if replace => (open_recording(path)?, false),
                Err(_) => return Err(taken(path)),
            };
            match file.try_lock() {
                // On file systems without locks, the check is impossible.
                Ok(()) | Err(TryLockError::Error(_)) => {}
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another server is recording to {}", path.display());
                    return Err(HostError::new(HostErrorKind::Busy, message));
                }
            }
            // The holder of the lock may have removed the file since it was opened, but not
            // repeatedly.
            tries += 1;
            if is_new || tries == OPENED_MAX || is_at(&file, path).map_err(HostError::of(what()))? {
                break (file, is_new);
            }
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let start_unix_ns = since_1970.and_then(|time| u64::try_from(time.as_nanos()).ok());
        let header = TraceHeader { start_unix_ns }.to_bytes();
        let begun = begin(&mut file, &header);
        if let Err(error) = begun {
            if is_new {
                let _ = std::fs::remove_file(path);
            }
            return Err(HostError::of(what())(error));
        }
        let (queue, frames) = sync_channel::<Batch>(QUEUE_FRAMES);
        let (back, spent) = sync_channel(QUEUE_FRAMES);
        let outcome = Arc::new(Outcome::default());
        outcome.bytes.store(header.len() as u64, Ordering::Relaxed);
        let told = outcome.clone();
        let thread = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || write_all(file, frames, back, &told))
            .map_err(HostError::of(what()))?;
        Ok(Frames { queue, spent, thread, outcome })
    }

    /// An empty buffer for frames.
    pub(super) fn buffer(&self) -> Vec<u8> {
        let room = FrameEncoder::TARGET_BYTES + 1024;
        self.spent.try_recv().unwrap_or_else(|_| Vec::with_capacity(room))
    }

    /// Puts frames into the queue; the error says why not. After an error the queue takes no
    /// frames, so that the file has no gap.
    pub(super) fn send(&mut self, batch: Batch) -> Result<(), String> {
        if let Some(why) = self.failed() {
            return Err(why);
        }
        self.queue.try_send(batch).map_err(|error| match error {
            TrySendError::Full(_) => {
                let why = "the disk is too slow for it".to_owned();
                // The thread may have failed meanwhile; then that is the reason.
                self.outcome.failed.get_or_init(|| why).clone()
            }
            TrySendError::Disconnected(_) => self.failed().unwrap_or_default(),
        })
    }

    /// Why writing stopped; `None` while it goes on.
    pub(super) fn failed(&self) -> Option<String> {
        self.outcome.failed.get().cloned()
    }

    /// Bytes that are in the file, and the requests in them.
    pub(super) fn written(&self) -> (u64, u64) {
        self.outcome.written()
    }

    /// Writes `rest` after all frames sent, and waits for it. Returns the content of the file, as
    /// [`written`](Self::written) does, and the error, if any.
    pub(super) async fn finish(self, rest: Vec<Batch>) -> ((u64, u64), Option<String>) {
        let Frames { queue, spent, thread, outcome } = self;
        blocking::unblock(move || {
            for batch in rest {
                // No frame may follow a lost frame. A failed thread has reported its error and
                // takes no more frames.
                if outcome.failed.get().is_some() || queue.send(batch).is_err() {
                    break;
                }
            }
            drop((queue, spent));
            if thread.join().is_err() {
                let _ = outcome.failed.set("its thread was lost".to_owned());
            }
            (outcome.written(), outcome.failed.get().cloned())
        })
        .await
    }
}

impl Outcome {
    fn written(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }
}

fn begin(file: &mut File, header: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    io::Seek::rewind(file)?;
    file.write_all(header)
}

/// The thread: writes frames until no more come, or one fails.
fn write_all(mut file: File, queue: Receiver<Batch>, back: SyncSender<Vec<u8>>, outcome: &Outcome) {
    while let Ok(Batch { mut frames, requests }) = queue.recv() {
        let (whole, _) = outcome.written();
        if let Err(error) = file.write_all(&frames) {
            let _ = outcome.failed.set(error.to_string());
            // Readers would skip a partial frame.
            let _ = file.set_len(whole);
            return;
        }
        outcome.bytes.store(whole + frames.len() as u64, Ordering::Relaxed);
        outcome.requests.store(requests, Ordering::Relaxed);
        frames.clear();
        let _ = back.try_send(frames);
    }
    if let Err(error) = file.sync_data() {
        let _ = outcome.failed.set(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_waits_for_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        drop(Created::new(&path, false).unwrap());
        assert!(!path.exists());
        let frames = Created::new(&path, false).unwrap().keep();
        futures_lite::future::block_on(frames.finish(Vec::new()));
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_was_removed_is_not_the_one_of_that_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let first = File::create(&path).unwrap();
        assert!(is_at(&first, &path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&first, &path).unwrap());
        File::create(&path).unwrap();
        assert!(!is_at(&first, &path).unwrap());
    }

    #[test]
    fn where_the_disk_is_too_slow_nothing_more_is_taken_and_all_before_is_written() {
        let (queue, waiting) = sync_channel(2);
        let (back, spent) = sync_channel(2);
        let (outcome, thread) = (Arc::new(Outcome::default()), std::thread::spawn(|| ()));
        let mut frames = Frames { queue, spent, thread, outcome: outcome.clone() };
        let batch = |requests: u64| Batch { frames: vec![requests as u8; 10], requests };
        frames.send(batch(1)).unwrap();
        frames.send(batch(2)).unwrap();
        let why = frames.send(batch(3)).unwrap_err();
        assert!(why.contains("too slow"), "{why}");
        assert_eq!(frames.failed(), Some(why.clone()));
        // Now there is room again; but a frame after the one that is lost would leave a hole.
        assert_eq!(waiting.recv().unwrap().requests, 1);
        assert_eq!(frames.send(batch(4)), Err(why.clone()));
        let (_, failed) = futures_lite::future::block_on(frames.finish(vec![batch(5)]));
        assert_eq!(failed, Some(why));
        let path = tempfile::NamedTempFile::new().unwrap();
        write_all(path.reopen().unwrap(), waiting, back, &outcome);
        assert_eq!(std::fs::read(path.path()).unwrap(), [2; 10]);
        assert_eq!(outcome.written(), (10, 2));
    }
}
