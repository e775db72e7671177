//! A store filled to its last block by snapshots that all differ: deleting them gives the room
//! back, and the volume can be written anew, again and again.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, ErrorKind, Op, Store};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::support::{BLOCK, flat, format, open, payload, run_with_threads};

const ZONES: u32 = 64;

/// A volume of an eighth of the store, with `writes` random blocks before each snapshot.
fn fill_and_empty(zone_blocks: u64, writes: u64) {
    let blocks = zone_blocks * u64::from(ZONES) / 8;
    run_with_threads(2, async |runtime| {
        let device = MemoryDevice::of_zones(ZONES, zone_blocks);
        format(device.clone(), &runtime).await;
        let engine = open(device, runtime, OpenOptions::default()).await.unwrap();
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        let put = async |lba: u64, tag: u64| {
            engine.write(volume.id, lba * BLOCK, payload(tag, 1), Durability::Buffered).await
        };
        let mut random = Pcg64::seed_from_u64(writes);
        let mut tags = vec![0; blocks as usize];
        for round in 1..4 {
            for lba in 0..blocks {
                tags[lba as usize] = round * 1000 + lba;
                put(lba, tags[lba as usize]).await.unwrap();
            }
            let mut snapshots = 0;
            let full = loop {
                if let Err(error) = engine.create_snapshot("v", &format!("s{snapshots}")).await {
                    break error;
                }
                snapshots += 1;
                let mut failed = None;
                for _ in 0..writes {
                    let lba = random.next_u64() % blocks;
                    let tag = 100_000 * round + random.next_u64() % 1000;
                    match put(lba, tag).await {
                        Ok(()) => tags[lba as usize] = tag,
                        Err(error) => failed = Some(error),
                    }
                }
                if let Some(error) = failed {
                    break error;
                }
            };
            assert_eq!(full.kind, ErrorKind::NoSpace, "{full}");
            // What frees space is accepted, by itself and in a vector.
            let trim = Op::Trim { of: volume.id, offset: 0, length: BLOCK };
            engine.atomic(vec![trim], Durability::Buffered).await.unwrap();
            for index in 0..snapshots {
                engine.delete_snapshot("v", &format!("s{index}")).await.unwrap();
            }
            put(0, tags[0]).await.unwrap();
            for lba in 0..blocks {
                let bytes = flat(engine.read(volume.id, lba * BLOCK, BLOCK).await.unwrap());
                assert!(bytes == payload(tags[lba as usize], 1), "block {lba}");
            }
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn one_block_a_snapshot() {
    fill_and_empty(64, 1);
}

#[test]
fn few_blocks_a_snapshot_in_tiny_segments() {
    fill_and_empty(32, 7);
    fill_and_empty(32, 1);
}

#[test]
fn many_blocks_a_snapshot() {
    fill_and_empty(256, 100);
}
