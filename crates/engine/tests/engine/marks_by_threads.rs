//! A mark by several threads, each with bits of its own, finds live what a mark by one does, of the
//! candidates, too; none goes on once it is given up.

use std::cell::Cell;
use std::rc::Rc;

use mjolnir_device::{MemoryDevice, Runtime};
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::report::Stats;
use mjolnir_store::{Durability, Store};
use mjolnir_units::TreeId;

use crate::support::{
    BLOCK, Engine, Random, Tick, flat, format, open, payload, run_with_threads, soon, turns,
};

const BLOCKS: u64 = 3000;

/// What a store is like whose snapshots have leaves of their own.
#[derive(Clone, Copy)]
struct Setting {
    snapshots: u64,
    memory_bytes: u64,
    /// How full segments may be that are moved. With 0 none is: a collection is a mark and no more.
    threshold: f64,
}

/// Such a store, and what lies in each block of its volume.
async fn with_snapshots(runtime: &Tick, setting: Setting) -> (Engine, TreeId, Vec<u64>) {
    let Setting { snapshots, memory_bytes, threshold } = setting;
    let device = MemoryDevice::of_zones(1600, 256);
    format(device.clone(), runtime).await;
    let options = OpenOptions {
        memory_bytes,
        reclaim: ReclaimOptions { candidate_threshold: threshold, ..ReclaimOptions::default() },
        // After each collection every leaf is asked whether it refers to what is given up.
        paranoid: true,
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
        // Some that stay for long, and some that only this snapshot's leaves will refer to: each leaf counts.
        let (stay, go) = ((snapshot % 50..BLOCKS).step_by(50), (0..BLOCKS).step_by(100));
        for lba in stay.chain(go) {
            put(lba, 200_000 + snapshot * BLOCKS + lba).await;
        }
    }
    (engine, volume.id, tags)
}

/// Collects, and reads everything back. Segments in which nothing is found live are given up, and written
/// over then.
fn stats_after_collection(threads: usize, setting: Setting) -> Stats {
    run_with_threads(threads, async |runtime| {
        let (engine, volume, tags) = with_snapshots(&runtime, setting).await;
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

/// What is found live by one thread and by three.
fn live_bytes(snapshots: u64, memory_bytes: u64) -> u64 {
    let setting = Setting { snapshots, memory_bytes, threshold: 0.0 };
    let [one, three] = [0, 3].map(|threads| stats_after_collection(threads, setting));
    assert_eq!((one.moved_bytes, three.moved_bytes), (0, 0));
    let [one, three] = [one.space, three.space];
    assert_eq!((three.live_bytes, three.stale_bytes), (one.live_bytes, one.stale_bytes));
    one.live_bytes
}

#[test]
fn by_one_thread_or_three() {
    // With little memory, jobs of few leaves; with more, of so many that this thread gathers more than it
    // scans in a turn.
    for (snapshots, memory_bytes) in [(150, 2 << 20), (600, 64 << 20)] {
        let live = live_bytes(snapshots, memory_bytes);
        assert!(live > 60 * snapshots * BLOCK, "{live} of {snapshots} snapshots");
    }
}

#[test]
fn candidates_are_moved_by_what_several_threads_found_live_of_them() {
    let setting = Setting { snapshots: 60, memory_bytes: 2 << 20, threshold: 1.0 };
    let [one, three] = [0, 3].map(|threads| stats_after_collection(threads, setting));
    assert!(one.moved_bytes > 1_000 * BLOCK, "{}", one.moved_bytes);
    assert!(three.moved_bytes > 1_000 * BLOCK, "{}", three.moved_bytes);
}

#[test]
fn a_mark_that_is_given_up_leaves_no_job_behind() {
    run_with_threads(2, async |runtime| {
        let setting = Setting { snapshots: 30, memory_bytes: 2 << 20, threshold: 0.0 };
        let (engine, ..) = with_snapshots(&runtime, setting).await;
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

/// A step that adds all that the jobs found which have ended may be as long as hundreds of others.
#[test]
fn clients_have_their_turn_while_leaves_are_added_to_many_candidates() {
    // By our reckoning: four bytes a leaf, and what the lists of the 32 candidates take at first.
    const A_TURN: u64 = 4 * 4096 + 64 * 32;
    // Jobs of 1024 leaves.
    run_with_threads(0, async |runtime| {
        let setting = Setting { snapshots: 600, memory_bytes: 64 << 20, threshold: 1.0 };
        let (engine, ..) = with_snapshots(&runtime, setting).await;
        // Of all turns, and at once; none once it is to end.
        let most = Rc::new(Cell::new(Some((0, 0))));
        let (watched, told) = (engine.clone(), most.clone());
        runtime.spawn(async move {
            let mut before = 0;
            while let Some((most, at_once)) = told.get() {
                let now = watched.stats().index_bytes;
                let more = now.saturating_sub(std::mem::replace(&mut before, now));
                told.set(Some((now.max(most), more.max(at_once))));
                turns(1).await;
            }
        });
        engine.collect().await.unwrap();
        let (most, at_once) = most.take().unwrap();
        assert!(most > 3 * A_TURN, "{most} bytes were little");
        assert!(at_once <= A_TURN, "{at_once} of {most} bytes at once");
        engine.close().await.unwrap();
    });
}
