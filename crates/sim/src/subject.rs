//! What the simulator asks of a store under test: the adapter between the lab and the engine.

use std::time::Duration;

use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_store::{
    Change, Error, ErrorKind, Member, Store, TargetInfo, TransactionId, TransactionState,
};
use mjolnir_vtime::SimRuntime;

use crate::SimDisk;

/// Choices for one life of a store.
#[derive(Clone, Debug, Default)]
pub struct SubjectOptions {
    /// A full mark before each sweep proves that nothing refers to the segment.
    pub paranoid: bool,
    /// Streams that client writes are spread over; several segments are open at once.
    pub streams: u8,
    /// The placement policy's name; `None` for the default.
    pub placement: Option<&'static str>,
    /// Log bytes after which a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// Bytes of map nodes and the like that may be kept in memory.
    pub memory_bytes: u64,
    /// Bytes of acknowledged writes that may wait in memory.
    pub dirty_bytes: u64,
    /// Bytes of acknowledged writes that no flush covers, at most.
    pub unflushed_bytes: u64,
    /// How long a group that is not full waits for company: with less, a power cut finds more of them on
    /// their way.
    pub linger: Duration,
}

/// A store that can be made, opened, recovered and closed on a simulated disk. Handles are cheap
/// clones of one another.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Subject: Store + Clone {
    /// Whether it can prepare transactions: then it has the five methods below.
    const IS_MEMBER: bool = false;
    /// See [`mjolnir_store::Member::prepare`].
    async fn prepare(&self, _id: TransactionId, _changes: Vec<Change>) -> Result<(), Error> {
        Err(no_member())
    }
    /// See [`mjolnir_store::Member::commit`].
    async fn commit(&self, _id: TransactionId) -> Result<(), Error> {
        Err(no_member())
    }
    /// See [`mjolnir_store::Member::abort`].
    async fn abort(&self, _id: TransactionId) -> Result<(), Error> {
        Err(no_member())
    }
    /// See [`mjolnir_store::Member::forget`].
    async fn forget(&self, _id: TransactionId) -> Result<(), Error> {
        Err(no_member())
    }
    /// See [`mjolnir_store::Member::transaction`].
    fn transaction(&self, _id: TransactionId) -> TransactionState {
        TransactionState::Unknown
    }
    /// Whether what is done to a volume or snapshot as a whole is durable when it returns.
    const ADMIN_IS_DURABLE: bool;
    /// Makes an empty store.
    async fn format(disk: SimDisk, runtime: SimRuntime) -> Result<(), Error>;
    /// Opens the store, recovering it first if need be.
    async fn open(
        disk: SimDisk,
        runtime: SimRuntime,
        options: &SubjectOptions,
    ) -> Result<Self, Error>;
    /// Ends it in an orderly way; all that was acknowledged is durable then.
    async fn close(&self) -> Result<(), Error>;
    /// Makes a volume of `size` bytes.
    async fn create_volume(&self, name: &str, size: u64) -> Result<TargetInfo, Error>;
    /// Deletes a volume.
    async fn delete_volume(&self, name: &str) -> Result<(), Error>;
    /// Changes a volume's size; bytes past a new end are gone.
    async fn resize_volume(&self, name: &str, size: u64) -> Result<(), Error>;
    /// Makes a volume that holds what `source` (`volume` or `volume@snapshot`) does.
    async fn clone_volume(&self, source: &str, name: &str) -> Result<TargetInfo, Error>;
    /// Makes a snapshot.
    async fn create_snapshot(&self, volume: &str, snapshot: &str) -> Result<TargetInfo, Error>;
    /// Deletes a snapshot.
    async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), Error>;
    /// Makes a volume what its snapshot is.
    async fn restore_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), Error>;
    /// Makes a recovery point.
    async fn checkpoint(&self) -> Result<(), Error>;
    /// Runs one cycle of reclaim.
    async fn collect(&self) -> Result<(), Error>;
    /// Reads and verifies everything; the error names what is damaged.
    async fn scrub(&self) -> Result<(), Error>;
    /// What it knows of itself, for the report of a run that is stuck.
    fn describe(&self) -> String;
    /// Checks the whole structure; the error says what contradicts what.
    async fn check(&self) -> Result<(), Error>;
}

fn no_member() -> Error {
    Error::new(ErrorKind::Unsupported, "this store prepares no transactions")
}

impl Subject for Engine<SimDisk, SimRuntime> {
    const IS_MEMBER: bool = true;
    const ADMIN_IS_DURABLE: bool = true;

    async fn prepare(&self, id: TransactionId, changes: Vec<Change>) -> Result<(), Error> {
        Member::prepare(self, id, changes).await
    }

    async fn commit(&self, id: TransactionId) -> Result<(), Error> {
        Member::commit(self, id).await
    }

    async fn abort(&self, id: TransactionId) -> Result<(), Error> {
        Member::abort(self, id).await
    }

    async fn forget(&self, id: TransactionId) -> Result<(), Error> {
        Member::forget(self, id).await
    }

    fn transaction(&self, id: TransactionId) -> TransactionState {
        Member::transaction(self, id)
    }

    async fn format(disk: SimDisk, runtime: SimRuntime) -> Result<(), Error> {
        Engine::format(disk, runtime, FormatOptions::default()).await
    }

    async fn open(
        disk: SimDisk,
        runtime: SimRuntime,
        options: &SubjectOptions,
    ) -> Result<Self, Error> {
        let options = OpenOptions {
            paranoid: options.paranoid,
            client_streams: options.streams,
            placement: options.placement.unwrap_or("apart").into(),
            checkpoint_bytes: options.checkpoint_bytes,
            memory_bytes: options.memory_bytes,
            dirty_bytes_max: options.dirty_bytes,
            unflushed_bytes_max: options.unflushed_bytes,
            linger: options.linger,
            ..OpenOptions::default()
        };
        Engine::open(disk, runtime, options).await
    }

    async fn close(&self) -> Result<(), Error> {
        Engine::close(self).await
    }

    async fn create_volume(&self, name: &str, size: u64) -> Result<TargetInfo, Error> {
        Engine::create_volume(self, name, size).await
    }

    async fn delete_volume(&self, name: &str) -> Result<(), Error> {
        Engine::delete_volume(self, name, false).await
    }

    async fn resize_volume(&self, name: &str, size: u64) -> Result<(), Error> {
        Engine::resize_volume(self, name, size, true).await.map(drop)
    }

    async fn clone_volume(&self, source: &str, name: &str) -> Result<TargetInfo, Error> {
        Engine::clone_volume(self, source, name).await
    }

    async fn create_snapshot(&self, volume: &str, snapshot: &str) -> Result<TargetInfo, Error> {
        Engine::create_snapshot(self, volume, snapshot).await
    }

    async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), Error> {
        Engine::delete_snapshot(self, volume, snapshot).await
    }

    async fn restore_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), Error> {
        Engine::restore_snapshot(self, volume, snapshot).await.map(drop)
    }

    async fn checkpoint(&self) -> Result<(), Error> {
        Engine::checkpoint(self).await
    }

    async fn collect(&self) -> Result<(), Error> {
        Engine::collect(self).await.map(drop)
    }

    async fn scrub(&self) -> Result<(), Error> {
        let report = Engine::scrub(self, |_| {}).await?;
        match report.losses.first() {
            Some(loss) => Err(Error::new(ErrorKind::Damaged, format!("{loss:?}"))),
            None => Ok(()),
        }
    }

    fn describe(&self) -> String {
        format!("{:?}", self.stats())
    }

    async fn check(&self) -> Result<(), Error> {
        let report = Engine::check(self).await?;
        match report.problems.first() {
            Some(problem) => Err(Error::new(ErrorKind::Damaged, problem.to_string())),
            None => Ok(()),
        }
    }
}
