//! One client of the load: overwrites its own part of the volume, reads and trims some of it, and
//! knows what every block must hold.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use anyhow::Result;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};

use super::client::{Ask, Client};
use super::content::{Content, after_trim, after_write};
use super::random::Random;
use super::tally::Tally;
use super::versions::{Deal, SLOT_BLOCKS};

/// Requests that a writer keeps in flight.
const DEPTH: usize = 8;
/// Of 100 requests: so many write, so many trim; the others read.
const WRITES: u64 = 74;
const TRIMS: u64 = 2;
/// Of 100 writes, so many overwrite as long as there is something left that was never written.
const OVERWRITES: u64 = 50;
/// Of 100 overwrites and reads, so many go to the hot slots, which are every so-manieth.
const TO_HOT: u64 = 75;
const HOT_EVERY: u64 = 5;
/// One write in so many is to be durable at once.
const DURABLE_EVERY: u64 = 512;
/// Each writer asks for a flush this often.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// A free slot that is not found after so many tries is not there.
const TRIES: u32 = 64;

/// What the taker of snapshots asks of a writer, and the answer: its number and its versions.
pub enum Note {
    /// The versions that are acknowledged.
    Acknowledged(Sender<(usize, Vec<u32>)>),
    /// The versions that were sent, acknowledged or not.
    Sent(Sender<(usize, Vec<u32>)>),
}

/// What a writer did.
#[derive(Default)]
pub struct Written {
    /// The version of each of its blocks.
    pub versions: Vec<u32>,
    /// Latencies of its writes and reads, in microseconds.
    pub write_us: Vec<u32>,
    /// Of reads.
    pub read_us: Vec<u32>,
    /// Bytes of each kind.
    pub bytes_written: u64,
    /// Verified at once.
    pub bytes_read: u64,
    /// Given back.
    pub bytes_trimmed: u64,
}

/// A writer at work.
pub struct Writer {
    number: u64,
    deal: Deal,
    content: Content,
    tally: Arc<Tally>,
    client: Client<Flight>,
    random: Random,
    /// By own block.
    sent: Vec<u32>,
    /// By own slot: a request is in flight there.
    busy: Vec<bool>,
    /// Own blocks that were ever written, from the first on.
    filled: u64,
    flushed: Instant,
    payload: Vec<u8>,
    done: Written,
}

/// A request in flight: what it does, and to which own blocks (all in one slot).
struct Flight {
    kind: Kind,
    first: u64,
    blocks: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Trim,
    Read,
    Flush,
}

impl Writer {
    /// Connects the writer with that number to the volume.
    pub fn new(
        socket: &Path,
        volume: &str,
        number: u64,
        deal: Deal,
        content: Content,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        let blocks = (deal.slots_each * SLOT_BLOCKS) as usize;
        Ok(Writer {
            number,
            deal,
            content,
            tally,
            client: Client::connect(socket, volume)?,
            random: Random::new(content.seed ^ (number + 1) << 48),
            sent: vec![0; blocks],
            busy: vec![false; deal.slots_each as usize],
            filled: 0,
            flushed: Instant::now(),
            payload: Vec::new(),
            done: Written { versions: vec![0; blocks], ..Written::default() },
        })
    }

    /// Works until the load is over, then finishes what is in flight.
    pub fn run(mut self, notes: &Receiver<Note>) -> Result<Written> {
        while self.tally.load_goes_on() {
            for note in notes.try_iter() {
                let number = self.number as usize;
                // Whoever asked may be gone.
                let _ = match note {
                    Note::Acknowledged(to) => to.send((number, self.done.versions.clone())),
                    Note::Sent(to) => to.send((number, self.sent.clone())),
                };
            }
            while self.client.in_flight() < DEPTH && self.ask()? {}
            self.answer()?;
        }
        while self.client.in_flight() > 0 {
            self.answer()?;
        }
        self.client.ask(Ask::Flush, Flight { kind: Kind::Flush, first: 0, blocks: 0 })?;
        self.answer()?;
        self.client.disconnect()?;
        Ok(self.done)
    }

    /// Sends a request; false if every slot that it could use is busy.
    fn ask(&mut self) -> Result<bool> {
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flushed = Instant::now();
            self.client.ask(Ask::Flush, Flight { kind: Kind::Flush, first: 0, blocks: 0 })?;
            return Ok(true);
        }
        let roll = self.random.below(100);
        let (kind, new) = match roll {
            _ if self.filled < SLOT_BLOCKS => (Kind::Write, true),
            roll if roll < WRITES => {
                let left = self.filled < self.sent.len() as u64;
                (Kind::Write, left && !self.random.chance(OVERWRITES))
            }
            roll if roll < WRITES + TRIMS => (Kind::Trim, false),
            _ => (Kind::Read, false),
        };
        // 4 to 64 KiB.
        let mut blocks = 1 << self.random.below(u64::from(SLOT_BLOCKS.ilog2()) + 1);
        let first = match new {
            true if self.busy[(self.filled / SLOT_BLOCKS) as usize] => return Ok(false),
            true => {
                blocks = blocks.min(SLOT_BLOCKS - self.filled % SLOT_BLOCKS);
                self.filled += blocks;
                self.filled - blocks
            }
            false => match self.idle_slot() {
                Some(slot) => slot * SLOT_BLOCKS + self.random.below(SLOT_BLOCKS - blocks + 1),
                None => return Ok(false),
            },
        };
        self.send(Flight { kind, first, blocks })?;
        Ok(true)
    }

    fn send(&mut self, flight: Flight) -> Result<()> {
        let Flight { kind, first, blocks } = flight;
        self.busy[(first / SLOT_BLOCKS) as usize] = true;
        let block = self.deal.in_volume(self.number, first);
        let (offset, length) = (block * BLOCK_SIZE, (blocks * BLOCK_SIZE) as u32);
        let versions = &mut self.sent[first as usize..(first + blocks) as usize];
        let ask = match kind {
            Kind::Read => Ask::Read { offset, length },
            Kind::Flush => Ask::Flush,
            Kind::Trim => {
                versions.iter_mut().for_each(|version| *version = after_trim(*version));
                Ask::Trim { offset, length }
            }
            Kind::Write => {
                self.payload.resize(length as usize, 0);
                let contents = self.payload.chunks_exact_mut(BLOCK_BYTES);
                for ((block, version), bytes) in (block..).zip(versions).zip(contents) {
                    *version = after_write(*version);
                    self.content.fill(block, *version, bytes);
                }
                let durable = self.random.below(DURABLE_EVERY) == 0;
                Ask::Write { offset, data: &self.payload, durable }
            }
        };
        self.client.ask(ask, flight)
    }

    /// A filled slot without a request, hot ones more often.
    fn idle_slot(&mut self) -> Option<u64> {
        let slots = self.filled / SLOT_BLOCKS;
        (0..TRIES).find_map(|_| {
            let slot = if self.random.chance(TO_HOT) {
                self.random.below(slots.div_ceil(HOT_EVERY)) * HOT_EVERY
            } else {
                self.random.below(slots)
            };
            (!self.busy[slot as usize]).then_some(slot)
        })
    }

    fn answer(&mut self) -> Result<()> {
        let answer = self.client.answer()?;
        let Flight { kind, first, blocks } = answer.context;
        if kind == Kind::Flush {
            return Ok(());
        }
        self.busy[(first / SLOT_BLOCKS) as usize] = false;
        let took_us = u32::try_from(answer.took.as_micros()).unwrap_or(u32::MAX);
        let bytes = blocks * BLOCK_SIZE;
        let own = first as usize..(first + blocks) as usize;
        match kind {
            Kind::Read => {
                self.done.bytes_read += bytes;
                self.done.read_us.push(took_us);
                let block = self.deal.in_volume(self.number, first);
                let found = answer.data.chunks_exact(BLOCK_BYTES);
                for ((block, version), found) in (block..).zip(&self.sent[own]).zip(found) {
                    let verdict = self.content.judge(block, *version..=*version, found);
                    self.tally.judged("the volume under load", verdict);
                }
            }
            Kind::Write | Kind::Trim => {
                self.done.versions[own.clone()].copy_from_slice(&self.sent[own]);
                if kind == Kind::Trim {
                    self.done.bytes_trimmed += bytes;
                } else {
                    self.done.bytes_written += bytes;
                    self.done.write_us.push(took_us);
                    self.tally.write_answered();
                }
            }
            Kind::Flush => unreachable!("returned above"),
        }
        Ok(())
    }
}
