//! A server killed under load, twenty times: each time it recovers, its structure is sound, and
//! every change that was acknowledged is there, whether a flush covers it or not. So is every snapshot that
//! was answered. `MJOLNIR_ROUNDS=200` for more of it.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mjolnir_nbd::protocol::{Command, command_flag};

use crate::real_support::chance::Chance;
use crate::real_support::client::Client;
use crate::real_support::store::TestStore;

const SEED: u64 = 20;
const BLOCK: usize = 4096;
/// Blocks of the volume: half of what the store has, so that reclaim and checkpoints are always
/// under way.
const BLOCKS: usize = 6144;
const WRITERS: usize = 2;
/// Requests that a writer has under way.
const DEPTH: usize = 16;
const RUN_MAX: u64 = 12;
/// Blocks of a long request, which lies outside the warm log's memory; one request in so many is.
const LONG_RUN_MAX: u64 = 96;
const LONG_SHARE: u64 = 8;

/// What the test knows about a block. Its states are numbered; one changes into the next only
/// once the change before was answered.
#[derive(Clone, Default)]
struct Known {
    /// The last state that was asked for.
    sent: u64,
    /// The last that was answered.
    acknowledged: u64,
    /// The last that a completed flush, or FUA, covers.
    flushed: u64,
    /// States in which the block reads as zeroes.
    zero: Vec<u64>,
    /// States that a recovery did not bring back: nobody may see them any more.
    lost: Range<u64>,
}

/// All blocks, as writers and the judge share them.
type Log = Mutex<Vec<Known>>;

/// A block in one of its states.
fn content(block: usize, state: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes[..8].copy_from_slice(&(block as u64).to_le_bytes());
    bytes[8..16].copy_from_slice(&state.to_le_bytes());
    Chance::new(SEED ^ ((block as u64) << 40) ^ state).fill(&mut bytes[16..]);
    bytes
}

/// A request under way.
#[derive(Clone)]
enum Asked {
    Nothing,
    /// Blocks from..to go to those states, durably or not.
    Change {
        from: usize,
        states: Vec<u64>,
        durable: bool,
    },
    /// Covers those states of all blocks.
    Flush(Vec<u64>),
}

/// Writes, zeroes, trims and flushes its part of the blocks until the server is gone.
struct Writer<'a> {
    log: &'a Log,
    client: Client,
    blocks: Range<usize>,
    chance: Chance,
    asked: Vec<Asked>,
    busy: Vec<bool>,
}

impl Writer<'_> {
    fn work(mut self, is_over: &AtomicBool) {
        while let Ok(()) = self.step() {}
        assert!(is_over.load(Ordering::SeqCst), "the server left before it was killed");
    }

    /// Fills the free places with requests, and takes one reply.
    fn step(&mut self) -> std::io::Result<()> {
        for slot in 0..DEPTH {
            if matches!(self.asked[slot], Asked::Nothing) {
                if self.chance.percent(4) {
                    let covered = self.log.lock().unwrap();
                    let covered = covered.iter().map(|known| known.acknowledged).collect();
                    self.asked[slot] = Asked::Flush(covered);
                    self.client.send((Command::Flush, 0), slot as u64, 0, 0, &[])?;
                } else {
                    self.change(slot)?;
                }
            }
        }
        let (cookie, error) = self.client.reply()?;
        assert_eq!(error, 0, "an error instead of an answer");
        let mut log = self.log.lock().unwrap();
        match std::mem::replace(&mut self.asked[cookie as usize], Asked::Nothing) {
            Asked::Nothing => panic!("an answer to nothing"),
            Asked::Change { from, states, durable } => {
                for (block, state) in (from..).zip(states) {
                    self.busy[block - self.blocks.start] = false;
                    log[block].acknowledged = state;
                    if durable {
                        log[block].flushed = log[block].flushed.max(state);
                    }
                }
            }
            Asked::Flush(covered) => {
                for (known, state) in log.iter_mut().zip(covered) {
                    known.flushed = known.flushed.max(state);
                }
            }
        }
        Ok(())
    }

    /// Changes a run of blocks of which none is being changed.
    fn change(&mut self, slot: usize) -> std::io::Result<()> {
        let first = self.chance.below(self.blocks.len() as u64) as usize;
        let most = if self.chance.below(LONG_SHARE) == 0 { LONG_RUN_MAX } else { RUN_MAX };
        let wanted = 1 + self.chance.below(most) as usize;
        let idle = self.busy[first..].iter().take(wanted).take_while(|busy| !**busy).count();
        if idle == 0 {
            return Ok(());
        }
        self.busy[first..first + idle].fill(true);
        let from = self.blocks.start + first;
        let command = match self.chance.below(100) {
            0..88 => Command::Write,
            88..94 => Command::Trim,
            _ => Command::WriteZeroes,
        };
        let durable = self.chance.percent(5);
        let mut payload = Vec::new();
        let mut log = self.log.lock().unwrap();
        let states = (from..from + idle).map(|block| {
            let known = &mut log[block];
            known.sent += 1;
            match command {
                Command::Write => payload.extend(content(block, known.sent)),
                _ => known.zero.push(known.sent),
            }
            known.sent
        });
        let states = states.collect();
        drop(log);
        self.asked[slot] = Asked::Change { from, states, durable };
        let flags = if durable { command_flag::FUA } else { 0 };
        let (offset, length) = ((from * BLOCK) as u64, (idle * BLOCK) as u32);
        self.client.send((command, flags), slot as u64, offset, length, &payload)
    }
}

/// Reads every block of an export; each must be in a state from its first to its last. Returns
/// the states.
fn judge(
    store: &TestStore,
    export: &str,
    log: &[Known],
    range: impl Fn(usize) -> (u64, u64),
) -> Vec<u64> {
    let mut client = store.client(export);
    let mut states = Vec::with_capacity(BLOCKS);
    let mut bytes = Vec::new();
    for block in 0..BLOCKS {
        if block % 256 == 0 {
            bytes = client.read((block * BLOCK) as u64, 256 * BLOCK as u32);
        }
        let found = &bytes[block % 256 * BLOCK..][..BLOCK];
        let (first, last) = range(block);
        let in_range =
            |state: &u64| (first..=last).contains(state) && !log[block].lost.contains(state);
        let state = if found.iter().all(|byte| *byte == 0) {
            // The newest of those that it may be.
            let zero = log[block].zero.iter().copied().filter(in_range).max();
            zero.or((first == 0).then_some(0))
        } else {
            let state = u64::from_le_bytes(found[8..16].try_into().unwrap());
            let is_whole = found == content(block, state) && !log[block].zero.contains(&state);
            Some(state).filter(|state| is_whole && in_range(state))
        };
        states.push(state.unwrap_or_else(|| {
            let head = &found[..24];
            panic!(
                "seed {SEED}: block {block} of {export} should be in a state from {first} to \
                 {last}, zero in {:?}, lost {:?}; it begins {head:?}",
                log[block].zero, log[block].lost
            )
        }));
    }
    states
}

#[test]
fn what_was_acknowledged_survives_twenty_kills_under_load() {
    println!("seed {SEED}");
    let store = TestStore::new("56M", "24M");
    let mut chance = Chance::new(SEED);
    let log = Log::new(vec![Known::default(); BLOCKS]);
    let (mut reclaimed, mut replayed, mut flushed) = (0, 0, 0);
    let mut server = store.serve();
    let rounds = std::env::var("MJOLNIR_ROUNDS").map_or(20, |text| text.parse().unwrap());
    for round in 0..rounds {
        let is_over = AtomicBool::new(false);
        let mut snapshot = None;
        std::thread::scope(|scope| {
            for index in 0..WRITERS {
                let part = BLOCKS / WRITERS;
                let writer = Writer {
                    log: &log,
                    client: store.client("v"),
                    blocks: index * part..(index + 1) * part,
                    chance: Chance::new(chance.next()),
                    asked: vec![Asked::Nothing; DEPTH],
                    busy: vec![false; part],
                };
                scope.spawn(|| writer.work(&is_over));
            }
            std::thread::sleep(Duration::from_millis(100 + chance.below(700)));
            if round % 2 == 0 {
                let before: Vec<u64> = acknowledged(&log);
                store.ok("snapshot create s.mj v@s");
                let after: Vec<u64> = log.lock().unwrap().iter().map(|known| known.sent).collect();
                snapshot = Some((before, after));
            } else {
                reclaimed += store.stat("segments_reclaimed");
            }
            std::thread::sleep(Duration::from_millis(chance.below(500)));
            is_over.store(true, Ordering::SeqCst);
            server.kill();
        });

        // At rest first, every other time: then that recovers, and the server finds it done.
        if round / 2 % 2 == 0 {
            store.check();
        }
        server = store.serve();
        replayed += store.stat("replayed_records");
        let mut log = log.lock().unwrap();
        flushed += log.iter().map(|known| known.flushed).sum::<u64>();
        if let Some((before, after)) = snapshot {
            judge(&store, "v@s", &log, |block| (before[block], after[block]));
            store.ok("snapshot delete s.mj v@s");
        }
        let states = judge(&store, "v", &log, |block| (log[block].acknowledged, log[block].sent));
        store.check();
        // What was seen stays: the states go on from there.
        for (known, state) in log.iter_mut().zip(states) {
            known.acknowledged = state;
            known.flushed = state;
            known.lost = state + 1..known.sent + 1;
            known.zero.retain(|zero| *zero == state);
        }
    }
    server.stop();
    store.check();
    store.ok("scrub s.mj");
    println!("{reclaimed} segments reclaimed, {replayed} records replayed, {flushed} flushed");
    assert!(reclaimed > 100, "reclaim won {reclaimed} segments only");
    assert!(replayed > 100, "{replayed} records replayed only");
    assert!(flushed > BLOCKS as u64, "{flushed} states flushed only");
}

fn acknowledged(log: &Log) -> Vec<u64> {
    log.lock().unwrap().iter().map(|known| known.acknowledged).collect()
}
