//! `mjolnir demo`: the main job, made visible. It makes a store in a file, serves a volume over
//! NBD on a unix socket, drives a mixed overwrite load through that socket until reclaim works
//! hard, takes and reads back snapshots meanwhile, shows the six panels of the paper's Figure 2,
//! verifies every block, restarts the store, verifies every block again, and cleans up.
//!
//! The engine runs on a thread of its own, as in `mjolnir serve`; all else talks to it through the
//! socket, but for what only an operator can do (snapshots, statistics, the check), which goes
//! through a channel.
//!
//! **Leaves out** everything about real stores: the demo touches no file but those it makes.

#![allow(clippy::disallowed_methods)] // The outside world: clients have threads and clocks.

mod client;
mod content;
mod load;
mod panels;
mod place;
mod random;
mod readback;
mod sample;
mod server;
mod snapshots;
mod summary;
mod tally;
mod versions;
mod view;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use content::Content;
use load::{Load, Loaded};
use mjolnir_engine::OpenOptions;
use mjolnir_units::ByteSize;
use place::Place;
use readback::{DEPTH, Readback};
use server::{NewStore, Server};
use summary::Summary;
use tally::Tally;
use versions::{Deal, Versions};
use view::{View, say};

use crate::interrupt;
use crate::output;

/// What can be chosen.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoOptions {
    /// How long clients write; verifying everything at the end takes longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 45,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Size of the store's file; its volume is two fifths of that.
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    pub size: ByteSize,
    /// Where to make the file; by default where temporary files go, if that is on a disk.
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// Print plain lines rather than draw panels.
    #[arg(long)]
    pub plain: bool,
    /// Determines what clients do, and what blocks hold.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// Smaller stores have too few segments, or too small ones, to show anything.
const STORE_BYTES_MIN: u64 = 128 << 20;
/// Segments in a store, if their size allows.
const SEGMENTS: u64 = 128;
/// The smallest and largest segment.
const SEGMENT_BYTES: (u64, u64) = (1 << 20, 64 << 20);
/// Clients that write at the same time.
const WRITERS: u64 = 4;
/// The volume's name.
const VOLUME: &str = "demo";

/// Runs the demo. With `json` it prints nothing but its summary, as one JSON object.
///
/// # Errors
///
/// There is no room, something failed, or something read back was wrong. The files are removed
/// all the same.
pub fn run(options: DemoOptions, json: bool) -> Result<()> {
    let bytes = options.size.0;
    ensure!(
        bytes >= STORE_BYTES_MIN,
        "a store of {} is too small for the demo; --size must be at least {}",
        options.size,
        ByteSize(STORE_BYTES_MIN)
    );
    // Before there are files: who interrupts leaves none behind.
    let interrupted = interrupt::requested(|signal| 128 + signal);
    let tally = Arc::new(Tally::new(interrupted.context("listening for signals")?));
    let place = Place::find(options.dir.as_deref(), bytes)?;
    let demo = Demo { deal: Deal::of(bytes / 5 * 2, WRITERS), options, json, place, tally };
    let outcome = demo.run();
    let interrupted = demo.tally.is_interrupted();
    let Demo { place, tally, .. } = demo;
    place.remove()?;
    if interrupted {
        return Err(Interrupted.into());
    }
    let summary = outcome.map_err(|error| match tally.wrong() {
        (0, _) => error,
        (wrong, findings) => error.context(format!(
            "wrong: {}: {}",
            output::count(wrong, "block"),
            findings.join("; ")
        )),
    })?;
    if json {
        say(&serde_json::to_string_pretty(&summary.figures())?);
    } else {
        say(&summary.to_string());
    }
    ensure!(
        summary.all_right(),
        "what was read back is not what was written, or the store is damaged"
    );
    Ok(())
}

/// A signal came.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; the files are removed")
    }
}

impl std::error::Error for Interrupted {}

struct Demo {
    options: DemoOptions,
    json: bool,
    deal: Deal,
    place: Place,
    tally: Arc<Tally>,
}

impl Demo {
    fn run(&self) -> Result<Summary> {
        let server = self.start(true)?;
        let length = Duration::from_secs(self.options.seconds);
        let mut view = match self.json {
            true => View::silent(),
            false => View::new(self.options.plain, self.head(), length),
        };
        let load = Load {
            admin: server.admin().clone(),
            socket: self.place.socket(),
            volume: VOLUME.into(),
            deal: self.deal,
            content: self.content(),
            tally: self.tally.clone(),
            length,
        };
        let Loaded { written, snapshots, utilization_max, share_max } = match load.run(&mut view) {
            Ok(loaded) => loaded,
            // If the server is gone, its own words say more than the clients'.
            Err(error) if server.admin().stats().is_err() => {
                return Err(server.why_gone().context(format!("{error:#}")));
            }
            Err(error) => return Err(error),
        };
        let stats = server.admin().stats()?;
        let tables: Vec<Vec<u32>> = written.iter().map(|w| w.versions.clone()).collect();
        let versions = Versions::exact(&self.deal, &tables);

        ensure!(!self.tally.is_interrupted(), Interrupted);
        view.tell("the load is over: reading every block back".into());
        self.read_back(VOLUME, &versions)?;
        let mut problems = server.admin().check()?.problems;

        view.tell("closing the store, and opening it again".into());
        let began = Instant::now();
        server.close()?;
        let server = self.start(false)?;
        let restart = began.elapsed();
        view.tell("reading every block back once more".into());
        self.read_back(VOLUME, &versions)?;
        if let Some(kept) = &snapshots.kept {
            self.read_back(&kept.export, &kept.versions)?;
        }
        problems.extend(server.admin().check()?.problems);
        server.close()?;

        let (blocks_wrong, findings) = self.tally.wrong();
        problems.splice(0..0, findings);
        Ok(Summary {
            written,
            snapshots,
            stats,
            utilization_max,
            share_max,
            longest_pause: self.tally.longest_pause(),
            restart,
            blocks_verified: self.tally.blocks_verified.load(Relaxed),
            blocks_wrong,
            problems,
        })
    }

    /// Starts the server: on a new store, or on what it left.
    fn start(&self, new: bool) -> Result<Server> {
        let bytes = self.options.size.0;
        let mut open = OpenOptions::default();
        // In proportion to the store, so that a small one behaves as a large one does.
        open.dirty_bytes_max = open.dirty_bytes_max.min(bytes / 32);
        open.checkpoint_bytes = open.checkpoint_bytes.min(bytes / 16);
        let (least, most) = SEGMENT_BYTES;
        let new = new.then(|| NewStore {
            bytes,
            segment_bytes: 1 << (bytes / SEGMENTS).clamp(least, most).ilog2(),
            volume: (VOLUME.into(), self.deal.bytes()),
        });
        Server::start(&self.place.store(), &self.place.socket(), open, new)
    }

    fn read_back(&self, export: &str, versions: &Versions) -> Result<()> {
        let (socket, content) = (&self.place.socket(), self.content());
        let tally = &self.tally;
        let whole = Readback { socket, export, content, versions, depth: DEPTH, tally }.all()?;
        ensure!(whole, "interrupted while reading {export} back");
        Ok(())
    }

    fn content(&self) -> Content {
        Content { seed: self.options.seed }
    }

    fn head(&self) -> String {
        format!(
            "Mjolnir demo, {} s: {WRITERS} clients write to {} of a {} store over NBD (seed {}, {})",
            self.options.seconds,
            ByteSize(self.deal.bytes()),
            self.options.size,
            self.options.seed,
            self.place.socket().display(),
        )
    }
}
