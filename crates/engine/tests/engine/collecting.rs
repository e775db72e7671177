//! Reclaim that is asked for by name wins what can be won then, once: beside clients that go on writing
//! it ends, moves nothing in vain, and stops when nobody waits for it any more.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join;
use mjolnir_device::{MemoryDevice, Runtime};
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::{CollectOrder, Collects, Durability, Store};
use mjolnir_units::TreeId;

use crate::support::{
    BLOCK, Engine, Random, Tick, dropped_after, fresh, payload, put, run, soon, tag_of, turns,
};

const BLOCKS: u64 = 6000;

/// A store that is far from full, so that it reclaims nothing by itself, in which every other block is stale.
async fn half_stale(runtime: &Tick) -> (Engine, TreeId) {
    let device = MemoryDevice::of_zones(400, 64);
    let reclaim = ReclaimOptions { start_utilization: 0.99, ..ReclaimOptions::default() };
    let options = OpenOptions { reclaim, ..OpenOptions::default() };
    let engine = fresh(|| device.clone(), runtime, options).await;
    let volume = engine.create_volume("v", 2 * BLOCKS * BLOCK).await.unwrap().id;
    for lba in (0..BLOCKS).chain((0..BLOCKS).step_by(2)) {
        put(&engine, volume, lba, 1 + lba).await.unwrap();
    }
    engine.checkpoint().await.unwrap();
    (engine, volume)
}

/// A client that overwrites the second half of a volume until told to stop, but not so often that the store
/// fills: its task has many turns for one of a test's own.
fn write_on(runtime: &Tick, engine: &Engine, volume: TreeId) -> Rc<Cell<bool>> {
    let (stop, client) = (Rc::new(Cell::new(false)), engine.clone());
    let told = stop.clone();
    runtime.spawn(async move {
        let mut random = Random(1);
        for _ in 0..3000 {
            if told.get() {
                break;
            }
            let lba = BLOCKS + random.below(BLOCKS / 8);
            put(&client, volume, lba, lba).await.unwrap();
            turns(2).await;
        }
    });
    stop
}

#[test]
fn beside_writers_it_ends_and_moves_each_live_block_once_at_most() {
    run(async |runtime| {
        let (engine, volume) = half_stale(&runtime).await;
        let stop = write_on(&runtime, &engine, volume);
        turns(2).await;
        let before = engine.stats();
        let won = soon("collecting", engine.collect_telling()).await.unwrap();
        let after = engine.stats();
        assert!(after.client_write_bytes > before.client_write_bytes, "nobody wrote meanwhile");
        assert!(won.segments > 60, "{won:?}");
        assert_eq!(won.moved_bytes, after.moved_bytes - before.moved_bytes);
        // The live half of what was written at first, what the client had written by then, and a segment that
        // holds a little of what is wholly live.
        let live = BLOCKS / 2 + BLOCKS / 8 + 64;
        assert!(won.moved_bytes <= live * BLOCK, "{} of {live} blocks", won.moved_bytes / BLOCK);
        let written = after.reclaim_write_bytes - before.reclaim_write_bytes;
        assert!(written <= won.moved_bytes * 6 / 5, "{written} for {}", won.moved_bytes);
        // One to plan by, and one for each 32 segments.
        let cycles = after.reclaim_cycles - before.reclaim_cycles;
        assert!(cycles <= 2 + won.segments.div_ceil(32), "{cycles} cycles");
        stop.set(true);
        for lba in 0..BLOCKS {
            assert_eq!(tag_of(&engine, volume, lba).await, 1 + lba);
        }
        assert_eq!(
            soon("collecting", engine.check()).await.unwrap().problems,
            Vec::<String>::new()
        );
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn it_ends_with_its_caller() {
    let cut_short = Cell::new(0);
    for after in [1, 2, 3, 5, 8, 12] {
        run(async |runtime| {
            let (engine, volume) = half_stale(&runtime).await;
            let stop = write_on(&runtime, &engine, volume);
            if dropped_after(after, engine.collect()).await {
                return;
            }
            cut_short.set(cut_short.get() + 1);
            turns(100).await;
            let before = engine.stats();
            assert_eq!(before.index_bytes + before.relocation_bytes, 0, "after {after} turns");
            turns(1000).await;
            let later = engine.stats();
            assert_eq!(later.reclaim_cycles, before.reclaim_cycles, "after {after} turns");
            assert_eq!(later.moved_bytes, before.moved_bytes, "after {after} turns");
            stop.set(true);
            // What is left is won by whoever asks again.
            assert!(soon("collecting", engine.collect()).await.unwrap() > 0);
            for lba in 0..BLOCKS {
                assert_eq!(tag_of(&engine, volume, lba).await, 1 + lba);
            }
            soon("closing", engine.close()).await.unwrap();
        });
    }
    assert!(cut_short.get() >= 2, "{} were cut short", cut_short.get());
}

#[test]
fn callers_share_what_is_done() {
    run(async |runtime| {
        let (engine, volume) = half_stale(&runtime).await;
        let (one, other) =
            soon("collecting", join(engine.collect_telling(), engine.collect_telling())).await;
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one, other);
        assert!(one.segments > 60 && one.moved_bytes <= (BLOCKS / 2 + 64) * BLOCK, "{one:?}");
        assert_eq!(engine.stats().moved_bytes, one.moved_bytes);
        // One that leaves takes nothing from the other.
        for lba in (0..BLOCKS).step_by(3) {
            put(&engine, volume, lba, 1 + lba).await.unwrap();
        }
        let gone = dropped_after(1, engine.collect());
        let (ended, won) = soon("collecting", join(gone, engine.collect())).await;
        assert!(!ended, "it was too short for this test");
        assert!(won.unwrap() > 20);
        soon("closing", engine.close()).await.unwrap();
    });
}

/// Short groups fill a segment with headers to a quarter. What is in it is live all the same, and to move it
/// round would win next to nothing.
#[test]
fn what_is_wholly_live_is_not_moved() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(400, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        for lba in (0..BLOCKS / 2).step_by(3) {
            let written = engine.write(volume, lba * BLOCK, payload(lba, 3), Durability::Durable);
            written.await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        let won = soon("collecting", engine.collect_telling()).await.unwrap();
        assert_eq!((won.segments, won.moved_bytes), (0, 0));
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn reclaim_is_held_back_until_space_is_scarce_and_collects_up_to_a_target_when_told() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 1200 * BLOCK).await.unwrap().id;
        let before = engine.pressure();
        assert_eq!(before.total_bytes, 64 * 64 * BLOCK);
        assert!(before.hard_bytes <= before.soft_bytes && before.soft_bytes < before.total_bytes);
        assert!(engine.order(CollectOrder::Hold).await.unwrap().held);
        let overwrite = async |blocks: u64| {
            for block in 0..blocks {
                put(&engine, volume, block * 7 % 1200, 1 + block).await.unwrap();
            }
        };
        while engine.pressure().free_bytes > before.hard_bytes + 6 * 64 * BLOCK {
            overwrite(16).await;
            assert_eq!(engine.stats().segments_reclaimed, 0, "it was told to hold");
        }
        let scarce = engine.pressure();
        assert!(scarce.free_bytes < scarce.soft_bytes && scarce.winnable_bytes > 0, "{scarce:?}");
        // Below the hard threshold it begins all the same, and nobody runs out of space.
        overwrite(4 * 1200).await;
        assert!(engine.stats().segments_reclaimed > 0);
        let target = engine.pressure().free_bytes + 8 * 64 * BLOCK;
        let order = CollectOrder::Collect { free_bytes: target };
        let after = engine.order(order).await.unwrap();
        assert!(after.free_bytes >= target && !after.held, "{target} of {after:?}");
        let moved = engine.stats().moved_bytes;
        let again = engine.order(order).await.unwrap();
        assert_eq!(engine.stats().moved_bytes, moved, "there was nothing to do: {again:?}");
        // More than there can be ends as well.
        engine.order(CollectOrder::Collect { free_bytes: u64::MAX }).await.unwrap();
        engine.order(CollectOrder::Free).await.unwrap();
        assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
        engine.close().await.unwrap();
    });
}
