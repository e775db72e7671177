//! Reclaim begins while there is still space, without being asked, and rests when there is nothing
//! to win.

use std::time::Duration;

use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::Verb;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::TreeId;

use crate::support::{
    BLOCK, Engine, Held, Random, Tick, fresh, payload, put, run, run_at_cost, soon, tag_of, turns,
};

/// A store of zones of 1,024 blocks with a volume `v`, all of it written.
async fn filled(runtime: &Tick, zones: u32, blocks: u64) -> (Engine, TreeId) {
    filled_with(runtime, zones, blocks, OpenOptions::default()).await
}

async fn filled_with(
    runtime: &Tick,
    zones: u32,
    blocks: u64,
    options: OpenOptions,
) -> (Engine, TreeId) {
    let device = MemoryDevice::of_zones(zones, 1024);
    let engine = fresh(|| device.clone(), runtime, options).await;
    let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap().id;
    for lba in 0..blocks {
        soon("a write", put(&engine, volume, lba, lba)).await.unwrap();
    }
    (engine, volume)
}

#[test]
fn overwriting_for_long_never_waits_for_room() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 128);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 4000 * BLOCK).await.unwrap();
        let mut random = Random(1);
        for step in 0..10_000 {
            soon("a write", put(&engine, volume.id, random.below(4000), step)).await.unwrap();
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
        const BLOCKS: u64 = 30 * 1024;
        const HELD: u64 = 12 * 1024;
        let (engine, volume) = filled(&runtime, 64, BLOCKS).await;
        let mut random = Random(1);
        for step in 0..HELD {
            if step % 1024 == 0 {
                engine.create_snapshot("v", &step.to_string()).await.unwrap();
            }
            soon("a write", put(&engine, volume, random.below(BLOCKS), step)).await.unwrap();
            turns(2).await;
        }
        turns(20_000).await;
        assert!(engine.stats().reclaim_cycles > 0, "no mark knows what is live");
        let free = || engine.stats().space.free_bytes / BLOCK;
        // Much of it may be back before the last of them is gone.
        let wanted = free() + HELD / 2;
        for step in (0..HELD).step_by(1024) {
            engine.delete_snapshot("v", &step.to_string()).await.unwrap();
        }
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

/// What is deleted from a store that had no garbage before, and that nobody writes to, comes back all
/// the same: a mark is made for its sake. Half of each segment is deleted, in small pieces or at once.
async fn what_is_deleted_at_rest_comes_back(runtime: &Tick, trims: bool) {
    const ZONES: u64 = 64;
    const BLOCKS: u64 = ZONES * 1024 * 28 / 100;
    let device = MemoryDevice::of_zones(ZONES as u32, 1024);
    let engine = fresh(|| device.clone(), runtime, OpenOptions::default()).await;
    let kept = engine.create_volume("kept", BLOCKS * BLOCK).await.unwrap().id;
    let gone = engine.create_volume("gone", BLOCKS * BLOCK).await.unwrap().id;
    for lba in 0..BLOCKS {
        soon("a write", put(&engine, kept, lba, lba)).await.unwrap();
        soon("a write", put(&engine, gone, lba, lba)).await.unwrap();
    }
    engine.flush().await.unwrap();
    turns(20_000).await;
    let before = engine.stats();
    assert!(before.reclaim_cycles > 0, "no mark knows what is live");
    assert!(before.space.free_bytes * 2 < before.space.total_bytes);
    assert!(before.pressure < 0.02, "{} presses reclaim to begin", before.pressure);
    if trims {
        for lba in (0..BLOCKS).step_by(512) {
            let blocks = 512.min(BLOCKS - lba);
            engine.trim(gone, lba * BLOCK, blocks * BLOCK, Durability::Buffered).await.unwrap();
        }
    } else {
        soon("deleting", engine.delete_volume("gone", false)).await.unwrap();
    }
    // Down to the start of reclaim, which is half of the store.
    let back = || {
        let space = engine.stats().space;
        (space.free_bytes + space.retiring_bytes) * 100 / space.total_bytes
    };
    for round in 0.. {
        if back() >= 49 {
            break;
        }
        assert!(round < 400, "{} % are free", back());
        turns(500).await;
    }
    assert_eq!(tag_of(&engine, kept, BLOCKS / 2).await, BLOCKS / 2);
    assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
    soon("closing", engine.close()).await.unwrap();
}

#[test]
fn a_volume_that_is_deleted_at_rest_comes_back() {
    run(async |runtime| what_is_deleted_at_rest_comes_back(&runtime, false).await);
}

#[test]
fn ranges_that_are_trimmed_at_rest_come_back() {
    run(async |runtime| what_is_deleted_at_rest_comes_back(&runtime, true).await);
}

/// Where nothing was, nothing comes back: a file system that trims its free space every week does not
/// have the store marked for it.
#[test]
fn trims_of_what_is_not_mapped_start_no_mark() {
    run(async |runtime| {
        const BLOCKS: u64 = 40 * 1024;
        const HOLE: u64 = 1 << 20;
        let (engine, volume) = filled(&runtime, 64, BLOCKS).await;
        let sparse = engine.create_volume("sparse", 2 * HOLE * BLOCK).await.unwrap().id;
        soon("a write", put(&engine, sparse, 2 * HOLE - 1, 1)).await.unwrap();
        turns(20_000).await;
        let before = engine.stats().reclaim_cycles;
        assert!(before > 0, "no mark knows what is live");
        for lba in (0..HOLE).step_by(1 << 16) {
            engine.trim(sparse, lba * BLOCK, BLOCK << 16, Durability::Buffered).await.unwrap();
            turns(100).await;
        }
        engine.trim(sparse, 0, HOLE * BLOCK, Durability::Buffered).await.unwrap();
        turns(20_000).await;
        assert_eq!(engine.stats().reclaim_cycles, before);
        assert_eq!(tag_of(&engine, volume, 7).await, 7);
        soon("closing", engine.close()).await.unwrap();
    });
}

/// Reclaim that waits for its share in the middle of a cycle, since clients have gone, keeps few
/// buffers meanwhile, and hears of one that forces it.
#[test]
fn reclaim_that_waits_for_clients_keeps_few_buffers_and_hears_that_it_is_forced() {
    run(async |runtime| {
        const BLOCKS: u64 = 36 * 1024;
        let options = OpenOptions { memory_bytes: 64 << 20, ..OpenOptions::default() };
        let (engine, volume) = filled_with(&runtime, 48, BLOCKS, options).await;
        let mut random = Random(1);
        let (mut most, mut forced) = (0, 0);
        for step in 0..BLOCKS {
            soon("a write", put(&engine, volume, random.below(BLOCKS), step)).await.unwrap();
            most = most.max(engine.stats().buffer_bytes);
            if step % 1000 == 0 {
                turns(700).await; // Not yet so long that it would give up.
                let stats = engine.stats();
                // A piece to cut buffers from, for reads and for clients.
                assert!(stats.buffer_bytes <= 1 << 20, "{} bytes kept", stats.buffer_bytes);
                // Late, so that it has needed many buffers before.
                if stats.index_bytes > 0 && step > BLOCKS / 2 {
                    soon("a forced reclaim", engine.collect()).await.unwrap();
                    forced += 1;
                }
            }
        }
        assert!(forced > 0 && most > 2 << 20, "forced: {forced}; {most} bytes at most");
        soon("closing", engine.close()).await.unwrap();
    });
}

/// Wherever in a cycle clients stop, reclaim gives up what it held for going on, and does not look
/// again and again; when they come back, so does it.
#[test]
fn reclaim_holds_nothing_where_clients_do_not_come_back() {
    run(async |runtime| {
        const BLOCKS: u64 = 36 * 1024;
        let (engine, volume) = filled(&runtime, 64, BLOCKS).await;
        let mut random = Random(3);
        let mut tags: Vec<u64> = (0..BLOCKS).collect();
        let mut worked = 0;
        for round in 1..60 {
            let before = engine.stats().moved_bytes;
            for step in 0..random.below(1500) {
                let lba = random.below(BLOCKS);
                tags[lba as usize] = round * 10_000 + step;
                soon("a write", put(&engine, volume, lba, tags[lba as usize])).await.unwrap();
                turns(2).await;
            }
            turns(3000).await;
            let stats = engine.stats();
            worked += u64::from(stats.moved_bytes > before);
            let held = stats.index_bytes + stats.relocation_bytes + stats.mark_bytes;
            assert_eq!(held, 0, "round {round}");
            turns(3000).await;
            assert_eq!(engine.stats().reclaim_cycles, stats.reclaim_cycles, "round {round}");
        }
        assert!(worked > 20, "reclaim worked in {worked} rounds only");
        for (lba, tag) in (0..).zip(&tags) {
            assert_eq!(tag_of(&engine, volume, lba).await, *tag);
        }
        assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
        soon("closing", engine.close()).await.unwrap();
    });
}

/// A mark that found nothing to win is followed by a rest, the longer the more it cost; what is deleted
/// meanwhile is won sooner.
#[test]
fn deletions_end_the_rest_after_a_mark_that_found_nothing() {
    run_at_cost(Duration::from_secs(40), async |runtime| {
        const BLOCKS: u64 = 8 * 1024;
        let device = MemoryDevice::of_zones(64, 1024);
        let mut options = OpenOptions::default();
        options.reclaim.start_utilization = 0.1;
        options.reclaim.scan_cpu_max = 1e6; // No rests within a mark, only after it.
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        // Each write has a header to itself: so much looks as if it could be won.
        for (name, tag) in [("a", 1), ("b", 2)] {
            for lba in (0..BLOCKS).step_by(2) {
                let (data, offset) = (payload(tag, 2), lba * BLOCK);
                let written = engine.write(volume, offset, data, Durability::Durable);
                soon("a write", written).await.unwrap();
            }
            engine.create_snapshot("v", name).await.unwrap();
        }
        // It looks again when a segment was taken, but where it rests.
        let (mut cycles, mut quiet) = (engine.stats().reclaim_cycles, 0);
        for lba in 0..BLOCKS {
            soon("a write", put(&engine, volume, lba, lba)).await.unwrap();
            let now = engine.stats().reclaim_cycles;
            quiet = if now > cycles { 0 } else { quiet + 1 };
            cycles = now;
            if cycles > 0 && quiet > 2048 {
                break;
            }
        }
        assert!(cycles > 0 && quiet > 2048, "{cycles} cycles");
        // The last cycle ends when no client has come for long; then it rests.
        turns(1000).await;
        let ended = engine.stats().reclaim_cycles;
        assert!(ended <= cycles + 1, "{ended} cycles after {cycles}");
        turns(1000).await;
        let before = engine.stats();
        assert_eq!(before.reclaim_cycles, ended, "it still rests");
        soon("deleting", engine.delete_snapshot("v", "a")).await.unwrap();
        turns(6000).await;
        let won = engine.stats().segments_reclaimed - before.segments_reclaimed;
        assert!(won > 0, "of a rest of some 16,000 turns");
        soon("closing", engine.close()).await.unwrap();
    });
}

/// What is deleted while reclaim waits for clients, or is about to rest, is won though nobody writes.
#[test]
fn deletions_are_heard_while_reclaim_goes_to_rest() {
    run(async |runtime| {
        const BLOCKS: u64 = 30 * 1024;
        let device = Held::new(MemoryDevice::of_zones(64, 1024));
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        for lba in 0..BLOCKS {
            soon("a write", put(&engine, volume, lba, lba)).await.unwrap();
        }
        let mut random = Random(1);
        for step in 0..8 * 1024 {
            if step % 1024 == 0 {
                engine.create_snapshot("v", &step.to_string()).await.unwrap();
            }
            soon("a write", put(&engine, volume, random.below(BLOCKS), step)).await.unwrap();
            turns(2).await;
        }
        let mut caught = false;
        for _ in 0..60 {
            for step in 0..random.below(1500) {
                soon("a write", put(&engine, volume, random.below(BLOCKS), step)).await.unwrap();
                turns(2).await;
            }
            turns(600).await;
            if engine.stats().index_bytes == 0 {
                continue;
            }
            // It waits within a cycle. No checkpoint becomes durable from now on, so that it goes to
            // rest slowly.
            device.hold(Verb::WriteRoot);
            for _ in 0..40 {
                turns(50).await;
                if engine.stats().index_bytes == 0 {
                    break;
                }
            }
            let stats = engine.stats();
            caught = stats.index_bytes == 0 && stats.space.retiring_bytes > 0;
            if caught {
                break;
            }
            device.release(Verb::WriteRoot);
        }
        assert!(caught, "it never went to rest with something retiring");
        let had = engine.stats().space.free_bytes;
        for step in (0..8 * 1024).step_by(1024) {
            soon("deleting", engine.delete_snapshot("v", &step.to_string())).await.unwrap();
        }
        turns(20).await;
        device.release(Verb::WriteRoot);
        turns(30_000).await;
        // The last few may wait for a checkpoint, which is taken when it is worth it.
        let space = engine.stats().space;
        assert!(space.free_bytes > had, "nothing that was won is free");
        let won = space.free_bytes + space.retiring_bytes;
        soon("collecting", engine.collect()).await.unwrap();
        let all = engine.stats().space.free_bytes;
        assert!(won + 8 * 1024 * BLOCK > all, "{} of {} blocks", won / BLOCK, all / BLOCK);
        soon("closing", engine.close()).await.unwrap();
    });
}
