//! What statistics say of space: all of it is somewhere, nothing is stale before it was overwritten,
//! and growing frees nothing.

use mjolnir_device::{Device, MemoryDevice};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, Stats};
use mjolnir_store::{Durability, Store};

use crate::support::{payload, run};

const BLOCK: u64 = 4096;

fn adds_up(stats: &Stats) {
    let space = &stats.space;
    let parts = space.live_bytes
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
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await.unwrap();
        let options = OpenOptions::default;
        let engine = Engine::open(device.clone(), runtime.clone(), options()).await.unwrap();
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
        let engine = Engine::open(device.clone(), runtime.clone(), options()).await.unwrap();
        let stats = engine.stats();
        adds_up(&stats);
        let space = &stats.space;
        assert_eq!(space.live_bytes, 2 * BLOCK, "{space:?}");
        assert!(space.unused_bytes > 100 * BLOCK, "{space:?}");
        assert!(space.stale_bytes < 64 * BLOCK, "old map nodes alone: {space:?}");

        let before = stats.segments_freed;
        let bytes = device.info().bytes();
        engine.grow(2 * bytes).await.unwrap();
        let stats = engine.stats();
        adds_up(&stats);
        assert_eq!(stats.space.total_bytes, 2 * bytes);
        assert!(stats.segments_freed - before < 4, "{} were freed", stats.segments_freed);
        engine.close().await.unwrap();
    });
}
