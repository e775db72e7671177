//! Recovery finds every segment that was opened since the checkpoint, whatever the checkpoint met
//! when it wrote its list of free ones.

use futures_lite::future::or;
use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::Verb;
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::{Durability, Store};

use crate::support::{
    BLOCK, Held, dropped_after, fresh, open, payload, put, run, soon, tag_of, turns,
};

#[test]
fn a_zone_that_is_being_reset_during_a_checkpoint_stays_in_the_order() {
    run(async |runtime| {
        let device = Held::new(MemoryDevice::of_zones(64, 64));
        let options = OpenOptions {
            reclaim: ReclaimOptions { enabled: false, ..ReclaimOptions::default() },
            ..OpenOptions::default()
        };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", 4096 * BLOCK).await.unwrap();
        // Until a segment is opened, so that the reset task begins with the next zone.
        device.hold(Verb::Reset);
        for lba in 0..70 {
            put(&engine, volume.id, lba, lba + 1).await.unwrap();
        }
        turns(50).await;
        soon("a checkpoint", engine.checkpoint()).await.unwrap();
        device.release(Verb::Reset);
        turns(50).await;
        for lba in 70..700 {
            put(&engine, volume.id, lba, lba + 1).await.unwrap();
        }
        engine.flush().await.unwrap();
        let found = device.inner.crash(1);
        let engine = open(found, runtime.clone(), OpenOptions::default()).await.unwrap();
        for lba in 0..700 {
            assert_eq!(tag_of(&engine, volume.id, lba).await, lba + 1, "block {lba}");
        }
        let stats = engine.stats();
        assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
        assert_eq!(stats.dropped_records, 0);
    });
}

#[test]
fn zones_that_the_device_grew_by_are_found_after_a_crash() {
    for seed in 0..6 {
        run(async |runtime| {
            let device = Held::new(MemoryDevice::of_zones(100, 32));
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let volume = engine.create_volume("v", 3000 * BLOCK).await.unwrap();
            for lba in 0..1800 {
                put(&engine, volume.id, lba, 1).await.unwrap();
            }
            engine.checkpoint().await.unwrap();
            // The device grows while a checkpoint is under way that frees most segments.
            let before = engine.stats().checkpoints;
            device.hold(Verb::WriteRoot);
            let trim = engine.trim(volume.id, 0, 3000 * BLOCK, Durability::Durable);
            trim.await.unwrap();
            dropped_after(3000, engine.collect()).await;
            assert!(engine.stats().space.retiring_bytes > 40 * 32 * BLOCK);
            dropped_after(50, engine.grow(130 * 32 * BLOCK)).await;
            device.release(Verb::WriteRoot);
            while engine.stats().checkpoints == before {
                turns(1).await;
            }
            device.hold(Verb::WriteRoot);
            for lba in 0..2400 {
                put(&engine, volume.id, lba, lba + 2).await.unwrap();
            }
            engine.flush().await.unwrap();
            let found = device.inner.crash(seed);
            let engine = open(found, runtime.clone(), OpenOptions::default()).await.unwrap();
            for lba in 0..2400 {
                assert_eq!(tag_of(&engine, volume.id, lba).await, lba + 2, "block {lba}");
            }
            assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
        });
    }
}

/// A group of moved blocks has no record that a flush is for. Where it lies among clients' groups, what
/// is behind it would not be found without it.
#[test]
fn a_flush_waits_for_moved_blocks_ahead_of_its_records() {
    run(async |runtime| {
        const BLOCKS: u64 = 7 * 1024;
        let device = Held::new(MemoryDevice::of_zones(24, 2048));
        // A segment at a time, so that what is moved fits where clients write.
        let options = OpenOptions {
            placement: "together".to_owned(),
            reclaim: ReclaimOptions { candidates_max: 1, ..ReclaimOptions::default() },
            ..OpenOptions::default()
        };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        for lba in 0..BLOCKS {
            put(&engine, volume, lba, lba).await.unwrap();
        }
        for lba in (0..BLOCKS).step_by(2) {
            put(&engine, volume, lba, lba).await.unwrap();
        }
        engine.flush().await.unwrap();
        turns(1000).await;
        let moved = engine.stats().moved_bytes;
        device.strand(Verb::Append);
        let collecting = async {
            let _ = engine.collect().await;
            std::future::pending().await
        };
        let client = async {
            while engine.stats().moved_bytes < moved + 256 * BLOCK {
                turns(1).await;
            }
            turns(2).await;
            device.unstrand(Verb::Append);
            let written = engine.write(volume, 0, payload(7, 1), Durability::Durable);
            dropped_after(5000, written).await
        };
        let acknowledged = soon("a write", or(collecting, client)).await;
        assert!(!acknowledged, "though what lies ahead of it is not on the medium");
    });
}
