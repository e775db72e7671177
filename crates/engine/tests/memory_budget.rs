//! The memory budget is kept under random writes, and a store works, slowly, in almost none.

mod support;

use mjolnir_device::MemoryDevice;
use mjolnir_engine::{Engine, OpenOptions};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use support::{BLOCK, fresh, put, run, tag_of};

#[test]
fn random_writes_keep_to_the_budget() {
    run(async |runtime| {
        let budget = 8 << 20;
        let device = MemoryDevice::of_zones(96, 4096);
        let options = OpenOptions { memory_bytes: budget, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let blocks = 1 << 18;
        let volume = {
            use mjolnir_store::Store;
            engine.create_volume("v", blocks * BLOCK).await.unwrap();
            engine.find("v").unwrap()
        };
        let mut random = Pcg64::seed_from_u64(5);
        let mut most = 0;
        for round in 0..150_000u64 {
            put(&engine, volume.id, random.next_u64() % blocks, round).await.unwrap();
            if round % 100 == 0 {
                most = most.max(engine.stats().memory_bytes);
            }
        }
        assert!(most <= budget + budget / 4, "{most} bytes were used of {budget}");
        engine.close().await.unwrap();
    });
}

#[test]
fn a_store_is_read_with_room_for_no_checksums() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 4096 * BLOCK).await.unwrap();
        for lba in 0..4096 {
            put(&engine, volume.id, lba * 2039 % 4096, lba).await.unwrap();
        }
        engine.close().await.unwrap();
        let options = OpenOptions { memory_bytes: 512, ..OpenOptions::default() };
        let engine = Engine::open(device.reopen(), runtime.clone(), options).await.unwrap();
        for lba in 0..4096 {
            assert_eq!(tag_of(&engine, volume.id, lba * 2039 % 4096).await, lba);
        }
        engine.close().await.unwrap();
    });
}
