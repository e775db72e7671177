//! While a round of a victim is copied the next one is on its way, be it of the same victim or of the
//! next, whose headers are read at once: else the device would wait until something was copied.

use std::collections::BTreeMap;
use std::time::Duration;

use mjolnir_device::filter::{Call, Delay, DelayOptions, Event, Fault, Record, Verb};
use mjolnir_device::{ErrorKind, MemoryDevice};
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::{Durability, Store};

use crate::support::{BLOCK, Engine, fresh, open, payload, put, run, tag_of};

const ZONE_BLOCKS: u64 = 1024;
/// Blocks of a round, with so little that may wait unwritten.
const ROUND_BLOCKS: u64 = 128;

/// A read: which zone, how many blocks, and when it was begun and had ended.
struct Reading {
    zone: u64,
    blocks: u64,
    begun: usize,
    ended: usize,
}

fn readings(events: &[Event]) -> Vec<Reading> {
    let completed = events.iter().enumerate().filter_map(|(at, event)| match event {
        Event::Completed(number, _) => Some((*number, at)),
        _ => None,
    });
    let completed: BTreeMap<u64, usize> = completed.collect();
    let ended = |number: u64| completed.get(&number).copied().unwrap_or(usize::MAX);
    let reads = events.iter().enumerate().filter_map(|(begun, event)| match event {
        Event::Called(number, Call::Read { from, blocks }) => {
            let zone = from.0 / ZONE_BLOCKS;
            Some(Reading { zone, blocks: *blocks, begun, ended: ended(*number) })
        }
        _ => None,
    });
    reads.collect()
}

/// Writes a volume in groups of so many blocks.
async fn fill(engine: &Engine, blocks: u64, group: u64) {
    let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap().id;
    for at in (0..blocks).step_by(group as usize) {
        let data = payload(1 + at, group as usize);
        engine.write(volume, at * BLOCK, data, Durability::Durable).await.unwrap();
    }
    engine.checkpoint().await.unwrap();
}

/// Fills a store with groups of `group` blocks, then collects all of it, with the `failing`th read
/// failing once. Returns what was read for it.
fn collected(reopened: bool, group: u64, failing: Option<u64>) -> Vec<Reading> {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(32, ZONE_BLOCKS);
        let reclaim = ReclaimOptions {
            enabled: false,
            candidate_threshold: 1.0,
            ..ReclaimOptions::default()
        };
        let dirty_bytes_max = 16 * ROUND_BLOCKS * BLOCK;
        let options = OpenOptions { dirty_bytes_max, reclaim, ..OpenOptions::default() };
        drop(fresh(|| memory.clone(), &runtime, options.clone()).await);
        // A read takes longer than it does to copy a round.
        let slow = DelayOptions { read: Duration::from_micros(200), ..DelayOptions::default() };
        let fault = Fault::new(Delay::new(memory.clone(), runtime.clone(), slow));
        let (control, device) = (fault.control(), Record::new(fault));
        let log = device.log();
        let blocks = 6 * ZONE_BLOCKS / group * group;
        let engine = if reopened {
            let engine = open(memory, runtime.clone(), options.clone()).await.unwrap();
            fill(&engine, blocks, group).await;
            engine.close().await.unwrap();
            open(device, runtime, options).await.unwrap()
        } else {
            let engine = open(device, runtime, options).await.unwrap();
            fill(&engine, blocks, group).await;
            engine
        };
        let volume = engine.find("v").unwrap().id;
        // That brings the map into memory, and no checksum.
        engine.extents(volume, 0, blocks * BLOCK, usize::MAX).await.unwrap();
        log.take();
        if let Some(nth) = failing {
            control.fail(Verb::Read, nth, ErrorKind::Unreadable, false);
        }
        assert!(engine.collect().await.unwrap() > 4);
        assert_eq!(control.faults(), u64::from(failing.is_some()));
        assert_eq!(engine.stats().copy_forward_failures, 0);
        let readings = readings(&log.events());
        for at in (0..blocks).step_by(group as usize) {
            assert_eq!(tag_of(&engine, volume, at).await, 1 + at);
        }
        engine.close().await.unwrap();
        readings
    })
}

/// The most of some reads that were under way at once.
fn most_at_once<'a>(readings: impl Iterator<Item = &'a Reading> + Clone) -> usize {
    let begun = readings.clone().map(|reading| (reading.begun, 1));
    let mut changes: Vec<(usize, i64)> =
        begun.chain(readings.map(|reading| (reading.ended, -1))).collect();
    changes.sort_unstable();
    let under_way = changes.iter().scan(0, |under_way, (_, change)| {
        *under_way += change;
        Some(*under_way)
    });
    under_way.max().unwrap_or(0) as usize
}

#[test]
fn the_next_victim_is_on_its_way_while_the_last_round_of_one_is_copied() {
    for reopened in [false, true] {
        let readings = collected(reopened, 100, None);
        // A footer has two blocks.
        let (headers, others): (Vec<_>, Vec<_>) =
            readings.into_iter().partition(|reading| reading.blocks == 1);
        let rounds: Vec<_> = others.into_iter().filter(|r| r.blocks > 2).collect();
        let victims: Vec<_> = rounds.chunk_by(|a, b| a.zone == b.zone).collect();
        assert!(victims.len() > 4 && rounds.len() > 3 * victims.len(), "{}", victims.len());
        for victim in &victims {
            let of_it = headers.iter().filter(|header| header.zone == victim[0].zone);
            assert_eq!(most_at_once(of_it.clone()), of_it.count(), "headers are read at once");
        }
        // But for the first of each batch, of which there are fewer than victims.
        let alone = rounds.windows(2).filter(|pair| pair[1].begun > pair[0].ended);
        assert!(alone.count() < victims.len() / 2, "reopened: {reopened}");
    }
}

#[test]
fn of_many_headers_some_are_read_at_once() {
    let readings = collected(false, 7, None);
    let headers = readings.iter().filter(|reading| reading.blocks == 1);
    assert!(headers.clone().count() > 100 * 4);
    // Those of two victims at the most.
    assert!((16..=32).contains(&most_at_once(headers)));
}

/// Whichever of them it is, it is read again before anything is called damaged.
#[test]
fn a_read_ahead_that_fails_once_does_no_harm() {
    let reads = collected(false, 63, None).len() as u64;
    for nth in (1..reads).step_by(17) {
        collected(false, 63, Some(nth));
    }
}

/// Else each record would wait for the leaf that it changes.
#[test]
fn leaves_that_a_replay_needs_are_read_at_once_and_once() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(64, ZONE_BLOCKS);
        let engine = fresh(|| memory.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 1 << 37).await.unwrap().id;
        const STEP: u64 = 1000;
        for index in 0..20_000 {
            put(&engine, volume, index * STEP, 1).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        // Far apart, one after the other.
        let changed = |index: u64| index * 7919 % 20_000 * STEP;
        for index in 0..400 {
            put(&engine, volume, changed(index), 2 + index).await.unwrap();
        }
        engine.flush().await.unwrap();

        let slow = DelayOptions { read: Duration::from_micros(200), ..DelayOptions::default() };
        let device = Record::new(Delay::new(memory.crash(1), runtime.clone(), slow));
        let log = device.log();
        let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
        let stats = engine.stats();
        assert_eq!(stats.replayed_records, 400);
        assert!(stats.nodes_loaded > 60, "{} nodes are no test", stats.nodes_loaded);
        let readings = readings(&log.events());
        let most = most_at_once(readings.iter());
        assert!(most >= 32, "of {} nodes {most} at once", stats.nodes_loaded);
        for index in 0..400 {
            assert_eq!(tag_of(&engine, volume, changed(index)).await, 2 + index);
        }
        assert_eq!(engine.stats().nodes_loaded, stats.nodes_loaded, "each was read once");
        engine.close().await.unwrap();
    });
}
