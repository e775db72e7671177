//! The load: writers and the taker of snapshots at work, shown while they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use mjolnir_store::report::Stats;

use super::content::Content;
use super::sample::Sample;
use super::server::Admin;
use super::snapshots::{Snapshots, SnapshotsDone};
use super::tally::Tally;
use super::versions::Deal;
use super::view::View;
use super::writer::{Note, Writer, Written};

/// How often it is looked whether something happened.
const NAP: Duration = Duration::from_millis(20);
/// Snapshots in the time of the load, if reading them back is fast enough.
const SNAPSHOTS: u32 = 10;

/// What is to be done.
pub struct Load {
    /// The server's admin door.
    pub admin: Admin,
    /// Where it serves.
    pub socket: PathBuf,
    /// The volume to write to; it is empty.
    pub volume: String,
    /// How it is dealt out.
    pub deal: Deal,
    /// What its blocks hold.
    pub content: Content,
    /// Shared by all threads.
    pub tally: Arc<Tally>,
    /// For how long.
    pub length: Duration,
}

/// What was done.
pub struct Loaded {
    /// By writer.
    pub written: Vec<Written>,
    /// Snapshots.
    pub snapshots: SnapshotsDone,
    /// The highest of what the samples saw.
    pub utilization_max: f64,
    /// Reclaim's highest share of bandwidth.
    pub share_max: f64,
}

impl Load {
    /// Runs the load to its end.
    ///
    /// # Errors
    ///
    /// The first client that failed, or else the server.
    pub fn run(self, view: &mut View) -> Result<Loaded> {
        let (news, told) = mpsc::channel();
        let mut letter_boxes = Vec::new();
        let mut writers = Vec::new();
        for number in 0..self.deal.writers {
            let tally = self.tally.clone();
            let (socket, volume) = (&self.socket, &self.volume);
            let writer = Writer::new(socket, volume, number, self.deal, self.content, tally)?;
            let (letter_box, notes) = mpsc::channel::<Note>();
            letter_boxes.push(letter_box);
            writers.push(spawn("writer", &self.tally, move || writer.run(&notes))?);
        }
        let snapshots = self.snapshots(letter_boxes, news);
        let snapshots = spawn("snapshots", &self.tally, move || snapshots.run())?;
        let watched = self.watch(view, &told);
        self.tally.load_over.store(true, Relaxed);
        // Clients first: they know best what they were doing when something failed.
        let written: Vec<_> = writers.into_iter().map(join).collect();
        let snapshots = join(snapshots);
        told.try_iter().for_each(|news| view.tell(news));
        let written = written.into_iter().collect::<Result<Vec<_>>>()?;
        let (snapshots, (utilization_max, share_max)) = (snapshots?, watched?);
        Ok(Loaded { written, snapshots, utilization_max, share_max })
    }

    fn snapshots(&self, writers: Vec<Sender<Note>>, news: Sender<String>) -> Snapshots {
        Snapshots {
            admin: self.admin.clone(),
            socket: self.socket.clone(),
            volume: self.volume.clone(),
            deal: self.deal,
            content: self.content,
            tally: self.tally.clone(),
            writers,
            every: self.length / SNAPSHOTS,
            news,
        }
    }

    /// Shows samples and news until the time is over or something failed. Returns the highest
    /// utilization and share seen.
    fn watch(&self, view: &mut View, told: &Receiver<String>) -> Result<(f64, f64)> {
        let began = Instant::now();
        let mut before: Stats = self.admin.stats()?;
        let mut next = view.interval();
        let (mut utilization, mut share) = (0.0f64, 0.0f64);
        while self.tally.load_goes_on() && began.elapsed() < self.length {
            thread::sleep(NAP);
            told.try_iter().for_each(|news| view.tell(news));
            if began.elapsed() < next {
                continue;
            }
            next += view.interval();
            let stats = self.admin.stats()?;
            let sample = Sample::between(&before, &stats, began.elapsed());
            (utilization, share) =
                (utilization.max(sample.utilization), share.max(sample.reclaim_share));
            view.sample(sample);
            before = stats;
        }
        Ok((utilization, share))
    }
}

/// Starts a thread. When it ends, in whatever way, the load is over for all.
fn spawn<T: Send + 'static>(
    name: &str,
    tally: &Arc<Tally>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    struct EndsLoad(Arc<Tally>);
    impl Drop for EndsLoad {
        fn drop(&mut self) {
            self.0.load_over.store(true, Relaxed);
        }
    }
    let guard = EndsLoad(tally.clone());
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = guard;
        work()
    })?;
    Ok(thread)
}

fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    let name = thread.thread().name().unwrap_or("a thread").to_owned();
    thread.join().unwrap_or_else(|_| Err(anyhow!("the {name} thread panicked")))
}
