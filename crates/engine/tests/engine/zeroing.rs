//! Zeroing at any alignment: what reads as zeroes already stays as it is, a hole a hole, and a block of
//! which nothing but zeroes is left becomes one.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Mapping, Store, ZeroMode};
use mjolnir_units::TreeId;

use crate::support::{BLOCK, Engine, flat, fresh, open, payload, put, run};

const BLOCKS: u64 = 16;

async fn zero(engine: &Engine, tree: TreeId, offset: u64, length: u64) {
    let (mode, durability) = (ZeroMode::KeepAllocated, Durability::Durable);
    engine.write_zeroes(tree, offset, length, mode, durability).await.unwrap();
}

/// The blocks that are mapped.
async fn mapped(engine: &Engine, tree: TreeId) -> Vec<u64> {
    let extents = engine.extents(tree, 0, BLOCKS * BLOCK, 100).await.unwrap();
    let (mut at, mut blocks) = (0, Vec::new());
    for extent in extents {
        if extent.mapping == Mapping::Data {
            blocks.extend(at / BLOCK..(at + extent.length) / BLOCK);
        }
        at += extent.length;
    }
    blocks
}

#[test]
fn a_zeroed_part_of_a_hole_stays_a_hole() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        engine.create_snapshot("v", "empty").await.unwrap();
        for (offset, length) in [(100, 50), (4000, 200), (5, 3 * BLOCK), (BLOCK, 1), (0, 8000)] {
            zero(&engine, volume, offset, length).await;
            assert_eq!(mapped(&engine, volume).await, [0; 0], "{offset}+{length}");
        }
        assert_eq!(engine.stats().accepted_write_bytes, 0);
        let diff = engine.diff("v@empty", "v", 0, 10).await.unwrap();
        assert_eq!(diff.extents, [], "it counts as changed");
        // Beside data only that is changed.
        put(&engine, volume, 2, 7).await.unwrap();
        zero(&engine, volume, BLOCK + 1000, BLOCK).await;
        assert_eq!(mapped(&engine, volume).await, [2]);
        let read = flat(engine.read(volume, 2 * BLOCK, BLOCK).await.unwrap());
        let written = payload(7, 1);
        assert!(read[..1000] == [0; 1000] && read[1000..] == written[1000..]);
        engine.close().await.unwrap();
    });
}

#[test]
fn a_block_of_which_only_zeroes_are_left_becomes_a_hole_for_good() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        for lba in 3..6 {
            put(&engine, volume, lba, lba).await.unwrap();
        }
        let written = engine.stats().accepted_write_bytes;
        // Sector by sector, as some clients do; seven of them are written back, and the last is not.
        for sector in 0..8 {
            zero(&engine, volume, 4 * BLOCK + sector * 512, 512).await;
        }
        assert_eq!(engine.stats().accepted_write_bytes, written + 7 * BLOCK);
        // What is zero already is not written again.
        zero(&engine, volume, 3 * BLOCK, 100).await;
        let written = engine.stats().accepted_write_bytes;
        zero(&engine, volume, 3 * BLOCK + 10, 90).await;
        assert_eq!(engine.stats().accepted_write_bytes, written);
        assert_eq!(mapped(&engine, volume).await, [3, 5]);
        drop(engine);
        let engine = open(device.crash(1), runtime, OpenOptions::default()).await.unwrap();
        assert_eq!(mapped(&engine, volume).await, [3, 5], "it was durable");
        assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
        engine.close().await.unwrap();
    });
}
