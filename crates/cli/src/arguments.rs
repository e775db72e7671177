//! The command line: help, completions and man pages all come from these definitions.

mod hint;
pub mod policy;
mod serve;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use mjolnir_store::{TransactionId, VolumeRange};

pub use hint::hinted;
pub use serve::{Io, ServeOptions, When};
pub use values::{NbdAddress, Place, SnapshotName, parse_op, size};

use crate::request::RangeOp;

const EXAMPLES: &str = "\
Examples:
  mjolnir format s.mj --size 16G                  make a store in a file
  mjolnir volume create s.mj v --size 64G         make a volume, thin: larger than the store
  mjolnir serve s.mj --nbd unix:s.sock            serve all volumes over NBD
  mjolnir snapshot create s.mj v@monday           take a snapshot, while serving or not
  mjolnir clone s.mj v@monday w                   make a writable copy of it
  mjolnir range clone s.mj v:0+1M w:4M            share a range between volumes
  mjolnir stats s.mj                              space, write amplification, latencies
  mjolnir record start s.mj a.mjtrace             record what clients ask for
  mjolnir check s.mj                              check the structure of the store
  mjolnir salvage s.mj                            accept what damage took, and go on
  mjolnir advise a.mjtrace --quick                which policies suit that load?
  mjolnir lab run all --quick                     run the lab's experiments, and report

Every command works the same on a store at rest and on one being served. `format` and `salvage`
alone refuse the latter, `record` the former, and `check` says what it left out.

Sizes take units of 1024: 4096, 64K, 10M, 16G, 1T. Ranges are VOLUME:OFFSET+LENGTH, such as
v:1G+64K; a snapshot is VOLUME@NAME.

Exit status: 0 if all went well; 1 if the command was refused or failed, or found damage or
problems; 2 if the command line is wrong; 130 if `gc run`, `lab`, `advise` or `demo` was
interrupted.";

/// A log-structured block store for flash that collects its own garbage.
#[derive(Debug, Parser)]
#[command(name = "mjolnir", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Arguments {
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an empty store in a file or on a block device.
    Format(FormatOptions),
    /// Serve a store's volumes and snapshots over NBD.
    Serve(ServeOptions),
    #[command(flatten)]
    Store(StoreCommand),
    /// Describe a block trace, or convert it to another format.
    #[command(subcommand)]
    Trace(crate::trace::TraceCommand),
    /// Tell which placement, victim policy and spare space suit a trace, and what that wins.
    Advise(Box<crate::advise::AdviseOptions>),
    /// Run experiments on simulated flash, in virtual time, and report on them.
    #[command(subcommand)]
    Lab(crate::lab::LabCommand),
    /// Print completions for a shell.
    ///
    /// For bash: `mjolnir completions bash > /etc/bash_completion.d/mjolnir`.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command to a folder.
    Man {
        /// Write `mjolnir.1`, `mjolnir-format.1` and so on to this folder.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Make a store with a damaged log open again, and accept the loss.
    ///
    /// Reports the loss, as briefly as `check` does. Then returns the store to its state before the
    /// damaged part of the log was written. Later writes are gone for good: if the medium may yet
    /// become readable, copy the store's file first. A store that opens does not change.
    Salvage {
        /// The store.
        store: PathBuf,
    },
    /// Show how this store works, in a minute, on a store of its own.
    Demo(crate::demo::DemoOptions),
}

/// Options of `format`.
#[derive(Debug, Args)]
pub struct FormatOptions {
    /// The file to make, or the block device to use.
    pub store: PathBuf,
    /// Size of the store [default for a block device: all of it].
    #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    pub size: Option<u64>,
    /// Size of a segment, the unit of reclaim [default: 128M, less for small stores].
    #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    pub segment_size: Option<u64>,
    /// Reserve all space on the file system now. Otherwise the file is sparse, and writes fail when
    /// its disk is full.
    #[arg(long)]
    pub preallocate: bool,
    /// Destroy the present content of the file or device.
    #[arg(long)]
    pub force: bool,
}

/// Commands for a store at rest or served.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Make, list and change volumes.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Take, list, compare, restore and delete snapshots.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Make a writable copy of a volume or snapshot; takes no space and no time.
    Clone {
        /// The store.
        store: PathBuf,
        /// A volume, or a snapshot as VOLUME@NAME.
        source: String,
        /// Name of the new volume.
        new: String,
    },
    /// Clone, move, trim and write ranges, one or many at once.
    #[command(subcommand)]
    Range(RangeCommand),
    /// List, commit, abort and forget transactions over several stores.
    #[command(subcommand)]
    Transaction(TransactionCommand),
    /// Record the requests of a server's clients.
    #[command(subcommand)]
    Record(RecordCommand),
    /// Run reclaim, or show its state.
    #[command(subcommand)]
    Gc(GcCommand),
    /// Show space, write amplification, memory, reclaim and latencies.
    ///
    /// Counts begin when a store is opened: for a store at rest they cover this command only.
    Stats {
        /// The store.
        store: PathBuf,
    },
    /// Read everything and verify it against its checksums.
    ///
    /// Names damaged blocks and lost ranges of volumes: the first 20 and the number of all; --json
    /// lists each. Exits with 1 if there are any.
    Scrub {
        /// The store.
        store: PathBuf,
        /// Then try the segments that are out of use because the device failed to write to them. Each
        /// is written and read in whole; those that work are used again.
        #[arg(long)]
        retry_bad: bool,
    },
    /// Check the structure of the store, without reading the data.
    ///
    /// Works even on a store too damaged to open. Names the places of the damage, and the volumes
    /// and ranges that it hits: the first 20 and the total; --json lists each. Changes nothing.
    /// Exits with 1 if there are problems. On a served store, skips the checks that need a store at
    /// rest, and says so.
    Check {
        /// The store.
        store: PathBuf,
    },
    /// Enlarge the store.
    ///
    /// A file grows by itself; enlarge a block device or logical volume first. Repeat an
    /// interrupted command to finish it: it reports all that was added. The present size adds
    /// nothing.
    Grow {
        /// The store.
        store: PathBuf,
        /// The new total size.
        #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
        size: u64,
    },
    /// Write a checkpoint now, so that the next opening has nothing to replay.
    Checkpoint {
        /// The store.
        store: PathBuf,
    },
}

/// Commands for volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Make an empty volume. It is thin: it takes space only for data written.
    Create {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Its size, any multiple of 512 up to 256T; may exceed the store's size.
        #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
        size: u64,
    },
    /// List volumes.
    List {
        /// The store.
        store: PathBuf,
        /// Tell how many bytes each has mapped; walks their maps.
        #[arg(long)]
        mapped: bool,
    },
    /// Delete a volume. Its space comes back gradually.
    ///
    /// One that clients use stays, unless told otherwise.
    Delete {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Delete its snapshots, too.
        #[arg(long)]
        snapshots: bool,
        /// Though clients use it: their requests fail from then on.
        #[arg(long)]
        force: bool,
    },
    /// Rename a volume. Its clients stay connected.
    Rename {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Its new name.
        new: String,
    },
    /// Grow a volume, or shrink it with --shrink. Data past a smaller size is lost.
    ///
    /// Connected clients see a larger size only when they connect again. Refuses to shrink a volume
    /// in use, unless --force is given.
    Resize {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Its new size, any multiple of 512.
        #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
        size: u64,
        /// Accept a smaller size, and lose the data past it.
        #[arg(long)]
        shrink: bool,
        /// Shrink a volume in use: its clients' requests past the new end fail.
        #[arg(long, requires = "shrink")]
        force: bool,
    },
}

/// Commands for snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Take a snapshot of all writes acknowledged before.
    ///
    /// Several snapshots are taken at one instant, all or none. Use this for volumes that belong
    /// together, such as a database's data and its log.
    Create {
        /// The store.
        store: PathBuf,
        /// VOLUME@NAME; at most 16.
        #[arg(required = true, value_name = "SNAPSHOT")]
        snapshots: Vec<SnapshotName>,
    },
    /// List snapshots.
    List {
        /// The store.
        store: PathBuf,
        /// Only this volume's snapshots.
        volume: Option<String>,
        /// Tell how many bytes each has mapped; walks their maps.
        #[arg(long)]
        mapped: bool,
    },
    /// Delete a snapshot. Its space comes back gradually.
    ///
    /// One that clients use stays, unless told otherwise.
    Delete {
        /// The store.
        store: PathBuf,
        /// VOLUME@NAME.
        snapshot: SnapshotName,
        /// Though clients use it: their requests fail from then on.
        #[arg(long)]
        force: bool,
    },
    /// Give a volume the content and size of a snapshot. The snapshot stays.
    ///
    /// Later writes are lost, unless another snapshot has them. Refuses a volume in use, unless
    /// --force is given.
    Restore {
        /// The store.
        store: PathBuf,
        /// VOLUME@NAME.
        snapshot: SnapshotName,
        /// Restore a volume in use: its content changes under its clients.
        #[arg(long)]
        force: bool,
    },
    /// List the ranges that differ between two volumes or snapshots.
    Diff {
        /// The store.
        store: PathBuf,
        /// The older target: a volume, or VOLUME@NAME.
        old: String,
        /// The newer target [default: the volume of the older target].
        new: Option<String>,
    },
}

/// Commands for transactions. A coordinator prepares them on several stores; if it fails, they may
/// stay undecided.
#[derive(Debug, Subcommand)]
pub enum TransactionCommand {
    /// List transactions: the prepared ones with their changes, and those remembered as committed.
    List {
        /// The store.
        store: PathBuf,
    },
    /// Commit a prepared transaction.
    ///
    /// Do so if another store of the same transaction has committed it.
    Commit {
        /// The store.
        store: PathBuf,
        /// The transaction's id, up to 32 hexadecimal digits.
        id: TransactionId,
    },
    /// Drop a prepared transaction and its staged data.
    ///
    /// Do so only if no other store of the same transaction has committed it.
    Abort {
        /// The store.
        store: PathBuf,
        /// The transaction's id, up to 32 hexadecimal digits.
        id: TransactionId,
    },
    /// Forget that a transaction was committed.
    ///
    /// Do so when every store of the transaction has committed it. A store remembers at most 1,024
    /// committed transactions.
    Forget {
        /// The store.
        store: PathBuf,
        /// The transaction's id, up to 32 hexadecimal digits.
        id: TransactionId,
    },
}

/// Commands for ranges. All offsets are multiples of 4 KiB, and so are lengths, unless the range
/// ends at the end of each of its volumes.
#[derive(Debug, Subcommand)]
pub enum RangeCommand {
    /// Make a range of a volume share the blocks of another; no data is copied.
    Clone {
        /// The store.
        store: PathBuf,
        /// VOLUME:OFFSET+LENGTH, or VOLUME@NAME:OFFSET+LENGTH.
        source: VolumeRange,
        /// VOLUME:OFFSET.
        to: Place,
    },
    /// As clone, and the source becomes a hole.
    Move {
        /// The store.
        store: PathBuf,
        /// VOLUME:OFFSET+LENGTH.
        source: VolumeRange,
        /// VOLUME:OFFSET.
        to: Place,
    },
    /// Free a range; it reads as zeroes.
    Trim {
        /// The store.
        store: PathBuf,
        /// VOLUME:OFFSET+LENGTH.
        range: VolumeRange,
    },
    /// Write a whole file to a volume, wholly or not at all: at most 64 MiB.
    Write {
        /// The store.
        store: PathBuf,
        /// The file: whole blocks, or as long as the rest of the volume.
        file: PathBuf,
        /// VOLUME:OFFSET.
        to: Place,
    },
    /// Apply several operations, in order, wholly or not at all.
    ///
    /// Operations are written `clone:SOURCE=PLACE`, `move:SOURCE=PLACE`, `trim:RANGE` and
    /// `write:FILE=PLACE`, for example: mjolnir range atomic s.mj clone:v:0+4K=w:8K trim:v:0+1M
    /// write:data.bin=v:2M
    ///
    /// At most 100 operations, which write at most 64 MiB.
    Atomic {
        /// The store.
        store: PathBuf,
        /// Operations.
        #[arg(value_parser = parse_op, required_unless_present = "file", value_name = "OPERATION")]
        ops: Vec<RangeOp>,
        /// Read them from a JSON file (`-` for standard input), such as
        /// [{"clone": {"from": "v:0+4K", "to": "w:8K"}}, {"trim": "v:0+1M"},
        /// {"write": {"from": "data.bin", "to": "v:2M"}}].
        #[arg(long, value_name = "FILE", conflicts_with = "ops")]
        file: Option<PathBuf>,
    },
}

/// Commands for the recorder of a served store.
#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Begin to record the requests of NBD clients, with times, as `serve --record` does.
    ///
    /// Records reads, writes, trims, zeroing and flushes, but no data; `mjolnir trace info` reads
    /// the file. The server writes the file, and closes it at `record stop` or at its own end.
    Start {
        /// The store.
        store: PathBuf,
        /// The file.
        file: PathBuf,
        /// Replace an older recording.
        #[arg(long)]
        force: bool,
    },
    /// End the recording.
    Stop {
        /// The store.
        store: PathBuf,
    },
}

/// Commands for reclaim.
#[derive(Debug, Subcommand)]
pub enum GcCommand {
    /// Reclaim all space that can be won, now. If interrupted, it reports the space won so far.
    Run {
        /// The store.
        store: PathBuf,
    },
    /// Show the past and present work of reclaim.
    Status {
        /// The store.
        store: PathBuf,
    },
}
