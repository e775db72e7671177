//! Implements the `Store` contract.

use bytes::Bytes;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::{
    Chunk, Chunks, Durability, Error, ErrorKind, Extent, Mapping, Op, Store, TargetInfo, ZeroMode,
};
use mjolnir_units::{BLOCK_SIZE, Lba, TreeId};

use crate::client::vectors::{ATOMIC_BYTES_MAX, place_staged};
use crate::drive::{Engine, State};
use crate::format::record::{REMAPS_MAX, Record};
use crate::yielding::yield_now;

/// The largest number of extents listed in one step.
pub(crate) const EXTENTS_AT_ONCE: usize = 4096;

impl<D: Device, R: Runtime> Store for Engine<D, R> {
    fn targets(&self) -> Vec<TargetInfo> {
        let state = self.state();
        let mut targets: Vec<TargetInfo> =
            state.catalog.iter().filter_map(|(tree, _)| state.target(tree).ok()).collect();
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        targets
    }

    fn find(&self, name: &str) -> Result<TargetInfo, Error> {
        let state = self.state();
        if !name.is_empty() {
            return state.target(state.catalog.find(name)?);
        }
        let volumes: Vec<TargetInfo> = state
            .catalog
            .iter()
            .filter_map(|(tree, _)| state.target(tree).ok())
            .filter(|target| !target.read_only)
            .collect();
        let named = volumes.iter().find(|target| target.name == "default");
        match (named, volumes.as_slice()) {
            (Some(default), _) | (None, [default]) => Ok(default.clone()),
            _ => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "there is no default volume: the store has {} volumes and none is named \
                     \"default\"; name the one you want",
                    volumes.len()
                ),
            )),
        }
    }

    fn info(&self, id: TreeId) -> Result<TargetInfo, Error> {
        self.state().target(id)
    }

    async fn read(&self, id: TreeId, offset: u64, length: u64) -> Result<Chunks, Error> {
        let begun = self.runtime().now();
        self.state().check_read(id, offset, length)?;
        if length == 0 {
            return Ok(Chunks::new());
        }
        let first = offset / BLOCK_SIZE;
        let end = (offset + length).div_ceil(BLOCK_SIZE);
        let mut chunks = self.read_blocks(id, first, end - first).await?;
        cut(&mut chunks, offset % BLOCK_SIZE, length);
        let mut state = self.state();
        state.counters.client_read_bytes += length;
        let took = self.runtime().now() - begun;
        state.counters.read_latency.add(took);
        Ok(chunks)
    }

    async fn write(
        &self,
        id: TreeId,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<(), Error> {
        let begun = self.runtime().now();
        self.state().check_write(id, offset, data.len() as u64)?;
        let length = data.len() as u64;
        // A durable empty write still flushes earlier writes.
        let before = self.state().log.sequence;
        let sequence = self.write_bytes(id, offset, data).await?.max(before);
        self.ensure_durability(sequence, durability).await?;
        let mut state = self.state();
        state.counters.client_write_bytes += length;
        let took = self.runtime().now() - begun;
        state.counters.write_latency.add(took);
        Ok(())
    }

    async fn write_zeroes(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        _mode: ZeroMode,
        durability: Durability,
    ) -> Result<(), Error> {
        self.state().check_write(id, offset, length)?;
        if length == 0 {
            let before = self.state().log.sequence;
            return self.ensure_durability(before, durability).await;
        }
        let sequence = self.zero_bytes(id, offset, length).await?;
        self.ensure_durability(sequence, durability).await
    }

    async fn trim(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
    ) -> Result<(), Error> {
        let begun = self.runtime().now();
        self.state().check_write(id, offset, length)?;
        let (sequence, _) = self.trim_within(id, offset, offset + length).await?;
        self.ensure_durability(sequence, durability).await?;
        let took = self.runtime().now() - begun;
        self.state().counters.trim_latency.add(took);
        Ok(())
    }

    async fn flush(&self) -> Result<(), Error> {
        let begun = self.runtime().now();
        let sequence = self.state().log.sequence;
        self.flush_to(sequence).await?;
        let took = self.runtime().now() - begun;
        self.state().counters.flush_latency.add(took);
        Ok(())
    }

    async fn extents(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        limit: usize,
    ) -> Result<Vec<Extent>, Error> {
        self.state().check_read(id, offset, length)?;
        let end = offset + length;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        while at < end {
            if at > offset {
                // The whole map may be in memory, with millions of runs.
                yield_now().await;
            }
            // One leaf's worth at a time. Adjacent runs of different addresses form one extent.
            let runs: Vec<Run> = self
                .step(|state| {
                    state.size(id)?;
                    Ok(state.map.runs(id, Lba(at / BLOCK_SIZE), 1024)?)
                })
                .await?;
            if runs.is_empty() {
                break;
            }
            let mut block = at / BLOCK_SIZE;
            for run in runs {
                block += run.blocks;
                let stop = (block * BLOCK_SIZE).min(end);
                let mapping = if run.pba.is_some() { Mapping::Data } else { Mapping::Hole };
                let full = extents.len() == limit.max(1);
                match extents.last_mut() {
                    Some(last) if last.mapping == mapping => last.length += stop - at,
                    _ if full => return Ok(extents),
                    _ => extents.push(Extent { length: stop - at, mapping }),
                }
                at = stop;
                if at == end {
                    break;
                }
            }
        }
        Ok(extents)
    }

    async fn cache(&self, id: TreeId, offset: u64, length: u64) -> Result<(), Error> {
        // Loads map nodes and checksums. The device caches data, if anything does.
        self.state().check_read(id, offset, length)?;
        let mut at = offset;
        loop {
            // The volume may have shrunk.
            let end = (offset + length).min(self.state().size(id)?);
            if at >= end {
                return Ok(());
            }
            let extents = self.extents(id, at, end - at, EXTENTS_AT_ONCE).await?;
            at += extents.iter().map(|extent| extent.length).sum::<u64>();
        }
    }

    async fn atomic(&self, ops: Vec<Op>, durability: Durability) -> Result<(), Error> {
        let begun = self.runtime().now();
        let (remaps, writes) = self.check_vector(ops)?;
        let blocks: u64 = writes.iter().map(|data| data.len() as u64 / BLOCK_SIZE).sum();
        let staged = match blocks {
            0 => None,
            _ => Some(self.stage(&writes, blocks).await?),
        };
        let staging = staged.as_ref().map(|staged| staged.tree);
        let remaps = place_staged(remaps, staging);
        let check = |state: &mut State| state.check_remaps(&remaps);
        let record = Record::Vector { staging, remaps: remaps.clone() };
        let sequence = self.log_record(record, check).await?;
        if let Some(staged) = staged {
            staged.taken_over();
        }
        self.ensure_durability(sequence, durability).await?;
        let took = self.runtime().now() - begun;
        self.state().counters.atomic_latency.add(took);
        Ok(())
    }

    fn atomic_limit(&self) -> (usize, u64) {
        (REMAPS_MAX, ATOMIC_BYTES_MAX)
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until the record `sequence` is as durable as requested.
    async fn ensure_durability(&self, sequence: u64, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Buffered => self.outlive().await,
            Durability::Durable => self.flush_to(sequence).await,
        }
    }
}

/// Cuts whole-block chunks down to `length` bytes from `skip` on.
fn cut(chunks: &mut Chunks, skip: u64, length: u64) {
    let (mut skip, mut left) = (skip, length);
    chunks.retain(|chunk| {
        let begin = skip.min(chunk.len());
        let end = (begin + left).min(chunk.len());
        skip -= begin;
        left -= end - begin;
        match chunk {
            Chunk::Data(payload) => payload.cut(begin as usize..end as usize),
            Chunk::Zeroes(length) => *length = end - begin,
        }
        end > begin
    });
    debug_assert_eq!(left, 0);
}
