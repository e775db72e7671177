//! A mark by several threads, each with bits of its own, finds live what a mark by one does, of the
//! candidates, too; none goes on once it is given up.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::{OpenOptions, ReclaimOptions, Stats};
use mjolnir_store::{Durability, Store};
use mjolnir_units::TreeId;

use crate::support::{
    BLOCK, Engine, Random, Tick, flat, format, open, payload, run_with_threads, soon, turns,
};

const BLOCKS: u64 = 3000;

/// A store whose snapshots have leaves of their own, and what lies in each block of its volume. `threshold` is
/// how full segments may be that are moved.
async fn with_snapshots(
    runtime: &Tick,
    snapshots: u64,
    threshold: f64,
) -> (Engine, TreeId, Vec<u64>) {
    let device = MemoryDevice::of_zones(1600, 256);
    format(device.clone(), runtime).await;
    let options = OpenOptions {
        memory_bytes: 2 << 20,
        reclaim: ReclaimOptions { candidate_threshold: threshold, ..ReclaimOptions::default() },
        ..OpenOptions::default()
    };
    let engine = open(device, runtime.clone(), options).await.unwrap();
    let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap();
    let mut random = Random(1);
    let mut tags = vec![0; BLOCKS as usize];
    let mut put = async |lba: u64, tag: u64| {
        tags[lba as usize] = tag;
        let data = payload(tag, 1);
        engine.write(volume.id, lba * BLOCK, data, Durability::Buffered).await.unwrap();
    };
    for tag in 1..6 * BLOCKS {
        put(random.below(BLOCKS), tag).await;
    }
    for lba in 0..BLOCKS {
        put(lba, 100_000 + lba).await;
    }
    for snapshot in 0..snapshots {
        engine.create_snapshot("v", &format!("s{snapshot}")).await.unwrap();
        for lba in (snapshot % 50..BLOCKS).step_by(50) {
            put(lba, 200_000 + snapshot * BLOCKS + lba).await;
        }
    }
    (engine, volume.id, tags)
}

/// Collects, and reads everything back. Segments in which nothing is found live are given up, and written
/// over then.
fn stats_after_collection(threads: usize, snapshots: u64, threshold: f64) -> Stats {
    run_with_threads(threads, async |runtime| {
        let (engine, volume, tags) = with_snapshots(&runtime, snapshots, threshold).await;
        engine.collect().await.unwrap();
        let stats = engine.stats();
        assert!(stats.segments_reclaimed > 50, "{} were given up", stats.segments_reclaimed);
        for (lba, tag) in (0..).zip(tags) {
            let read = flat(engine.read(volume, lba * BLOCK, BLOCK).await.unwrap());
            assert_eq!(read, payload(tag, 1), "block {lba}");
        }
        let report = engine.check().await.unwrap();
        assert_eq!(report.problems.first(), None);
        engine.close().await.unwrap();
        stats
    })
}

#[test]
fn by_one_thread_or_three() {
    // Nothing is moved: a collection is a mark and no more.
    let [one, three] = [0, 3].map(|threads| stats_after_collection(threads, 150, 0.0));
    assert_eq!((one.moved_bytes, three.moved_bytes), (0, 0));
    let [one, three] = [one.space, three.space];
    assert_eq!((three.live_bytes, three.stale_bytes), (one.live_bytes, one.stale_bytes));
    assert!(one.live_bytes > 10_000 * BLOCK, "{}", one.live_bytes);
}

#[test]
fn candidates_are_moved_by_what_several_threads_found_live_of_them() {
    let [one, three] = [0, 3].map(|threads| stats_after_collection(threads, 8, 1.0));
    assert!(one.moved_bytes > 1_000 * BLOCK, "{}", one.moved_bytes);
    assert!(three.moved_bytes > 1_000 * BLOCK, "{}", three.moved_bytes);
}

#[test]
fn a_mark_that_is_given_up_leaves_no_job_behind() {
    run_with_threads(2, async |runtime| {
        let (engine, ..) = with_snapshots(&runtime, 30, 0.0).await;
        let mut collecting = Box::pin(engine.collect());
        let begun = async {
            while runtime.jobs() == 0 {
                turns(1).await;
            }
        };
        let other = async {
            let _ = collecting.as_mut().await;
            panic!("the mark ended before it was given up");
        };
        soon("a job", futures_lite::future::or(begun, other)).await;
        soon("closing", engine.close()).await.unwrap();
        assert_eq!(runtime.jobs(), 0);
    });
}
