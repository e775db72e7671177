//! Takes snapshots while the load goes on, reads each back in full, and deletes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::content::Content;
use super::readback::{DEPTH_UNDER_LOAD, Readback};
use super::server::Admin;
use super::tally::Tally;
use super::versions::{Deal, Versions};
use super::writer::Note;
use crate::output::count;

/// How often the clock is looked at while waiting.
const NAP: Duration = Duration::from_millis(20);

/// The taker of snapshots.
pub struct Snapshots {
    /// The server's admin door.
    pub admin: Admin,
    /// Where it serves.
    pub socket: PathBuf,
    /// The volume to take snapshots of.
    pub volume: String,
    /// How the volume is dealt out.
    pub deal: Deal,
    /// What its blocks hold.
    pub content: Content,
    /// Takes the verdicts.
    pub tally: Arc<Tally>,
    /// The writers' letter boxes.
    pub writers: Vec<Sender<Note>>,
    /// From one snapshot to the next, at least.
    pub every: Duration,
    /// Takes news in words.
    pub news: Sender<String>,
}

/// A snapshot, and what it must hold.
pub struct Taken {
    /// `volume@snapshot`.
    pub export: String,
    /// What it must hold.
    pub versions: Versions,
}

/// What was done.
#[derive(Default)]
pub struct SnapshotsDone {
    /// Snapshots taken.
    pub taken: u64,
    /// Of them, read back to the last block.
    pub read_back: u64,
    /// The longest time that taking one took.
    pub longest: Duration,
    /// The last one, which was not deleted.
    pub kept: Option<Taken>,
}

impl Snapshots {
    /// Works until the load is over.
    pub fn run(self) -> Result<SnapshotsDone> {
        let mut done = SnapshotsDone::default();
        loop {
            let due = Instant::now() + self.every;
            while self.tally.load_goes_on() && Instant::now() < due {
                thread::sleep(NAP);
            }
            if !self.tally.load_goes_on() {
                return Ok(done);
            }
            // The one before goes only now, so that there is one most of the time.
            if let Some(old) = done.kept.take() {
                let (_, name) = old.export.split_once('@').expect("a snapshot's full name");
                self.admin.delete_snapshot(&self.volume, name)?;
            }
            let name = format!("snap{}", done.taken + 1);
            let Some((taken, took)) = self.take(&name)? else { return Ok(done) };
            done.taken += 1;
            done.longest = done.longest.max(took);
            self.tell(format!("{} taken in {:.1} ms", taken.export, took.as_secs_f64() * 1e3));
            let readback = Readback {
                socket: &self.socket,
                export: &taken.export,
                content: self.content,
                versions: &taken.versions,
                depth: DEPTH_UNDER_LOAD,
                tally: &self.tally,
            };
            if readback.part(0..self.deal.blocks())? {
                done.read_back += 1;
                let blocks = self.deal.blocks();
                self.tell(format!("{} read back, {}", taken.export, count(blocks, "block")));
            }
            done.kept = Some(taken);
        }
    }

    /// Takes one; `None` if the writers have stopped meanwhile.
    fn take(&self, name: &str) -> Result<Option<(Taken, Duration)>> {
        let Some(acknowledged) = self.ask_writers(Note::Acknowledged) else { return Ok(None) };
        let began = Instant::now();
        self.admin
            .create_snapshot(&self.volume, name)
            .with_context(|| format!("taking snapshot {name}"))?;
        let took = began.elapsed();
        let Some(sent) = self.ask_writers(Note::Sent) else { return Ok(None) };
        let versions = Versions::between(&self.deal, &acknowledged, &sent);
        Ok(Some((Taken { export: format!("{}@{name}", self.volume), versions }, took)))
    }

    fn ask_writers(
        &self,
        note: impl Fn(Sender<(usize, Vec<u32>)>) -> Note,
    ) -> Option<Vec<Vec<u32>>> {
        let (to, answers) = mpsc::channel();
        for writer in &self.writers {
            writer.send(note(to.clone())).ok()?;
        }
        drop(to);
        // A writer that ends drops its letter box, and the sender with it.
        let mut tables: Vec<Vec<u32>> = vec![Vec::new(); self.writers.len()];
        let mut heard = 0;
        for (writer, versions) in answers {
            tables[writer] = versions;
            heard += 1;
        }
        (heard == self.writers.len()).then_some(tables)
    }

    fn tell(&self, news: String) {
        // Nobody listens once the load is over.
        let _ = self.news.send(news);
    }
}
