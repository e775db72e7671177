//! The engine as a Store.

use std::ops::Range;

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::{
    Chunk, Chunks, Durability, Error, ErrorKind, Extent, Mapping, Op, Store, TargetInfo, ZeroMode,
};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Lba, TreeId};

use crate::engine::{Engine, State};
use crate::format::record::{REMAPS_MAX, Record, Remap};
use crate::reclaim::yield_now;
use crate::remap::blocks_of;

/// The most payload in one atomic vector.
const ATOMIC_BYTES_MAX: u64 = 64 << 20;
/// Extents that are listed at once where there may be any number.
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
        // An empty write makes what came before it durable all the same.
        let before = self.state().log.sequence;
        let sequence = self.write_bytes(id, offset, data).await?.max(before);
        self.settle(sequence, durability).await?;
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
            return self.settle(before, durability).await;
        }
        let sequence = self.zero_bytes(id, offset, length).await?;
        self.settle(sequence, durability).await
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
        self.settle(sequence, durability).await?;
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
                // All of it may be in memory, and be millions of runs.
                yield_now().await;
            }
            // A leaf's worth at a time: a run of many addresses is one extent here.
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
        // Brings the map's nodes and the checksums in; data itself is cached by the device, if at
        // all.
        self.state().check_read(id, offset, length)?;
        let mut at = offset;
        loop {
            // It may have shrunk.
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
        self.settle(sequence, durability).await?;
        let took = self.runtime().now() - begun;
        self.state().counters.atomic_latency.add(took);
        Ok(())
    }

    fn atomic_limit(&self) -> (usize, u64) {
        (REMAPS_MAX, ATOMIC_BYTES_MAX)
    }
}

/// The tree that stands for the staged one until it exists. No tree of a client has this id.
const STAGED: TreeId = TreeId(0);

fn no_tree_0() -> Error {
    Error::new(ErrorKind::NotFound, "there is no volume with the id 0")
}

/// A tree of staged blocks that no record has taken over yet. It is dropped with this, however the
/// operation ends; after a crash, recovery drops it.
pub(crate) struct Staged<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    pub tree: TreeId,
    taken_over: bool,
}

impl<D: Device, R: Runtime> Staged<D, R> {
    pub fn taken_over(mut self) {
        self.taken_over = true;
    }
}

impl<D: Device, R: Runtime> Drop for Staged<D, R> {
    fn drop(&mut self) {
        if !self.taken_over {
            let (engine, tree) = (self.engine.clone(), self.tree);
            self.engine.spawn(async move {
                // Where this fails the store takes no more changes: the next recovery drops it.
                let _ = engine.log_record(Record::Delete { tree }, |_| Ok(())).await;
            });
        }
    }
}

fn place_staged(remaps: Vec<Remap>, staging: Option<TreeId>) -> Vec<Remap> {
    let place = |remap| match remap {
        Remap::Move { from: STAGED, from_lba, to, to_lba, bytes } => {
            let from = staging.expect("a vector with writes is staged");
            Remap::Move { from, from_lba, to, to_lba, bytes }
        }
        other => other,
    };
    remaps.into_iter().map(place).collect()
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Prepares an atomic vector: it is durable, but not in force until [`commit`](Self::commit)
    /// or [`abort`](Self::abort), through any crash. Returns what to name it by.
    pub async fn prepare(&self, ops: Vec<Op>) -> Result<TreeId, Error> {
        let (remaps, writes) = self.check_vector(ops)?;
        let blocks: u64 = writes.iter().map(|data| data.len() as u64 / BLOCK_SIZE).sum();
        let staged = self.stage(&writes, blocks.max(1)).await?;
        let tree = staged.tree;
        let remaps = place_staged(remaps, Some(tree));
        let check = |state: &mut State| state.check_remaps(&remaps);
        let record = Record::Prepare { transaction: tree, remaps: remaps.clone() };
        let sequence = self.log_record(record, check).await?;
        staged.taken_over();
        self.flush_to(sequence).await?;
        Ok(tree)
    }

    /// Puts a prepared vector in force, durably. If a volume that it names was deleted or shrunk
    /// meanwhile, or has another end than the one that a part of a block reached to, it fails and stays
    /// prepared.
    pub async fn commit(&self, transaction: TreeId) -> Result<(), Error> {
        let record = Record::Commit { transaction };
        let check = |state: &mut State| {
            let at = state.prepared_at(transaction)?;
            let remaps = state.prepared[at].1.clone();
            state.check_remaps(&remaps)
        };
        let sequence = self.log_record(record, check).await?;
        self.flush_to(sequence).await
    }

    /// Forgets a prepared vector, durably.
    pub async fn abort(&self, transaction: TreeId) -> Result<(), Error> {
        let record = Record::Abort { transaction };
        let sequence = self.log_record(record, |_| Ok(())).await?;
        self.flush_to(sequence).await
    }

    /// Vectors that are prepared and wait for [`commit`](Self::commit) or [`abort`](Self::abort).
    pub fn prepared(&self) -> Vec<TreeId> {
        self.state().prepared.iter().map(|(tree, _)| *tree).collect()
    }

    /// Completes an operation as durably as was asked.
    async fn settle(&self, sequence: u64, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Buffered => self.outlive().await,
            Durability::Durable => self.flush_to(sequence).await,
        }
    }

    /// Trims the whole blocks within a range, and with them the last one of the volume if the range reaches
    /// to its end. Returns the record's sequence number, or the newest, and the bytes trimmed.
    pub(crate) async fn trim_within(
        &self,
        tree: TreeId,
        offset: u64,
        end: u64,
    ) -> Result<(u64, Range<u64>), Error> {
        loop {
            let size = self.state().writable(tree)?;
            let start = offset.next_multiple_of(BLOCK_SIZE).min(end);
            let stop = if end == size { end } else { end / BLOCK_SIZE * BLOCK_SIZE };
            if start >= stop {
                return Ok((self.state().log.sequence, start..start));
            }
            let remap = Remap::Trim { tree, lba: start / BLOCK_SIZE, bytes: stop - start };
            let mut is_resized = false;
            let logged = self
                .log_record(Record::Remap(remap), |state| {
                    is_resized = state.writable(tree)? != size;
                    state.check_remaps(&[remap])
                })
                .await;
            match logged {
                // What was its last block may be another one now.
                Err(_) if is_resized && end <= self.state().writable(tree)? => {}
                logged => return Ok((logged?, start..stop)),
            }
        }
    }

    /// Turns operations into remaps from a staged tree, and the payload to stage.
    fn check_vector(&self, ops: Vec<Op>) -> Result<(Vec<Remap>, Vec<Bytes>), Error> {
        if ops.len() > REMAPS_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} operations do not fit one atomic vector; at most {REMAPS_MAX} do",
                    ops.len()
                ),
            ));
        }
        let lba_of = |what: &str, value: u64| {
            if value.is_multiple_of(BLOCK_SIZE) {
                return Ok(value / BLOCK_SIZE);
            }
            Err(Error::new(
                ErrorKind::Invalid,
                format!("{what} {value} is not a multiple of the block size, {BLOCK_SIZE}"),
            ))
        };
        let (mut remaps, mut writes, mut staged) = (Vec::new(), Vec::new(), 0);
        for op in ops {
            remaps.push(match op {
                Op::Write { to, offset, data } => {
                    let to_lba = lba_of("the offset", offset)?;
                    let bytes = data.len() as u64;
                    if bytes == 0 {
                        // Nothing to stage; the target is checked all the same.
                        remaps.push(Remap::Trim { tree: to, lba: to_lba, bytes });
                        continue;
                    }
                    let remap = Remap::Move { from: STAGED, from_lba: staged, to, to_lba, bytes };
                    staged += blocks_of(bytes);
                    writes.extend(in_blocks(data));
                    remap
                }
                Op::Trim { of, offset, length } => {
                    Remap::Trim { tree: of, lba: lba_of("the offset", offset)?, bytes: length }
                }
                Op::Clone { from, from_offset, to, to_offset, length } => Remap::Clone {
                    from,
                    from_lba: lba_of("the offset", from_offset)?,
                    to,
                    to_lba: lba_of("the offset", to_offset)?,
                    bytes: length,
                },
                Op::Move { from, .. } if from == STAGED => {
                    return Err(self.state().target(from).err().unwrap_or_else(no_tree_0));
                }
                Op::Move { from, from_offset, to, to_offset, length } => Remap::Move {
                    from,
                    from_lba: lba_of("the offset", from_offset)?,
                    to,
                    to_lba: lba_of("the offset", to_offset)?,
                    bytes: length,
                },
            });
        }
        if staged * BLOCK_SIZE > ATOMIC_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} bytes do not fit one atomic vector; at most {ATOMIC_BYTES_MAX} do",
                    staged * BLOCK_SIZE
                ),
            ));
        }
        let mut state = self.state();
        state.check_remaps(&remaps)?;
        Ok((remaps, writes))
    }

    /// Writes payload to a tree that no client sees.
    pub(crate) async fn stage(&self, writes: &[Bytes], blocks: u64) -> Result<Staged<D, R>, Error> {
        let tree = self.state().catalog.next_id()?;
        self.log_record(Record::Stage { tree, blocks }, |_| Ok(())).await?;
        let staged = Staged { engine: self.clone(), tree, taken_over: false };
        let mut lba = 0;
        for data in writes {
            self.write_blocks(tree, lba, data.clone()).await?;
            lba += data.len() as u64 / BLOCK_SIZE;
        }
        Ok(staged)
    }
}

impl State {
    /// Refuses remaps of what is gone, read-only or too short, and those of a part of a block that is not
    /// the last one of each volume.
    fn check_remaps(&mut self, remaps: &[Remap]) -> Result<(), Error> {
        for remap in remaps {
            match *remap {
                Remap::Trim { tree, lba, bytes } => self.check_changed(tree, lba, bytes)?,
                Remap::Clone { from, from_lba, to, to_lba, bytes } => {
                    let offset = from_lba.saturating_mul(BLOCK_SIZE);
                    self.check_read(from, offset, bytes)?;
                    self.check_tail(from, offset, bytes)?;
                    self.check_changed(to, to_lba, bytes)?;
                }
                Remap::Move { from, from_lba, to, to_lba, bytes } => {
                    if from != STAGED {
                        self.check_changed(from, from_lba, bytes)?;
                    }
                    self.check_changed(to, to_lba, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn check_changed(&self, tree: TreeId, lba: u64, bytes: u64) -> Result<(), Error> {
        let offset = lba.saturating_mul(BLOCK_SIZE);
        self.check_write(tree, offset, bytes)?;
        self.check_tail(tree, offset, bytes)
    }

    /// Refuses a part of a block, unless it is all that a volume has of its last one. What is staged has
    /// zeroes behind it.
    fn check_tail(&self, tree: TreeId, offset: u64, bytes: u64) -> Result<(), Error> {
        if bytes.is_multiple_of(BLOCK_SIZE) {
            return Ok(());
        }
        let Ok(target) = self.target(tree) else { return Ok(()) };
        if offset + bytes == target.size {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the length {bytes} is not a multiple of the block size, {BLOCK_SIZE}, and the range does \
                 not reach to the end of {}, {} bytes",
                target.name, target.size
            ),
        ))
    }
}

/// What is to be staged: a part of a block at the end gets zeroes behind it.
fn in_blocks(mut data: Bytes) -> impl Iterator<Item = Bytes> {
    let whole = data.split_to(data.len() / BLOCK_BYTES * BLOCK_BYTES);
    let mut padded = AlignedBuf::zeroed(if data.is_empty() { 0 } else { BLOCK_BYTES });
    padded.as_mut()[..data.len()].copy_from_slice(&data);
    [whole, padded.freeze()].into_iter().filter(|piece| !piece.is_empty())
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
