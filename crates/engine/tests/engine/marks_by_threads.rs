//! A mark by several threads, each with bits of its own, finds live what a mark by one does.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::{OpenOptions, ReclaimOptions, SpaceStats};
use mjolnir_store::{Durability, Store};

use crate::support::{BLOCK, Random, flat, format, open, payload, run_with_threads};

const BLOCKS: u64 = 3000;
const SNAPSHOTS: u64 = 150;

/// Fills a volume, gives each snapshot leaves of its own, marks, and reads everything back. Segments in
/// which nothing is found live are given up, and written over then.
fn space_after_mark(threads: usize) -> SpaceStats {
    run_with_threads(threads, async |runtime| {
        let device = MemoryDevice::of_zones(1600, 256);
        format(device.clone(), &runtime).await;
        let options = OpenOptions {
            memory_bytes: 2 << 20,
            // Nothing is moved: a collection is a mark and no more.
            reclaim: ReclaimOptions { candidate_threshold: 0.0, ..ReclaimOptions::default() },
            ..OpenOptions::default()
        };
        let engine = open(device, runtime, options).await.unwrap();
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap();
        let mut random = Random(1);
        let mut tags = vec![0; BLOCKS as usize];
        let mut put = async |lba: u64, tag: u64| {
            tags[lba as usize] = tag;
            engine
                .write(volume.id, lba * BLOCK, payload(tag, 1), Durability::Buffered)
                .await
                .unwrap();
        };
        for tag in 1..6 * BLOCKS {
            put(random.below(BLOCKS), tag).await;
        }
        for lba in 0..BLOCKS {
            put(lba, 100_000 + lba).await;
        }
        for snapshot in 0..SNAPSHOTS {
            engine.create_snapshot("v", &format!("s{snapshot}")).await.unwrap();
            for lba in (snapshot % 50..BLOCKS).step_by(50) {
                put(lba, 200_000 + snapshot * BLOCKS + lba).await;
            }
        }
        engine.collect().await.unwrap();
        let stats = engine.stats();
        assert!(stats.segments_reclaimed > 50, "{} had nothing live", stats.segments_reclaimed);
        for (lba, tag) in (0..).zip(tags) {
            let read = flat(engine.read(volume.id, lba * BLOCK, BLOCK).await.unwrap());
            assert_eq!(read, payload(tag, 1), "block {lba}");
        }
        let report = engine.check().await.unwrap();
        assert_eq!(report.problems.first(), None);
        engine.close().await.unwrap();
        stats.space
    })
}

#[test]
fn by_one_thread_or_three() {
    let (one, three) = (space_after_mark(0), space_after_mark(3));
    assert_eq!((three.live_bytes, three.stale_bytes), (one.live_bytes, one.stale_bytes));
    assert!(one.live_bytes > 10_000 * BLOCK, "{}", one.live_bytes);
}
