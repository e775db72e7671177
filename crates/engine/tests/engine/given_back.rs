//! Free segments are given back to what the store lies on: all of them by a collection, by and by without
//! one. Never one that either copy of the root may lead to, nor those that are opened next.

use std::collections::BTreeSet;
use std::time::Duration;

use mjolnir_device::filter::{Call, Fault, Log, Record, Verb};
use mjolnir_device::{Device, ErrorKind, MemoryDevice, MemoryOptions, Runtime};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Store};

use crate::support::{BLOCK, Engine, Tick, format, open, payload, run, soon, tag_of};

const ZONES: u32 = 200;
/// More free segments stay as they are by no means: those that are ready, those that are opened next, and
/// what the last checkpoints freed of the map's.
const KEPT: usize = 16;

fn sparse() -> MemoryDevice {
    let options = MemoryOptions { gives_back: true, ..MemoryOptions::default() };
    MemoryDevice::with_options(MemoryDevice::of_zones(ZONES, 64).info(), options)
}

/// A store of which half was written and deleted, and a little is left.
async fn emptied(device: impl Device, runtime: &Tick) -> Engine {
    let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
    let kept = engine.create_volume("kept", 64 * BLOCK).await.unwrap().id;
    let gone = engine.create_volume("gone", 6400 * BLOCK).await.unwrap().id;
    for lba in (0..5600).step_by(16) {
        engine.write(gone, lba * BLOCK, payload(lba, 16), Durability::Buffered).await.unwrap();
        let data = payload(7 + lba % 64, 1);
        engine.write(kept, lba % 64 * BLOCK, data, Durability::Buffered).await.unwrap();
    }
    engine.delete_volume("gone", false).await.unwrap();
    engine
}

/// The zones given back, and of those used since it was asked, none.
fn given_back(log: &Log) -> BTreeSet<u32> {
    let mut zones = BTreeSet::new();
    for call in log.calls() {
        match call {
            Call::Release(zone) => assert!(zones.insert(zone.0), "{zone} was given back twice"),
            Call::Reset(zone) => {
                zones.remove(&zone.0);
            }
            _ => {}
        }
    }
    zones
}

/// All free segments but a few, and no other one, are among the zones.
fn check_given_back(engine: &Engine, zones: &BTreeSet<u32>) {
    for segment in engine.segments() {
        assert!(!zones.contains(&segment.zone.0), "{segment:?} is in use");
    }
    let free = (engine.stats().space.free_bytes / (64 * BLOCK)) as usize;
    assert!(zones.len() + KEPT >= free && zones.len() < free, "{} of {free}", zones.len());
}

async fn check_kept(engine: &Engine) {
    let kept = engine.find("kept").unwrap().id;
    for lba in [0, 16, 32, 48] {
        assert_eq!(tag_of(engine, kept, lba).await, 7 + lba);
    }
    assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_collection_gives_back_all_that_is_free() {
    run(async |runtime| {
        let memory = sparse();
        format(memory.clone(), &runtime).await;
        let device = Record::new(memory.clone());
        let log = device.log();
        let engine = emptied(device, &runtime).await;
        let won = soon("collecting", engine.collect_telling()).await.unwrap();
        let zones = given_back(&log);
        check_given_back(&engine, &zones);
        assert_eq!(won.released, engine.stats().segments_released);
        check_kept(&engine).await;
        // Whatever of it a power cut takes back.
        let engine = open(memory.crash(3), runtime.clone(), OpenOptions::default()).await.unwrap();
        check_kept(&engine).await;
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn by_and_by_all_is_given_back_without_a_collection() {
    run(async |runtime| {
        let memory = sparse();
        format(memory.clone(), &runtime).await;
        let device = Record::new(memory.clone());
        let log = device.log();
        let engine = emptied(device, &runtime).await;
        runtime.sleep(Duration::from_secs(60)).await;
        check_given_back(&engine, &given_back(&log));
        let checkpoints = engine.stats().checkpoints;
        runtime.sleep(Duration::from_secs(60)).await;
        assert_eq!(engine.stats().checkpoints, checkpoints, "nothing is left to be given back");
        check_kept(&engine).await;
        soon("closing", engine.close()).await.unwrap();
    });
}

/// What the newest root alone lists as free is named by the copy before it.
#[test]
fn what_the_copy_of_the_root_leads_to_is_not_given_back() {
    run(async |runtime| {
        let memory = sparse();
        format(memory.clone(), &runtime).await;
        let device = Record::new(memory.clone());
        let log = device.log();
        let engine = emptied(device, &runtime).await;
        soon("collecting", engine.collect()).await.unwrap();
        let mut roots = 0;
        for call in log.calls() {
            match call {
                Call::WriteRoot { .. } => roots += 1,
                // Its own, one that frees, and one more.
                Call::Release(zone) => assert!(roots >= 3, "{zone} after {roots} roots"),
                _ => {}
            }
        }
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn a_device_that_fails_to_give_back_keeps_a_store_from_nothing() {
    run(async |runtime| {
        let memory = sparse();
        format(memory.clone(), &runtime).await;
        let device = Fault::new(memory.clone());
        device.control().fail_all(Verb::Release, Some(ErrorKind::Io));
        let engine = emptied(device, &runtime).await;
        let won = soon("collecting", engine.collect_telling()).await.unwrap();
        assert_eq!(won.released, 0);
        check_kept(&engine).await;
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn a_device_that_gives_nothing_back_is_not_asked_to() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(ZONES, 64);
        format(memory.clone(), &runtime).await;
        let device = Record::new(memory.clone());
        let log = device.log();
        let engine = emptied(device, &runtime).await;
        soon("collecting", engine.collect()).await.unwrap();
        assert_eq!(given_back(&log), BTreeSet::new());
        soon("closing", engine.close()).await.unwrap();
    });
}
