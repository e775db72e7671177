//! What statistics say of space: all of it is somewhere, nothing is stale before it was overwritten,
//! and growing frees nothing.

use mjolnir_device::{Device, MemoryDevice};
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::report::Stats;
use mjolnir_store::{Durability, Store};

use crate::support::{format, open, payload, run};

const BLOCK: u64 = 4096;

fn adds_up(stats: &Stats) {
    let space = &stats.space;
    let parts = space.live_bytes
        + space.uncounted_bytes
        + space.stale_bytes
        + space.metadata_bytes
        + space.unused_bytes
        + space.open_bytes
        + space.retiring_bytes
        + space.free_bytes;
    assert_eq!(parts, space.total_bytes, "{space:?}");
}

#[test]
fn what_was_sealed_early_is_unused_and_not_stale() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 128);
        format(device.clone(), &runtime).await;
        let options = OpenOptions::default;
        let engine = open(device.clone(), runtime.clone(), options()).await.unwrap();
        let volume = engine.create_volume("v", 64 * BLOCK).await.unwrap();
        engine.write(volume.id, 0, payload(1, 2), Durability::Durable).await.unwrap();
        engine.checkpoint().await.unwrap();
        let stats = engine.stats();
        adds_up(&stats);
        assert_eq!(stats.space.stale_bytes, 0, "{:?}", stats.space);
        assert!(stats.space.metadata_bytes > 0, "the map lies in a segment that is being filled");
        engine.close().await.unwrap();
        drop(engine);

        let device = device.reopen();
        let engine = open(device.clone(), runtime.clone(), options()).await.unwrap();
        let stats = engine.stats();
        adds_up(&stats);
        let space = &stats.space;
        assert_eq!((space.live_bytes, space.uncounted_bytes), (0, 2 * BLOCK), "{space:?}");
        assert!(space.unused_bytes > 100 * BLOCK, "{space:?}");
        assert!(space.stale_bytes < 64 * BLOCK, "old map nodes alone: {space:?}");

        let before = stats.segments_freed;
        let bytes = device.info().bytes();
        let too_large = engine.grow(1 << 50).await.unwrap_err();
        assert!(too_large.message.contains("larger segments"), "{too_large}");
        assert_eq!(device.info().bytes(), bytes, "the device was asked before");
        engine.grow(2 * bytes).await.unwrap();
        let stats = engine.stats();
        adds_up(&stats);
        assert_eq!(stats.space.total_bytes, 2 * bytes);
        assert!(stats.segments_freed - before < 4, "{} were freed", stats.segments_freed);
        engine.close().await.unwrap();
    });
}

/// Three fifths of a store, written over and over: what nobody has counted yet is no reason for an alarm.
#[test]
fn what_no_mark_has_counted_is_not_called_live_nor_space_low() {
    run(async |runtime| {
        const BLOCKS: u64 = 10_000;
        let device = MemoryDevice::of_zones(64, 256);
        format(device.clone(), &runtime).await;
        // Marks come late.
        let reclaim = ReclaimOptions { start_utilization: 0.85, ..ReclaimOptions::default() };
        let options = OpenOptions { reclaim, ..OpenOptions::default() };
        let engine = open(device, runtime.clone(), options).await.unwrap();
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap();
        let mut uncounted = 0;
        for round in 0..4 {
            for step in 0..BLOCKS {
                let lba = step * 3_571 % BLOCKS;
                let data = payload(round, 1);
                engine.write(volume.id, lba * BLOCK, data, Durability::Buffered).await.unwrap();
                let stats = engine.stats();
                adds_up(&stats);
                let space = &stats.space;
                assert!(!space.low, "round {round}, step {step}: {space:?}");
                assert!(space.live_bytes <= BLOCKS * BLOCK, "{space:?}");
                uncounted = uncounted.max(space.uncounted_bytes);
            }
        }
        assert!(uncounted > 500 * BLOCK, "{uncounted}");
        engine.close().await.unwrap();
    });
}
