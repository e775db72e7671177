//! A random history against a naive model: a table of each block's content.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use super::{Bench, nudge};
use crate::chance::{below, one_in};
use crate::{AlignedBuf, Device, DeviceError};

/// What a block may be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Anything: it is past the write pointer, in flight, or its append was dropped.
    Any,
    /// Every word is this one.
    Word(u64),
}

type Append = Pin<Box<dyn Future<Output = Result<Pba, DeviceError>>>>;

struct Running {
    at: Pba,
    words: Vec<u64>,
    append: Append,
}

struct History<D> {
    device: D,
    chance: Pcg32,
    zone_blocks: u64,
    /// Zones that take part; few, so that they fill.
    zones: u64,
    pointers: Vec<Option<u64>>,
    model: Vec<Block>,
    running: Vec<Running>,
    word: u64,
    root: Option<Bytes>,
}

/// Runs `steps` random requests, many of them in flight together, some of them dropped, on a fresh
/// device and compares every read with a model. The same seed gives the same requests.
///
/// # Panics
///
/// If the device breaks the contract; the seed is printed first.
pub async fn random_history<B: Bench>(bench: &B, seed: u64, steps: u32) {
    eprintln!("device contract: random history of {steps} steps from seed {seed}");
    let device = bench.fresh().await;
    let info = device.info();
    let zones = 4;
    let mut history = History {
        device,
        chance: Pcg32::seed_from_u64(seed),
        zone_blocks: info.zone_blocks.min(64),
        zones,
        pointers: vec![None; zones as usize],
        model: vec![Block::Any; (zones * info.zone_blocks.min(64)) as usize],
        running: Vec::new(),
        word: 0,
        root: None,
    };
    for _ in 0..steps {
        history.step(&info).await;
        if one_in(&mut history.chance, 200) {
            history.finish_all().await;
            history.device.flush().await.expect("a flush works");
            let Some(device) = bench.reopen(history.device).await else { return };
            history = History { device, pointers: vec![None; zones as usize], ..history };
        }
    }
    history.finish_all().await;
    for zone in 0..zones {
        history.read(zone, 0, history.zone_blocks).await;
    }
}

impl<D: Device> History<D> {
    fn below(&mut self, bound: u64) -> u64 {
        below(&mut self.chance, bound)
    }

    async fn step(&mut self, info: &crate::DeviceInfo) {
        let zone = self.below(self.zones);
        match self.below(20) {
            0 => self.reset(zone, info).await,
            1 => {
                self.finish_zone(zone, info).await;
                self.device.seal(ZoneId(zone as u32)).await.expect("a seal works");
                self.pointers[zone as usize] = None;
            }
            2 => self.device.flush().await.expect("a flush works"),
            3 => {
                let root = Bytes::from(vec![self.below(256) as u8; self.below(300) as usize]);
                self.device.write_root(root.clone()).await.expect("a root can be written");
                self.root = Some(root);
            }
            4 => assert_eq!(self.device.read_root().await, Ok(self.root.clone()), "the root"),
            5..=8 => {
                let from = self.below(self.zone_blocks);
                let count = 1 + self.below(self.zone_blocks - from);
                self.read(zone, from, count).await;
            }
            9..=11 if !self.running.is_empty() => {
                let index = self.below(self.running.len() as u64) as usize;
                let running = self.running.swap_remove(index);
                if one_in(&mut self.chance, 8) {
                    drop(running.append);
                } else {
                    self.finish(running, info).await;
                }
            }
            _ => self.append(zone, info).await,
        }
    }

    async fn append(&mut self, zone: u64, info: &crate::DeviceInfo) {
        let Some(pointer) = self.pointers[zone as usize] else { return };
        let count = (1 + self.below(6)).min(self.zone_blocks - pointer).min(info.append_blocks_max);
        if count == 0 {
            return;
        }
        let at = ZoneId(zone as u32).start(info.zone_blocks).plus(pointer);
        let words: Vec<u64> = (1..=count).map(|n| self.word + n).collect();
        self.word += count;
        // Pieces of random lengths, some of them off alignment.
        let mut data = Vec::new();
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(1 + self.below(rest.len() as u64) as usize);
            let shift = if one_in(&mut self.chance, 3) { 8 } else { 0 };
            let mut buffer = AlignedBuf::zeroed(shift + head.len() * BLOCK_BYTES);
            let blocks = buffer.as_mut()[shift..].chunks_exact_mut(BLOCK_BYTES);
            for (word, block) in head.iter().zip(blocks) {
                for bytes in block.chunks_exact_mut(8) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
            }
            data.push(buffer.freeze().slice(shift..));
            rest = tail;
        }
        let start = (zone * self.zone_blocks + pointer) as usize;
        self.model[start..start + count as usize].fill(Block::Any);
        self.pointers[zone as usize] = Some(pointer + count);
        let mut append: Append = Box::pin(self.device.append(at, data));
        let nudged = one_in(&mut self.chance, 2);
        match if nudged { nudge(&mut append).await } else { None } {
            Some(landed) => self.landed(at, landed, &words, info),
            None => self.running.push(Running { at, words, append }),
        }
    }

    fn landed(
        &mut self,
        at: Pba,
        landed: Result<Pba, DeviceError>,
        words: &[u64],
        info: &crate::DeviceInfo,
    ) {
        assert_eq!(landed, Ok(at), "an append lands where it was called");
        let zone = u64::from(info.zone_of(at).0);
        let start = (zone * self.zone_blocks + at.offset(info.zone_blocks)) as usize;
        for (block, &word) in self.model[start..].iter_mut().zip(words) {
            *block = Block::Word(word);
        }
    }

    async fn finish(&mut self, running: Running, info: &crate::DeviceInfo) {
        let landed = running.append.await;
        self.landed(running.at, landed, &running.words, info);
    }

    async fn finish_zone(&mut self, zone: u64, info: &crate::DeviceInfo) {
        while let Some(index) =
            self.running.iter().position(|r| u64::from(info.zone_of(r.at).0) == zone)
        {
            let running = self.running.swap_remove(index);
            self.finish(running, info).await;
        }
    }

    async fn finish_all(&mut self) {
        let info = self.device.info();
        for zone in 0..self.zones {
            self.finish_zone(zone, &info).await;
        }
    }

    /// Resets a zone whose appends were waited for or dropped; a dropped one must not land in what
    /// comes after the reset.
    async fn reset(&mut self, zone: u64, info: &crate::DeviceInfo) {
        if one_in(&mut self.chance, 2) {
            self.finish_zone(zone, info).await;
        } else {
            self.running.retain(|running| u64::from(info.zone_of(running.at).0) != zone);
        }
        self.device.reset(ZoneId(zone as u32)).await.expect("a reset works");
        self.pointers[zone as usize] = Some(0);
        let start = (zone * self.zone_blocks) as usize;
        self.model[start..start + self.zone_blocks as usize].fill(Block::Any);
    }

    async fn read(&mut self, zone: u64, from: u64, count: u64) {
        let at = ZoneId(zone as u32).start(self.device.info().zone_blocks).plus(from);
        let buffer = AlignedBuf::zeroed((count * BLOCK_SIZE) as usize);
        let read = self.device.read(at, buffer).await.expect("a read within a zone works");
        let start = (zone * self.zone_blocks + from) as usize;
        let blocks = read.as_ref().chunks_exact(BLOCK_BYTES);
        for (index, (block, expected)) in blocks.zip(&self.model[start..]).enumerate() {
            let Block::Word(word) = expected else { continue };
            let same = block.chunks_exact(8).all(|bytes| bytes == word.to_le_bytes());
            let found = u64::from_le_bytes(block[..8].try_into().expect("8 bytes"));
            assert!(same, "{} holds {found}, not {word}", at.plus(index as u64));
        }
    }
}
