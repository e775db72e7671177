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
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an empty store in a file or on a block device.
    Format(FormatOptions),
    /// Serve a store's volumes and snapshots over NBD.
    Serve(ServeOptions),
    #[command(flatten)]
    Store(StoreCommand),
    /// Tell what is in a block trace, or convert one to another format.
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
    /// Make a store open again whose log is damaged, and accept what is lost.
    ///
    /// Says what is lost, as briefly as `check` does, and then makes the store what it was before the
    /// damaged part of its log was written. What was written later is gone for good, so copy the
    /// store's file first if the medium may yet be made to return it. A store that opens is left as it
    /// is.
    Salvage {
        /// The store.
        store: PathBuf,
    },
    /// Show what this store does, in a minute, on a store of its own.
    Demo(crate::demo::DemoOptions),
}

/// How to make a store.
#[derive(Debug, Args)]
pub struct FormatOptions {
    /// The file to make, or the block device to use.
    pub store: PathBuf,
    /// Size of the store; a block device is used whole unless told otherwise.
    #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    pub size: Option<u64>,
    /// Size of a segment, the unit that is reclaimed [default: 128M, less for small stores].
    #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
    pub segment_size: Option<u64>,
    /// Reserve all space on the file system now. Otherwise the file is sparse, and writes fail
    /// once its disk is full.
    #[arg(long)]
    pub preallocate: bool,
    /// Destroy whatever is there already.
    #[arg(long)]
    pub force: bool,
}

/// What can be asked of a store, at rest or served.
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
    /// Record what clients of a server ask for.
    #[command(subcommand)]
    Record(RecordCommand),
    /// Run reclaim, or tell what it does.
    #[command(subcommand)]
    Gc(GcCommand),
    /// Tell space, write amplification, memory, reclaim and latencies.
    ///
    /// Counts begin when a store is opened: those of a store at rest are of this command alone.
    Stats {
        /// The store.
        store: PathBuf,
    },
    /// Read everything and verify it against its checksums.
    ///
    /// Names damaged blocks, and the ranges of volumes that are lost: the first 20 and how many there
    /// are in all; --json lists each. Exits with 1 if there are any.
    Scrub {
        /// The store.
        store: PathBuf,
    },
    /// Check the structure of the store, without reading the data.
    ///
    /// Works on a store that is too damaged to be opened, too: says where the damage is, and which
    /// volumes and ranges it hits: the first 20 and how much in all; --json lists each. Changes
    /// nothing. Exits with 1 if there are problems. What can only be checked at rest is left out while
    /// the store is served, and the answer says so.
    Check {
        /// The store.
        store: PathBuf,
    },
    /// Enlarge the store.
    ///
    /// A file grows by itself; enlarge a block device or logical volume first. Repeated after it was cut
    /// short it finishes, and tells all that was added; a size that the store has already adds nothing.
    Grow {
        /// The store.
        store: PathBuf,
        /// Its new size in all.
        #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
        size: u64,
    },
    /// Write a checkpoint now, so that the next opening has nothing to replay.
    Checkpoint {
        /// The store.
        store: PathBuf,
    },
}

/// What can be done with volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Make an empty volume. It is thin: it takes space as it is written.
    Create {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Its size, any multiple of 512 up to 256T; may exceed the store's.
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
    /// Delete a volume. Its space comes back by and by.
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
    /// Give a volume another name. Clients that use it go on.
    Rename {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Its new name.
        new: String,
    },
    /// Grow a volume, or shrink it with --shrink. What lies past a smaller size is lost.
    ///
    /// Clients that use it keep the size that they were told: they see a larger one once they
    /// connect again. One that clients use does not become smaller, unless told otherwise.
    Resize {
        /// The store.
        store: PathBuf,
        /// Name of the volume.
        name: String,
        /// Its new size, any multiple of 512.
        #[arg(long, value_parser = size, value_name = "SIZE", allow_hyphen_values = true)]
        size: u64,
        /// Accept a smaller size, and lose what lies past it.
        #[arg(long)]
        shrink: bool,
        /// Make it smaller though clients use it: their requests past its new end fail.
        #[arg(long, requires = "shrink")]
        force: bool,
    },
}

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Take a snapshot of all writes acknowledged before.
    ///
    /// Of several volumes of one machine, such as a database's data and its log, all are taken at one
    /// instant: all of them or none, whatever happens meanwhile.
    Create {
        /// The store.
        store: PathBuf,
        /// VOLUME@NAME; up to 16 of them.
        #[arg(required = true, value_name = "SNAPSHOT")]
        snapshots: Vec<SnapshotName>,
    },
    /// List snapshots.
    List {
        /// The store.
        store: PathBuf,
        /// Only this volume's.
        volume: Option<String>,
        /// Tell how many bytes each has mapped; walks their maps.
        #[arg(long)]
        mapped: bool,
    },
    /// Delete a snapshot. Its space comes back by and by.
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
    /// Give a volume the content and size that it had at a snapshot. The snapshot stays.
    ///
    /// What was written since is lost, unless another snapshot has it. A volume that clients use stays
    /// as it is, unless told otherwise.
    Restore {
        /// The store.
        store: PathBuf,
        /// VOLUME@NAME.
        snapshot: SnapshotName,
        /// Though clients use the volume: its content changes below them.
        #[arg(long)]
        force: bool,
    },
    /// List the ranges that differ between two volumes or snapshots.
    Diff {
        /// The store.
        store: PathBuf,
        /// The older one: a volume, or VOLUME@NAME.
        old: String,
        /// The newer one [default: the volume of the older one].
        new: Option<String>,
    },
}

/// What can be done with transactions. A coordinator prepares them on several stores; one that is gone may leave them
/// without a decision.
#[derive(Debug, Subcommand)]
pub enum TransactionCommand {
    /// List transactions: the prepared ones with what they change, and those that are remembered as committed.
    List {
        /// The store.
        store: PathBuf,
    },
    /// Put a prepared transaction in force.
    ///
    /// Do so if another store of the same transaction has committed it.
    Commit {
        /// The store.
        store: PathBuf,
        /// The transaction's id, up to 32 hexadecimal digits.
        id: TransactionId,
    },
    /// Drop a prepared transaction, with what waits with it.
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
    /// Do so once every store of it has committed it. A store remembers 1,024 of them at most.
    Forget {
        /// The store.
        store: PathBuf,
        /// The transaction's id, up to 32 hexadecimal digits.
        id: TransactionId,
    },
}

/// What can be done with ranges. All offsets are multiples of 4 KiB, and so are lengths, unless the range
/// reaches to the end of each volume that it is in.
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
    /// Give a range back; it reads as zeroes.
    Trim {
        /// The store.
        store: PathBuf,
        /// VOLUME:OFFSET+LENGTH.
        range: VolumeRange,
    },
    /// Write the whole of a file to a volume, wholly or not at all: 64 MiB at most.
    Write {
        /// The store.
        store: PathBuf,
        /// The file; whole blocks, or up to the end of the volume.
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
    /// At most 100 of them, and at most 64 MiB to write.
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

/// What can be asked of the recorder of a store that is being served.
#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Begin to record what NBD clients ask for, and when, as `serve --record` does.
    ///
    /// Reads, writes, trims, zeroing and flushes are recorded, but no data; `mjolnir trace info`
    /// reads the file. The server writes it, and ends it when it is told to or ends itself.
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

/// What can be asked of reclaim.
#[derive(Debug, Subcommand)]
pub enum GcCommand {
    /// Reclaim all that can be won, now. Interrupted, it says what was won by then.
    Run {
        /// The store.
        store: PathBuf,
    },
    /// Tell what reclaim did and does.
    Status {
        /// The store.
        store: PathBuf,
    },
}
