//! A store whose clients are recorded.

use std::rc::Rc;

use bytes::Bytes;
use mjolnir_store::{Chunks, Durability, Error, Extent, Op, Store, TargetInfo, ZeroMode};
use mjolnir_units::TreeId;
use mjolnir_workload::Op as Asked;

use super::Recorder;

/// A store as one client sees it, which reports every read, write, trim, zeroing and flush to a
/// [`Recorder`]. The recorder's format has no extents, cache hints and atomic vectors: these are
/// not recorded.
#[derive(Clone, Debug)]
pub struct Recorded<S> {
    store: S,
    recorder: Rc<Recorder>,
    /// The client's target: flushes are recorded for it.
    target: TreeId,
}

impl<S> Recorded<S> {
    /// The store, for a client of `target`.
    pub fn new(store: S, recorder: Rc<Recorder>, target: TreeId) -> Self {
        Recorded { store, recorder, target }
    }
}

impl<S: Store> Store for Recorded<S> {
    fn targets(&self) -> Vec<TargetInfo> {
        self.store.targets()
    }

    fn find(&self, name: &str) -> Result<TargetInfo, Error> {
        self.store.find(name)
    }

    fn info(&self, id: TreeId) -> Result<TargetInfo, Error> {
        self.store.info(id)
    }

    async fn read(&self, id: TreeId, offset: u64, length: u64) -> Result<Chunks, Error> {
        let asked = self.recorder.note(&self.store, id, Asked::Read, (offset, length), false);
        let chunks = self.store.read(id, offset, length).await?;
        super::end(asked);
        Ok(chunks)
    }

    async fn write(
        &self,
        id: TreeId,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<(), Error> {
        let (range, durable) = ((offset, data.len() as u64), durability == Durability::Durable);
        let asked = self.recorder.note(&self.store, id, Asked::Write, range, durable);
        self.store.write(id, offset, data, durability).await?;
        super::end(asked);
        Ok(())
    }

    async fn write_zeroes(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        mode: ZeroMode,
        durability: Durability,
    ) -> Result<(), Error> {
        let (range, durable) = ((offset, length), durability == Durability::Durable);
        let asked = self.recorder.note(&self.store, id, Asked::WriteZeroes, range, durable);
        self.store.write_zeroes(id, offset, length, mode, durability).await?;
        super::end(asked);
        Ok(())
    }

    async fn trim(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
    ) -> Result<(), Error> {
        let (range, durable) = ((offset, length), durability == Durability::Durable);
        let asked = self.recorder.note(&self.store, id, Asked::Trim, range, durable);
        self.store.trim(id, offset, length, durability).await?;
        super::end(asked);
        Ok(())
    }

    async fn flush(&self) -> Result<(), Error> {
        let asked = self.recorder.note(&self.store, self.target, Asked::Flush, (0, 0), false);
        self.store.flush().await?;
        super::end(asked);
        Ok(())
    }

    async fn extents(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        limit: usize,
    ) -> Result<Vec<Extent>, Error> {
        self.store.extents(id, offset, length, limit).await
    }

    async fn cache(&self, id: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        self.store.cache(id, offset, length).await
    }

    async fn atomic(&self, ops: Vec<Op>, durability: Durability) -> Result<(), Error> {
        self.store.atomic(ops, durability).await
    }

    fn atomic_limit(&self) -> (usize, u64) {
        self.store.atomic_limit()
    }
}
