//! While a slice of a victim is copied the next one is on its way, be it of the same victim or of the
//! next, whose headers are read at once: the device never waits until something was copied.

use std::time::Duration;

use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::{Call, Delay, DelayOptions, Event, Record};
use mjolnir_engine::{Engine, OpenOptions, ReclaimOptions};
use mjolnir_store::{Durability, Store};

use crate::support::{BLOCK, fresh, payload, run, tag_of};

const ZONE_BLOCKS: u64 = 1024;
/// Blocks of a slice, with so little that may wait unwritten.
const SLICE_BLOCKS: u64 = 128;

/// A read: which zone, how many blocks, and when it was begun and had ended.
struct Reading {
    zone: u64,
    blocks: u64,
    begun: usize,
    ended: usize,
}

fn readings(events: &[Event]) -> Vec<Reading> {
    let ended = |number: u64| {
        let is_it =
            |event: &Event| matches!(event, Event::Completed(done, None) if *done == number);
        events.iter().position(is_it).expect("all reads succeed")
    };
    let reads = events.iter().enumerate().filter_map(|(begun, event)| match event {
        Event::Called(number, Call::Read { from, blocks }) => {
            let zone = from.0 / ZONE_BLOCKS;
            Some(Reading { zone, blocks: *blocks, begun, ended: ended(*number) })
        }
        _ => None,
    });
    reads.collect()
}

#[test]
fn the_next_victim_is_on_its_way_while_the_last_slice_of_one_is_copied() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(32, ZONE_BLOCKS);
        // Longer than it takes to copy a slice.
        let slow = DelayOptions { read: Duration::from_micros(200), ..DelayOptions::default() };
        let recorded = Record::new(Delay::new(memory.clone(), runtime.clone(), slow));
        let log = recorded.log();
        let options = || {
            let reclaim = ReclaimOptions {
                enabled: false,
                candidate_threshold: 1.0,
                ..ReclaimOptions::default()
            };
            let dirty_bytes_max = 16 * SLICE_BLOCKS * BLOCK;
            OpenOptions { dirty_bytes_max, reclaim, ..OpenOptions::default() }
        };
        drop(fresh(|| memory.clone(), &runtime, options()).await);
        let engine = Engine::open(recorded, runtime, options()).await.unwrap();
        let blocks = 8 * ZONE_BLOCKS;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap().id;
        for at in (0..blocks).step_by(SLICE_BLOCKS as usize) {
            let data = payload(1 + at, SLICE_BLOCKS as usize);
            engine.write(volume, at * BLOCK, data, Durability::Buffered).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        log.take();
        engine.collect().await.unwrap();
        let readings = readings(&log.events());
        let (headers, slices): (Vec<_>, Vec<_>) =
            readings.into_iter().partition(|reading| reading.blocks == 1);
        let victims: Vec<_> = slices.chunk_by(|a, b| a.zone == b.zone).collect();
        assert!(victims.len() > 5, "{} victims", victims.len());
        for victim in &victims {
            let of_it = || headers.iter().filter(|header| header.zone == victim[0].zone);
            let (last_begun, first_ended) = (
                of_it().map(|header| header.begun).max(),
                of_it().map(|header| header.ended).min(),
            );
            assert!(of_it().count() > 2 && last_begun < first_ended, "headers are read at once");
        }
        // But for the first of each batch, of which there are fewer than victims.
        let alone = slices.windows(2).filter(|pair| pair[1].begun > pair[0].ended);
        assert!(alone.count() < victims.len() / 3 && slices.len() > 5 * victims.len());
        for at in (0..blocks).step_by(SLICE_BLOCKS as usize) {
            assert_eq!(tag_of(&engine, volume, at).await, 1 + at);
        }
        engine.close().await.unwrap();
    });
}
