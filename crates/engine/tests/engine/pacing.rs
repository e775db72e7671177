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

/// Whoever deletes snapshots wants their space back, though clients write nothing and space is not
/// scarce.
#[test]
fn the_space_of_deleted_snapshots_comes_back_though_nobody_writes() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let blocks = 30 * 1024;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        for lba in 0..blocks {
            soon("a write", put(&engine, volume.id, lba, lba)).await.unwrap();
        }
        let mut x = 1u64;
        const HELD: u64 = 12 * 1024;
        for step in 0..HELD {
            if step % 1024 == 0 {
                engine.create_snapshot("v", &step.to_string()).await.unwrap();
            }
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            soon("a write", put(&engine, volume.id, (x >> 33) % blocks, step)).await.unwrap();
            turns(2).await;
        }
        turns(20_000).await;
        let (waiting, free) = (engine.stats(), || engine.stats().space.free_bytes / BLOCK);
        assert!(waiting.reclaim_cycles > 0, "no mark knows what is live");
        for step in (0..HELD).step_by(1024) {
            engine.delete_snapshot("v", &step.to_string()).await.unwrap();
        }
        let wanted = free() + HELD / 2;
        for round in 0.. {
            if free() >= wanted {
                break;
            }
            assert!(round < 400, "{} blocks to go", wanted - free());
            turns(500).await;
        }
        soon("closing", engine.close()).await.unwrap();
    });
}

/// Reclaim that waits for its share in the middle of a cycle, since clients have gone, keeps few
/// buffers meanwhile.
#[test]
fn reclaim_that_waits_for_clients_keeps_few_buffers() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(48, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let blocks = 36 * 1024;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        let mut x = 1u64;
        let (mut most, mut waited) = (0, false);
        for step in 0..2 * blocks {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let lba = if step < blocks { step } else { (x >> 33) % blocks };
            soon("a write", put(&engine, volume.id, lba, step)).await.unwrap();
            most = most.max(engine.stats().buffer_bytes);
            if step > blocks && step % 1000 == 0 {
                turns(3000).await;
                let stats = engine.stats();
                waited |= stats.index_bytes > 0;
                assert!(stats.buffer_bytes <= 1 << 20, "{} bytes kept", stats.buffer_bytes);
            }
        }
        assert!(waited && most > 2 << 20, "waited: {waited}; {most} bytes at most");
        soon("closing", engine.close()).await.unwrap();
    });
}

/// One that is forced to reclaim is heard by a reclaim that waits within a cycle for clients.
#[test]
fn a_reclaim_that_waits_for_clients_hears_that_it_is_forced() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(48, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let blocks = 36 * 1024;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        let mut x = 1u64;
        let mut step = 0;
        loop {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let lba = if step < blocks { step } else { (x >> 33) % blocks };
            soon("a write", put(&engine, volume.id, lba, step)).await.unwrap();
            step += 1;
            if step > blocks && step % 100 == 0 {
                turns(2000).await;
                if engine.stats().index_bytes > 0 {
                    break;
                }
            }
        }
        soon("a forced reclaim", engine.collect()).await.unwrap();
        soon("closing", engine.close()).await.unwrap();
    });
}
