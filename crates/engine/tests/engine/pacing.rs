//! Reclaim begins while there is still space, without being asked, and rests when there is nothing
//! to win.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::ErrorKind;

use crate::support::{BLOCK, fresh, put, run, soon, turns};

#[test]
fn overwriting_for_long_never_waits_for_room() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 128);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 4000 * BLOCK).await.unwrap();
        let mut x = 1u64;
        for step in 0..10_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            soon("a write", put(&engine, volume.id, (x >> 33) % 4000, step)).await.unwrap();
            turns(2).await;
        }
        let stats = engine.stats();
        assert!(stats.segments_reclaimed > 20, "{} reclaimed", stats.segments_reclaimed);
        assert_eq!(stats.room_waits, 0);
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn a_full_store_at_rest_is_not_marked_again_and_again() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 65536 * BLOCK).await.unwrap();
        let mut lba = 0;
        let error = loop {
            match soon("a write", put(&engine, volume.id, lba, lba)).await {
                Ok(()) => lba += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind, ErrorKind::NoSpace);
        turns(2000).await;
        let before = engine.stats().reclaim_cycles;
        turns(20_000).await;
        let cycles = engine.stats().reclaim_cycles - before;
        assert!(cycles <= 1, "{cycles} cycles over a store that did not change");
        soon("closing", engine.close()).await.unwrap();
    });
}
