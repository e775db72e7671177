//! A store so plain that it is plainly right: a redo log that is never collected, and everything
//! in memory. With a [`Bug`] it is wrong in one way, which the checkers must catch.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_sim::{SimDisk, Subject, SubjectOptions};
use mjolnir_store::{
    Chunk, Chunks, Durability, Error, ErrorKind, Extent, Mapping, Op, Store, TargetInfo, ZeroMode,
};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, TreeId, ZoneId};
use mjolnir_vtime::SimRuntime;
use serde::{Deserialize, Serialize};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// A flush asks nothing of the device.
    LazyFlush,
    /// A flush does not wait for lower-numbered records that are still being written.
    HastyFlush,
    /// Recovery applies half a block of a record that was cut.
    TornBlock,
    /// Recovery goes on behind a gap.
    SkippedGap,
    /// A read returns what was there before, once in a while.
    StaleRead,
    /// Writes of parts of a block read, wait, and write.
    LostUpdate,
    /// A vector is logged in several records.
    TornVector,
    /// A snapshot is filled only after it was acknowledged.
    LateSnapshot,
    /// A trim is not logged.
    ForgottenTrim,
    /// A deletion is not logged.
    ForgottenDeletion,
    /// A clone takes its source one block further on.
    SkewedClone,
}

thread_local! {
    static BUG: Cell<Bug> = const { Cell::new(Bug::None) };
}

/// From now on stores of this thread have that bug.
pub fn have(bug: Bug) {
    BUG.set(bug);
}

fn bug(which: Bug) -> bool {
    BUG.get() == which
}

#[derive(Clone)]
pub struct Toy(Rc<Inner>);

struct Inner {
    disk: SimDisk,
    runtime: SimRuntime,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    trees: BTreeMap<u32, Tree>,
    next_tree: u32,
    before: BTreeMap<(u32, u64), Vec<u8>>,
    reads: u64,
    // The log.
    generation: u64,
    at: u64,
    end: u64,
    sequence: u64,
    in_flight: BTreeSet<u64>,
}

#[derive(Clone)]
struct Tree {
    name: String,
    size: u64,
    read_only: bool,
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// What records hold. Bytes of writes follow the header block, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    Create { tree: u32, name: String, size: u64, read_only: bool, source: Option<u32> },
    Delete { tree: u32 },
    Resize { tree: u32, size: u64 },
    Restore { tree: u32, from: u32 },
    Write { tree: u32, offset: u64, length: u64 },
    Zero { tree: u32, offset: u64, length: u64 },
    Copy { from: u32, from_offset: u64, to: u32, to_offset: u64, length: u64, moves: bool },
}

#[derive(Serialize, Deserialize)]
struct Header {
    generation: u64,
    sequence: u64,
    steps: Vec<Step>,
    payload: u64,
    payload_sum: u64,
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn error(kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, message)
}

fn io(error: mjolnir_device::DeviceError) -> Error {
    Error::new(ErrorKind::Io, error.context)
}

impl State {
    fn tree(&mut self, id: u32) -> &mut Tree {
        self.trees.get_mut(&id).expect("checked before")
    }

    fn bytes(&self, id: u32, offset: u64, length: u64) -> Vec<u8> {
        let tree = &self.trees[&id];
        let mut bytes = Vec::new();
        for at in offset / BLOCK_SIZE..(offset + length).div_ceil(BLOCK_SIZE) {
            match tree.blocks.get(&at) {
                Some(block) => bytes.extend_from_slice(block),
                None => bytes.resize(bytes.len() + BLOCK_BYTES, 0),
            }
        }
        let skip = (offset % BLOCK_SIZE) as usize;
        bytes[skip..skip + length as usize].to_vec()
    }

    fn put(&mut self, id: u32, offset: u64, bytes: &[u8]) {
        for (index, byte_block) in split(offset, bytes) {
            let at = index.0;
            let old = self.tree(id).blocks.get(&at).cloned();
            let mut block = old.clone().unwrap_or_else(|| vec![0; BLOCK_BYTES]);
            block[index.1..index.1 + byte_block.len()].copy_from_slice(byte_block);
            self.before.insert((id, at), old.unwrap_or_else(|| vec![0; BLOCK_BYTES]));
            self.tree(id).blocks.insert(at, block);
        }
    }

    fn zero(&mut self, id: u32, offset: u64, length: u64) {
        let zeroes = vec![0; length as usize];
        self.put(id, offset, &zeroes);
        let whole = offset.div_ceil(BLOCK_SIZE)..(offset + length) / BLOCK_SIZE;
        whole.for_each(|block| drop(self.tree(id).blocks.remove(&block)));
    }

    fn apply(&mut self, step: &Step, payload: &mut &[u8]) {
        match step.clone() {
            Step::Create { tree, name, size, read_only, source } => {
                let blocks = source.map(|source| self.trees[&source].blocks.clone());
                let blocks = blocks.unwrap_or_default();
                self.trees.insert(tree, Tree { name, size, read_only, blocks });
                self.next_tree = self.next_tree.max(tree + 1);
            }
            Step::Delete { tree } => drop(self.trees.remove(&tree)),
            Step::Resize { tree, size } => {
                let tree = self.tree(tree);
                tree.size = size;
                tree.blocks.retain(|block, _| *block < size.div_ceil(BLOCK_SIZE));
                if let Some(last) = tree.blocks.get_mut(&(size / BLOCK_SIZE)) {
                    last[(size % BLOCK_SIZE) as usize..].fill(0);
                }
            }
            Step::Restore { tree, from } => {
                let (size, blocks) = (self.trees[&from].size, self.trees[&from].blocks.clone());
                let tree = self.tree(tree);
                (tree.size, tree.blocks) = (size, blocks);
            }
            Step::Write { tree, offset, length } => {
                let (bytes, rest) = payload.split_at(length as usize);
                *payload = rest;
                self.put(tree, offset, bytes);
            }
            Step::Zero { tree, offset, length } => self.zero(tree, offset, length),
            Step::Copy { from, from_offset, to, to_offset, length, moves } => {
                let blocks = length / BLOCK_SIZE;
                let source: Vec<Option<Vec<u8>>> = (0..blocks)
                    .map(|at| {
                        self.trees[&from].blocks.get(&(from_offset / BLOCK_SIZE + at)).cloned()
                    })
                    .collect();
                if moves {
                    self.zero(from, from_offset, length);
                }
                for (at, block) in source.into_iter().enumerate() {
                    let at = to_offset / BLOCK_SIZE + at as u64;
                    match block {
                        Some(block) => drop(self.tree(to).blocks.insert(at, block)),
                        None => drop(self.tree(to).blocks.remove(&at)),
                    }
                }
            }
        }
    }

    fn by_name(&self, name: &str) -> Result<u32, Error> {
        let mut trees = self.trees.iter();
        let found = trees.find(|(_, tree)| tree.name == name).map(|(id, _)| *id);
        found.ok_or_else(|| error(ErrorKind::NotFound, "no such target"))
    }

    fn info(&self, id: u32) -> TargetInfo {
        let tree = &self.trees[&id];
        let (name, size, read_only) = (tree.name.clone(), tree.size, tree.read_only);
        TargetInfo { name, id: TreeId(id), size, read_only }
    }
}

/// Cuts bytes at block boundaries: (block, offset within), part.
fn split(offset: u64, mut bytes: &[u8]) -> Vec<((u64, usize), &[u8])> {
    let (mut at, mut parts) = (offset, Vec::new());
    while !bytes.is_empty() {
        let within = (at % BLOCK_SIZE) as usize;
        let (part, rest) = bytes.split_at((BLOCK_BYTES - within).min(bytes.len()));
        parts.push(((at / BLOCK_SIZE, within), part));
        at += part.len() as u64;
        bytes = rest;
    }
    parts
}

type Wait = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

impl Toy {
    fn zone_blocks(&self) -> u64 {
        self.0.disk.info().zone_blocks
    }

    /// Logs and applies steps in one go; the future then waits for the device.
    async fn commit(
        &self,
        steps: Vec<Step>,
        payload: Vec<u8>,
        how: Durability,
    ) -> Result<(), Error> {
        let all = if bug(Bug::TornVector) && steps.len() > 1 {
            let mut rest = &payload[..];
            let mut part = |step: &Step| match step {
                Step::Write { length, .. } => {
                    let (bytes, after) = rest.split_at(*length as usize);
                    rest = after;
                    bytes.to_vec()
                }
                _ => Vec::new(),
            };
            steps.iter().map(|step| (vec![step.clone()], part(step))).collect()
        } else {
            vec![(steps, payload)]
        };
        let mut waits = Vec::new();
        for (steps, payload) in all {
            waits.push(self.log(steps, payload)?);
        }
        for wait in waits {
            wait.await?;
        }
        if how == Durability::Durable { self.flush().await } else { Ok(()) }
    }

    fn log(&self, steps: Vec<Step>, payload: Vec<u8>) -> Result<Wait, Error> {
        let state = &mut *self.0.state.borrow_mut();
        let mut rest = &payload[..];
        steps.iter().for_each(|step| state.apply(step, &mut rest));
        let forgotten = match steps[0] {
            Step::Zero { .. } => bug(Bug::ForgottenTrim),
            Step::Delete { .. } => bug(Bug::ForgottenDeletion),
            _ => false,
        };
        let steps = if forgotten { Vec::new() } else { steps };
        let data = self.encode(state, steps, payload);
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        assert!(blocks <= self.zone_blocks(), "a record longer than a zone");
        let left = self.zone_blocks() - state.at % self.zone_blocks();
        if left < blocks {
            state.at += left;
        }
        if state.at + blocks > state.end {
            return Err(error(ErrorKind::NoSpace, "the log is full"));
        }
        let sequence = state.sequence;
        state.in_flight.insert(sequence);
        let append = Box::pin(self.0.disk.append(Pba(state.at), vec![data]));
        let append: Pin<Box<dyn Future<Output = _>>> = append;
        state.at += blocks;
        state.sequence += 1;
        let toy = self.clone();
        Ok(Box::pin(async move {
            append.await.map_err(io)?;
            toy.0.state.borrow_mut().in_flight.remove(&sequence);
            Ok(())
        }))
    }

    fn encode(&self, state: &State, steps: Vec<Step>, payload: Vec<u8>) -> Bytes {
        let header = Header {
            generation: state.generation,
            sequence: state.sequence,
            steps,
            payload: payload.len() as u64,
            payload_sum: sum(&payload),
        };
        let json = serde_json::to_vec(&header).unwrap();
        assert!(json.len() + 16 <= BLOCK_BYTES, "a header longer than a block");
        let mut bytes = sum(&json).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&json);
        bytes.resize(BLOCK_BYTES, 0);
        bytes.extend_from_slice(&payload);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        Bytes::from(bytes)
    }

    async fn blocks(&self, at: u64, count: u64) -> Result<Vec<u8>, Error> {
        let buffer = AlignedBuf::zeroed(count as usize * BLOCK_BYTES);
        Ok(self.0.disk.read(Pba(at), buffer).await.map_err(io)?.as_ref().to_vec())
    }

    async fn header(&self, at: u64) -> Result<Option<Header>, Error> {
        let block = self.blocks(at, 1).await?;
        let length = u64::from_le_bytes(block[8..16].try_into().unwrap()) as usize;
        let fine =
            length <= BLOCK_BYTES - 16 && block[..8] == sum(&block[16..16 + length]).to_le_bytes();
        Ok(if fine { serde_json::from_slice(&block[16..16 + length]).ok() } else { None })
    }

    async fn replay(&self, start: u64, end: u64, generation: u64) -> Result<(), Error> {
        let zone_blocks = self.zone_blocks();
        let (mut at, mut sequence) = (start, 0);
        while at < end {
            let header = self.header(at).await?.filter(|header| header.generation == generation);
            let left = zone_blocks - at % zone_blocks;
            let Some(header) = header else {
                if bug(Bug::SkippedGap) && at < start + 4 * zone_blocks {
                    at += 1;
                    continue;
                }
                if left == zone_blocks {
                    break;
                }
                at += left;
                continue;
            };
            if header.sequence != sequence && !bug(Bug::SkippedGap) {
                break;
            }
            let count = header.payload.div_ceil(BLOCK_SIZE);
            let mut payload =
                if count > 0 { self.blocks(at + 1, count).await? } else { Vec::new() };
            payload.truncate(header.payload as usize);
            at += 1 + count;
            let whole = sum(&payload) == header.payload_sum;
            if !whole && bug(Bug::TornBlock) {
                let half = payload.len() / 2 + 100;
                payload[half..].fill(0);
            } else if !whole && bug(Bug::SkippedGap) {
                continue;
            } else if !whole {
                break;
            }
            let state = &mut *self.0.state.borrow_mut();
            let mut rest = &payload[..];
            let fits = |step: &Step| match step {
                Step::Create { source, .. } => {
                    source.is_none_or(|id| state.trees.contains_key(&id))
                }
                Step::Delete { tree }
                | Step::Resize { tree, .. }
                | Step::Write { tree, .. }
                | Step::Zero { tree, .. } => state.trees.contains_key(tree),
                Step::Restore { tree, from } | Step::Copy { to: tree, from, .. } => {
                    state.trees.contains_key(tree) && state.trees.contains_key(from)
                }
            };
            if header.steps.iter().all(fits) || !bug(Bug::SkippedGap) {
                header.steps.iter().for_each(|step| state.apply(step, &mut rest));
            }
            if !whole {
                break;
            }
            sequence = header.sequence + 1;
        }
        Ok(())
    }

    /// Writes all that is in memory to the other half of the device, and goes on there.
    async fn rewrite(&self, generation: u64, start: u64, end: u64) -> Result<(), Error> {
        let zones = start / self.zone_blocks()..end / self.zone_blocks();
        for zone in zones {
            self.0.disk.reset(ZoneId(zone as u32)).await.map_err(io)?;
        }
        let trees = {
            let state = &mut *self.0.state.borrow_mut();
            (state.generation, state.at, state.end, state.sequence) = (generation, start, end, 0);
            state.trees.clone()
        };
        for (id, tree) in trees {
            let Tree { name, size, read_only, blocks } = tree;
            let create = Step::Create { tree: id, name, size, read_only, source: None };
            self.log(vec![create], Vec::new())?.await?;
            for (at, bytes) in blocks {
                let (offset, length) = (at * BLOCK_SIZE, BLOCK_SIZE);
                self.log(vec![Step::Write { tree: id, offset, length }], bytes)?.await?;
            }
        }
        self.0.disk.flush().await.map_err(io)?;
        let root = Bytes::copy_from_slice(&generation.to_le_bytes());
        self.0.disk.write_root(root).await.map_err(io)
    }

    /// The half of the device that a generation uses.
    fn half(&self, generation: u64) -> (u64, u64) {
        let info = self.0.disk.info();
        let half = u64::from(info.zones / 2) * info.zone_blocks;
        let start = generation % 2 * half;
        (start, start + half)
    }

    fn new(disk: SimDisk, runtime: SimRuntime) -> Toy {
        Toy(Rc::new(Inner { disk, runtime, state: RefCell::default() }))
    }

    fn checked(&self, id: TreeId, offset: u64, length: u64) -> Result<u32, Error> {
        let state = self.0.state.borrow();
        let gone = || error(ErrorKind::NotFound, "no such tree");
        let tree = state.trees.get(&id.0).ok_or_else(gone)?;
        if offset + length > tree.size {
            return Err(error(ErrorKind::Invalid, "past the end"));
        }
        Ok(id.0)
    }

    async fn create(
        &self,
        name: &str,
        size: u64,
        read_only: bool,
        source: Option<u32>,
    ) -> Result<TargetInfo, Error> {
        let tree = self.0.state.borrow().next_tree;
        let step = Step::Create { tree, name: name.into(), size, read_only, source };
        self.commit(vec![step], Vec::new(), Durability::Buffered).await?;
        Ok(self.0.state.borrow().info(tree))
    }
}

impl Subject for Toy {
    const ADMIN_IS_DURABLE: bool = false;

    async fn format(disk: SimDisk, runtime: SimRuntime) -> Result<(), Error> {
        let toy = Toy::new(disk, runtime);
        toy.0.state.borrow_mut().next_tree = 1;
        let (start, end) = toy.half(0);
        toy.rewrite(0, start, end).await
    }

    async fn open(disk: SimDisk, runtime: SimRuntime, _: &SubjectOptions) -> Result<Self, Error> {
        let toy = Toy::new(disk, runtime);
        let root = toy.0.disk.read_root().await.map_err(io)?;
        let root = root.ok_or_else(|| error(ErrorKind::Format, "no root"))?;
        let generation = u64::from_le_bytes(root[..].try_into().unwrap());
        let (start, end) = toy.half(generation);
        toy.replay(start, end, generation).await?;
        let (start, end) = toy.half(generation + 1);
        toy.rewrite(generation + 1, start, end).await?;
        Ok(toy)
    }

    async fn close(&self) -> Result<(), Error> {
        self.flush().await
    }

    async fn create_volume(&self, name: &str, size: u64) -> Result<TargetInfo, Error> {
        self.create(name, size, false, None).await
    }

    async fn delete_volume(&self, name: &str) -> Result<(), Error> {
        let tree = self.0.state.borrow().by_name(name)?;
        self.commit(vec![Step::Delete { tree }], Vec::new(), Durability::Buffered).await
    }

    async fn resize_volume(&self, name: &str, size: u64) -> Result<(), Error> {
        let tree = self.0.state.borrow().by_name(name)?;
        self.commit(vec![Step::Resize { tree, size }], Vec::new(), Durability::Buffered).await
    }

    async fn clone_volume(&self, source: &str, name: &str) -> Result<TargetInfo, Error> {
        let (source, size) = {
            let state = self.0.state.borrow();
            let source = state.by_name(source)?;
            (source, state.trees[&source].size)
        };
        self.create(name, size, false, Some(source)).await
    }

    async fn create_snapshot(&self, volume: &str, snapshot: &str) -> Result<TargetInfo, Error> {
        let (source, size) = {
            let state = self.0.state.borrow();
            let source = state.by_name(volume)?;
            (source, state.trees[&source].size)
        };
        let info = self.create(&format!("{volume}@{snapshot}"), size, true, Some(source)).await?;
        if bug(Bug::LateSnapshot) {
            let toy = self.clone();
            let id = info.id.0;
            self.0.runtime.spawn(async move {
                toy.0.runtime.sleep(Duration::from_micros(300)).await;
                let state = &mut *toy.0.state.borrow_mut();
                if let (Some(blocks), true) = (
                    state.trees.get(&source).map(|tree| tree.blocks.clone()),
                    state.trees.contains_key(&id),
                ) {
                    state.tree(id).blocks = blocks;
                }
            });
        }
        Ok(info)
    }

    async fn delete_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), Error> {
        self.delete_volume(&format!("{volume}@{snapshot}")).await
    }

    async fn restore_snapshot(&self, volume: &str, snapshot: &str) -> Result<(), Error> {
        let (tree, from) = {
            let state = self.0.state.borrow();
            (state.by_name(volume)?, state.by_name(&format!("{volume}@{snapshot}"))?)
        };
        self.commit(vec![Step::Restore { tree, from }], Vec::new(), Durability::Buffered).await
    }

    async fn checkpoint(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn collect(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn scrub(&self) -> Result<(), Error> {
        Ok(())
    }

    fn describe(&self) -> String {
        "a toy".into()
    }

    async fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Store for Toy {
    fn targets(&self) -> Vec<TargetInfo> {
        let state = self.0.state.borrow();
        state.trees.keys().map(|id| state.info(*id)).collect()
    }

    fn find(&self, name: &str) -> Result<TargetInfo, Error> {
        let state = self.0.state.borrow();
        state.by_name(name).map(|id| state.info(id))
    }

    fn info(&self, id: TreeId) -> Result<TargetInfo, Error> {
        self.checked(id, 0, 0).map(|id| self.0.state.borrow().info(id))
    }

    async fn read(&self, id: TreeId, offset: u64, length: u64) -> Result<Chunks, Error> {
        let id = self.checked(id, offset, length)?;
        self.0.runtime.give_way().await;
        let mut state = self.0.state.borrow_mut();
        let mut bytes = state.bytes(id, offset, length);
        state.reads += 1;
        if bug(Bug::StaleRead)
            && state.reads.is_multiple_of(50)
            && let Some(old) = state.before.get(&(id, offset / BLOCK_SIZE))
            && offset.is_multiple_of(BLOCK_SIZE)
            && length >= BLOCK_SIZE
        {
            bytes[..BLOCK_BYTES].copy_from_slice(old);
        }
        Ok(Chunks::from_buf([Chunk::Data(bytes.into())]))
    }

    async fn write(
        &self,
        id: TreeId,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<(), Error> {
        let tree = self.checked(id, offset, data.len() as u64)?;
        let part =
            !offset.is_multiple_of(BLOCK_SIZE) || !(data.len() as u64).is_multiple_of(BLOCK_SIZE);
        if bug(Bug::LostUpdate) && part {
            let start = offset / BLOCK_SIZE * BLOCK_SIZE;
            let length = (offset + data.len() as u64).next_multiple_of(BLOCK_SIZE) - start;
            let mut whole = self.0.state.borrow().bytes(tree, start, length);
            self.0.runtime.sleep(Duration::from_micros(30)).await;
            let at = (offset - start) as usize;
            whole[at..at + data.len()].copy_from_slice(&data);
            let step = Step::Write { tree, offset: start, length };
            return self.commit(vec![step], whole, durability).await;
        }
        // Long writes are logged in several records, cut between blocks.
        let mut waits = Vec::new();
        let (mut at, mut rest) = (offset, &data[..]);
        while !rest.is_empty() {
            let most = 8 * BLOCK_BYTES - (at % BLOCK_SIZE) as usize;
            let (piece, after) = rest.split_at(most.min(rest.len()));
            let length = piece.len() as u64;
            waits.push(self.log(vec![Step::Write { tree, offset: at, length }], piece.to_vec())?);
            (at, rest) = (at + length, after);
        }
        for wait in waits {
            wait.await?;
        }
        if durability == Durability::Durable { self.flush().await } else { Ok(()) }
    }

    async fn write_zeroes(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        _: ZeroMode,
        durability: Durability,
    ) -> Result<(), Error> {
        let tree = self.checked(id, offset, length)?;
        self.commit(vec![Step::Zero { tree, offset, length }], Vec::new(), durability).await
    }

    async fn trim(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        durability: Durability,
    ) -> Result<(), Error> {
        let tree = self.checked(id, offset, length)?;
        let start = offset.next_multiple_of(BLOCK_SIZE);
        let end = match offset + length {
            end if end == self.0.state.borrow().trees[&tree].size => end.max(start),
            end => (end / BLOCK_SIZE * BLOCK_SIZE).max(start),
        };
        let step = Step::Zero { tree, offset: start, length: end - start };
        self.commit(vec![step], Vec::new(), durability).await
    }

    async fn flush(&self) -> Result<(), Error> {
        if bug(Bug::LazyFlush) {
            return Ok(());
        }
        let until = self.0.state.borrow().sequence;
        while self.0.state.borrow().in_flight.first().is_some_and(|&first| first < until) {
            if bug(Bug::HastyFlush) {
                break;
            }
            self.0.runtime.sleep(Duration::from_micros(5)).await;
        }
        self.0.disk.flush().await.map_err(io)
    }

    async fn extents(
        &self,
        id: TreeId,
        offset: u64,
        length: u64,
        _: usize,
    ) -> Result<Vec<Extent>, Error> {
        self.checked(id, offset, length)?;
        Ok(vec![Extent { length, mapping: Mapping::Data }])
    }

    async fn cache(&self, _: TreeId, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    async fn atomic(&self, ops: Vec<Op>, durability: Durability) -> Result<(), Error> {
        let mut payload = Vec::new();
        let steps = ops.into_iter().map(|op| match op {
            Op::Write { to, offset, data } => {
                payload.extend_from_slice(&data);
                Step::Write { tree: to.0, offset, length: data.len() as u64 }
            }
            Op::Trim { of, offset, length } => Step::Zero { tree: of.0, offset, length },
            Op::Clone { from, from_offset, to, to_offset, length } => {
                let skew = if bug(Bug::SkewedClone) { BLOCK_SIZE } else { 0 };
                let from_offset = from_offset.saturating_sub(skew);
                let (from, to, moves) = (from.0, to.0, false);
                Step::Copy { from, from_offset, to, to_offset, length, moves }
            }
            Op::Move { from, from_offset, to, to_offset, length } => {
                let (from, to, moves) = (from.0, to.0, true);
                Step::Copy { from, from_offset, to, to_offset, length, moves }
            }
        });
        let steps = steps.collect();
        self.commit(steps, payload, durability).await
    }

    fn atomic_limit(&self) -> (usize, u64) {
        (8, 32 * BLOCK_SIZE)
    }
}
