//! Leaves of the map that have words in common on media: they come back, as small as they were, and a
//! scrub finds damage to what they have in common.

use std::collections::BTreeSet;

use mjolnir_device::filter::{Damage, Fault};
use mjolnir_device::{AlignedBuf, Device, MemoryDevice};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::Pba;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::support::{BLOCK, Engine, Tick, flat, format, open, payload, run};

const ZONES: u32 = 16;
const ZONE: u64 = 4096;
const BLOCKS: u64 = 1500;
const SNAPSHOTS: usize = 120;

/// A store of one volume with many snapshots, one block written at random before each; and what these
/// hold. All fits the segments that are open: nothing is relocated.
async fn diverged(runtime: &Tick, memory: &MemoryDevice) -> (Engine, Vec<Vec<u64>>) {
    format(memory.clone(), runtime).await;
    let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
    let engine = engine.await.unwrap();
    let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap();
    let mut random = Pcg64::seed_from_u64(1);
    let (mut tags, mut snapshots) = (vec![0; BLOCKS as usize], Vec::new());
    let mut write = async |lba: u64, tags: &mut Vec<u64>| {
        tags[lba as usize] = random.next_u64() % 1_000_000;
        let bytes = payload(tags[lba as usize], 1);
        engine.write(volume.id, lba * BLOCK, bytes, Durability::Buffered).await.unwrap();
        random.next_u64() % BLOCKS
    };
    let mut next = 0;
    for at in 0..BLOCKS {
        next = write(at * 7 % BLOCKS, &mut tags).await; // No two side by side.
    }
    for number in 0..SNAPSHOTS {
        next = write(next, &mut tags).await;
        engine.create_snapshot("v", &number.to_string()).await.unwrap();
        snapshots.push(tags.clone());
    }
    engine.checkpoint().await.unwrap();
    (engine, snapshots)
}

/// Reads every so many blocks of all snapshots that there are; whether all could be read.
async fn compare(engine: &Engine, snapshots: &[Vec<u64>], step: usize) -> bool {
    let mut whole = true;
    for (number, tags) in snapshots.iter().enumerate() {
        let Ok(snapshot) = engine.find(&format!("v@{number}")) else { continue };
        for at in (0..BLOCKS as usize).step_by(step) {
            match engine.read(snapshot.id, at as u64 * BLOCK, BLOCK).await {
                Ok(read) => assert!(flat(read) == payload(tags[at], 1), "{number}, block {at}"),
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
                    whole = false;
                }
            }
        }
    }
    whole
}

#[test]
fn they_come_back_and_take_no_more_than_before() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(ZONES, ZONE);
        let (engine, snapshots) = diverged(&runtime, &memory).await;
        let before = engine.stats().map_bytes;
        assert!(before < 3000 * SNAPSHOTS as u64, "{before} bytes: each leaf has all its words");
        engine.close().await.unwrap();
        let memory = memory.reopen();
        let engine = open(memory, runtime.clone(), OpenOptions::default()).await.unwrap();
        assert!(compare(&engine, &snapshots, 50).await);
        let stats = engine.stats();
        assert!(stats.nodes_loaded > SNAPSHOTS as u64, "{} nodes", stats.nodes_loaded);
        assert!(stats.map_bytes < before + before / 10, "{}, {before} before", stats.map_bytes);
        engine.close().await.unwrap();
    });
}

#[test]
fn a_scrub_finds_all_damage_that_a_read_can_meet() {
    run(async |runtime| {
        let mut memory = MemoryDevice::of_zones(ZONES, ZONE);
        let (engine, snapshots) = diverged(&runtime, &memory).await;
        // Those go in whose images lies what others have in common with them.
        for number in 0..SNAPSHOTS - 20 {
            engine.delete_snapshot("v", &number.to_string()).await.unwrap();
        }
        engine.collect().await.unwrap();
        engine.close().await.unwrap();
        // Images, and what of them is in the next block.
        let mut images = BTreeSet::new();
        for at in (0..u64::from(ZONES) * ZONE).map(Pba) {
            let block = memory.read(at, AlignedBuf::zeroed(BLOCK as usize)).await.unwrap();
            if block.as_ref().chunks(64).any(|image| image.starts_with(b"MJND")) {
                images.extend([at, at.plus(1)]);
            }
        }
        let mut met = 0;
        for at in images {
            // Where nothing of the map is in memory yet, and where all of it is.
            let mut outcomes = Vec::new();
            for resident in [false, true] {
                memory = memory.reopen();
                let device = Fault::new(memory.clone());
                let control = device.control();
                let options = OpenOptions { read_only: true, ..OpenOptions::default() };
                let damage = || control.damage(at, Damage::Flipped(8 * 1000));
                if !resident {
                    damage();
                }
                let engine = open(device, runtime.clone(), options).await.unwrap();
                outcomes.push(compare(&engine, &snapshots, 300).await);
                if resident {
                    damage();
                }
                outcomes.push(engine.scrub(|_| {}).await.unwrap().damage.is_empty());
                engine.close().await.unwrap();
            }
            match outcomes[..] {
                [false, first, true, then] => {
                    assert!(!first && !then, "{at} was met: {outcomes:?}");
                    met += 1;
                }
                _ => assert!(outcomes[0] && outcomes[2], "{at}: {outcomes:?}"),
            }
        }
        assert!(met > 10, "{met} blocks were met");
    });
}
