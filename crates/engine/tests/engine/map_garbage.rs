//! Snapshots that come and go on a mostly empty store leave copies of map nodes behind, which a
//! mark frees though no space is scarce.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Store};

use crate::support::{format, open, payload, run};

#[test]
fn snapshots_that_come_and_go_do_not_fill_memory() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(1024, 1024);
        format(device.clone(), &runtime).await;
        let engine = open(device, runtime, OpenOptions::default()).await.unwrap();
        let volume = engine.create_volume("v", 1 << 30).await.unwrap();
        let mut most = 0;
        for round in 0..25_000u64 {
            engine.create_snapshot("v", "s").await.unwrap();
            let offset = round * 7919 % 4096 * 4096;
            engine.write(volume.id, offset, payload(round, 1), Durability::Buffered).await.unwrap();
            engine.delete_snapshot("v", "s").await.unwrap();
            most = most.max(engine.stats().map_nodes);
        }
        assert!(most < 36_000, "the map grew to {most} nodes for 4096 blocks");
        engine.close().await.unwrap();
    });
}
