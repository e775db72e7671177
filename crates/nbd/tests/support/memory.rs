//! A store that is too simple to be wrong: a vector of bytes per volume, and which of its blocks
//! are mapped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bytes::Bytes;
use mjolnir_store::{
    Chunk, Chunks, Durability, Error, ErrorKind, Extent, Mapping, Op, Store, TargetInfo, ZeroMode,
};
use mjolnir_units::{BLOCK_BYTES, TreeId};

/// Volumes in memory. Operations take effect when they are first polled, and complete at once,
/// or after a varying number of turns if `dawdle` is set.
#[derive(Default)]
pub struct MemoryStore {
    volumes: RefCell<BTreeMap<TreeId, Volume>>,
    /// Makes operations finish later, and out of order.
    pub dawdle: Cell<bool>,
    /// Fails the next data operation.
    pub fail_next: RefCell<Option<Error>>,
    /// Fails reads and writes that reach so far, for lack of space.
    pub bad_from: Cell<Option<u64>>,
    /// Never finishes an operation.
    pub hang: Cell<bool>,
    pub flushes: Cell<u64>,
    pub durable_changes: Cell<u64>,
    /// Writes whose payload did not start at a block boundary in memory.
    pub misaligned_payloads: Cell<u64>,
    pub zero_modes: RefCell<Vec<ZeroMode>>,
    /// Ranges of reads and writes, in the order in which they were begun.
    pub ranges: RefCell<Vec<(u64, u64)>>,
    /// Bytes of reads and writes begun and not finished, now and at most.
    pub busy_bytes: Cell<u64>,
    pub busy_bytes_max: Cell<u64>,
    pub busy_count: Cell<usize>,
    pub busy_count_max: Cell<usize>,
    turn: Cell<u64>,
}

struct Volume {
    info: TargetInfo,
    bytes: Vec<u8>,
    mapped: Vec<bool>,
}

impl MemoryStore {
    /// A store with one volume, called `default`.
    pub fn with_default(size: u64) -> Self {
        let store = Self::default();
        store.add("default", size, false);
        store
    }

    /// Adds a volume (or, under the name `volume@snapshot`, a snapshot), all of it a hole.
    pub fn add(&self, name: &str, size: u64, read_only: bool) -> TreeId {
        let id = TreeId(self.volumes.borrow().len() as u32 + 1);
        let info = TargetInfo { name: name.to_owned(), id, size, read_only };
        let bytes = vec![0; size as usize];
        let mapped = vec![false; bytes.len().div_ceil(BLOCK_BYTES)];
        self.volumes.borrow_mut().insert(id, Volume { info, bytes, mapped });
        id
    }

    pub fn remove(&self, id: TreeId) {
        self.volumes.borrow_mut().remove(&id);
    }

    /// What a volume holds, all of it.
    pub fn bytes_of(&self, id: TreeId) -> Vec<u8> {
        self.volumes.borrow()[&id].bytes.clone()
    }

    /// Changes bytes of a volume, or of a snapshot.
    pub fn fill(&self, id: TreeId, offset: usize, data: &[u8]) {
        self.volumes.borrow_mut().get_mut(&id).unwrap().write(offset, data);
    }

    fn with<R>(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        act: impl FnOnce(&mut Volume, usize, usize) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if let Some(error) = self.fail_next.borrow_mut().take() {
            return Err(error);
        }
        let mut volumes = self.volumes.borrow_mut();
        let volume = volumes
            .get_mut(&id)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{id:?} is gone")))?;
        if offset.checked_add(length).is_none_or(|end| end > volume.info.size) {
            return Err(Error::new(ErrorKind::Invalid, format!("{offset}+{length} is too far")));
        }
        act(volume, offset as usize, length as usize)
    }

    /// Notes a read or write, and fails it if it reaches too far.
    fn reach(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.ranges.borrow_mut().push((offset, offset + length));
        if self.bad_from.get().is_some_and(|bad| offset + length > bad) {
            return Err(Error::new(ErrorKind::NoSpace, format!("{offset}+{length} is bad")));
        }
        Ok(())
    }

    fn change<R>(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
        act: impl FnOnce(&mut Volume, usize, usize) -> R,
    ) -> Result<R, Error> {
        if durability == Durability::Durable {
            self.durable_changes.set(self.durable_changes.get() + 1);
        }
        self.with(id, offset, length, |volume, offset, length| {
            if volume.info.read_only {
                return Err(Error::new(ErrorKind::ReadOnly, "a snapshot cannot be changed"));
            }
            Ok(act(volume, offset, length))
        })
    }

    /// Lets others go first, for a while that varies.
    async fn pause(&self, bytes: u64) {
        if self.hang.get() || self.dawdle.get() {
            let _busy = Busy::new(self, bytes);
            if self.hang.get() {
                std::future::pending::<()>().await;
            }
            let turn = self.turn.get().wrapping_mul(6364136223846793005).wrapping_add(1442695);
            self.turn.set(turn);
            for _ in 0..(turn >> 33) % 7 {
                futures_lite::future::yield_now().await;
            }
        }
    }
}

struct Busy<'a>(&'a MemoryStore, u64);

impl<'a> Busy<'a> {
    fn new(store: &'a MemoryStore, bytes: u64) -> Self {
        store.busy_bytes.set(store.busy_bytes.get() + bytes);
        store.busy_bytes_max.set(store.busy_bytes_max.get().max(store.busy_bytes.get()));
        store.busy_count.set(store.busy_count.get() + 1);
        store.busy_count_max.set(store.busy_count_max.get().max(store.busy_count.get()));
        Busy(store, bytes)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy_bytes.set(self.0.busy_bytes.get() - self.1);
        self.0.busy_count.set(self.0.busy_count.get() - 1);
    }
}

impl Volume {
    fn write(&mut self, offset: usize, data: &[u8]) {
        if !data.is_empty() {
            self.bytes[offset..offset + data.len()].copy_from_slice(data);
            self.mapped[offset / BLOCK_BYTES..=(offset + data.len() - 1) / BLOCK_BYTES].fill(true);
        }
    }

    /// Zeroes a range; whole blocks become holes, parts of blocks only if `ends` says so.
    fn zero(&mut self, offset: usize, length: usize, ends: bool) {
        let end = offset + length;
        // The last block of the volume may be a short one: up to its end is whole.
        let whole_end = if end == self.bytes.len() { end } else { end / BLOCK_BYTES * BLOCK_BYTES };
        let whole = offset.next_multiple_of(BLOCK_BYTES)..whole_end;
        if whole.start < whole.end {
            self.bytes[whole.clone()].fill(0);
            self.mapped[whole.start / BLOCK_BYTES..whole.end.div_ceil(BLOCK_BYTES)].fill(false);
        }
        if ends {
            self.bytes[offset..end].fill(0);
        }
    }

    /// The run from `offset` on, at most to `end`, that is mapped alike.
    fn run(&self, offset: usize, end: usize) -> (bool, usize) {
        let first = offset / BLOCK_BYTES;
        let mapped = self.mapped[first];
        let until = end.div_ceil(BLOCK_BYTES);
        let blocks = self.mapped[first..until].iter().take_while(|other| **other == mapped).count();
        (mapped, ((first + blocks) * BLOCK_BYTES).min(end) - offset)
    }
}

impl Store for MemoryStore {
    fn targets(&self) -> Vec<TargetInfo> {
        self.volumes.borrow().values().map(|volume| volume.info.clone()).collect()
    }

    fn find(&self, name: &str) -> Result<TargetInfo, Error> {
        let name = if name.is_empty() { "default" } else { name };
        let found = self.targets().into_iter().find(|info| info.name == name);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no volume called {name:?}")))
    }

    fn info(&self, id: TreeId) -> Result<TargetInfo, Error> {
        self.with(id, 0, 0, |volume, _, _| Ok(volume.info.clone()))
    }

    async fn read(&self, id: TreeId, offset: u64, length: u64) -> Result<Chunks, Error> {
        self.reach(offset, length)?;
        let chunks = self.with(id, offset, length, |volume, mut offset, length| {
            let end = offset + length;
            let mut chunks = Chunks::new();
            while offset < end {
                let (mapped, run) = volume.run(offset, end);
                chunks.push(if mapped {
                    Chunk::Data(Bytes::copy_from_slice(&volume.bytes[offset..offset + run]).into())
                } else {
                    Chunk::Zeroes(run as u64)
                });
                offset += run;
            }
            Ok(chunks)
        });
        self.pause(length).await;
        chunks
    }

    async fn write(
        &self,
        id: TreeId,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<(), Error> {
        if !data.as_ptr().addr().is_multiple_of(BLOCK_BYTES) {
            self.misaligned_payloads.set(self.misaligned_payloads.get() + 1);
        }
        let length = data.len() as u64;
        let done = self.reach(offset, length).and_then(|()| {
            self.change(id, offset, length, durability, |volume, offset, _| {
                volume.write(offset, &data);
            })
        });
        self.pause(length).await;
        done
    }

    async fn write_zeroes(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        mode: ZeroMode,
        durability: Durability,
    ) -> Result<(), Error> {
        self.zero_modes.borrow_mut().push(mode);
        let done = self.change(id, offset, length, durability, |volume, offset, length| {
            volume.zero(offset, length, true);
        });
        self.pause(0).await;
        done
    }

    async fn trim(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
    ) -> Result<(), Error> {
        let done = self.change(id, offset, length, durability, |volume, offset, length| {
            volume.zero(offset, length, false);
        });
        self.pause(0).await;
        done
    }

    async fn flush(&self) -> Result<(), Error> {
        self.flushes.set(self.flushes.get() + 1);
        self.pause(0).await;
        self.fail_next.borrow_mut().take().map_or(Ok(()), Err)
    }

    async fn extents(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        limit: usize,
    ) -> Result<Vec<Extent>, Error> {
        let extents = self.with(id, offset, length, |volume, mut offset, length| {
            let end = offset + length;
            let mut extents = Vec::new();
            while offset < end && extents.len() < limit {
                let (mapped, run) = volume.run(offset, end);
                let mapping = if mapped { Mapping::Data } else { Mapping::Hole };
                extents.push(Extent { length: run as u64, mapping });
                offset += run;
            }
            Ok(extents)
        });
        self.pause(0).await;
        extents
    }

    async fn cache(&self, id: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        self.with(id, offset, length, |_, _, _| Ok(()))
    }

    async fn atomic(&self, _: Vec<Op>, _: Durability) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "this store has no atomic vectors"))
    }

    fn atomic_limit(&self) -> (usize, u64) {
        (0, 0)
    }
}
