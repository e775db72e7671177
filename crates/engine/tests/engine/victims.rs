//! What the victim policy is asked, that it remembers, and that victims are emptied together.

use std::cell::Cell;
use std::rc::Rc;

use mjolnir_device::filter::{Call, Damage, Fault, Record};
use mjolnir_device::{AlignedBuf, Device, MemoryDevice, Runtime};
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::{Durability, ErrorKind, Op, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{BLOCK, Engine, Tick, format, open, put, run, soon, tag_of, turns};

/// Between equals, chance decides anew each time: a policy that is made anew for each choice would
/// draw the same number again and again.
#[test]
fn a_policy_that_draws_goes_on_drawing() {
    run(async |runtime| {
        let device = formatted(&runtime, 128).await;
        let reclaim = ReclaimOptions {
            policy: "random".into(),
            candidates_max: 1,
            start_utilization: 0.99,
            ..ReclaimOptions::default()
        };
        let options = OpenOptions { reclaim, ..OpenOptions::default() };
        let device = Record::new(device);
        let log = device.log();
        let engine = open(device, runtime, options).await.unwrap();
        let blocks = 2000;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        for lba in (0..blocks).chain((0..blocks).step_by(2)) {
            put(&engine, volume.id, lba, lba).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        log.take();
        engine.collect().await.unwrap();
        // Before a victim is emptied, its summary is read: the first group's header first.
        let mut victims = Vec::new();
        for call in log.calls() {
            if let Call::Read { from, blocks: 1 } = call
                && from.0 % 64 == 1
                && !victims.contains(&(from.0 / 64))
            {
                victims.push(from.0 / 64);
            }
        }
        assert!(victims.len() > 20, "{victims:?}");
        let mut sorted = victims.clone();
        sorted.sort();
        let middle = sorted[sorted.len() / 2];
        let low = victims[..10].iter().filter(|zone| **zone < middle).count();
        assert!((1..10).contains(&low), "{low} of ten lie in the lower half: {victims:?}");
        engine.close().await.unwrap();
    });
}

/// Fills a store so that its blocks of odd numbers are live, each beside a stale one: every leaf refers
/// to every segment.
async fn half_stale<D: Device>(formatted: D, runtime: &Tick, blocks: u64) -> (Engine, TreeId) {
    let (engine, tree) = full(formatted, runtime, blocks).await;
    make_half_stale(&engine, tree, blocks).await;
    (engine, tree)
}

/// The same before anything is stale.
async fn full<D: Device>(formatted: D, runtime: &Tick, blocks: u64) -> (Engine, TreeId) {
    let reclaim = ReclaimOptions { start_utilization: 0.99, ..ReclaimOptions::default() };
    let options = OpenOptions { reclaim, ..OpenOptions::default() };
    let engine = open(formatted, runtime.clone(), options).await.unwrap();
    let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
    // In strides, so that each segment has blocks of the whole volume.
    for lba in (0..7).flat_map(|first| (first..blocks).step_by(7)) {
        put(&engine, volume.id, lba, 1 + lba).await.unwrap();
    }
    (engine, volume.id)
}

async fn make_half_stale(engine: &Engine, tree: TreeId, blocks: u64) {
    for lba in (0..blocks).step_by(2) {
        put(engine, tree, lba, 1 + lba).await.unwrap();
    }
    engine.checkpoint().await.unwrap();
}

/// A formatted device of `zones` zones.
async fn formatted(runtime: &Tick, zones: u32) -> MemoryDevice {
    let device = MemoryDevice::of_zones(zones, 64);
    format(device.clone(), runtime).await;
    device
}

/// The blocks of such a store are what was written last.
async fn check_stale(engine: &Engine, tree: TreeId, blocks: u64) {
    for lba in 0..blocks {
        assert_eq!(tag_of(engine, tree, lba).await, 1 + lba);
    }
}

#[test]
fn a_leaf_is_repointed_once_for_several_victims() {
    run(async |runtime| {
        let (engine, tree) = half_stale(formatted(&runtime, 128).await, &runtime, 2000).await;
        engine.collect().await.unwrap();
        let stats = engine.stats();
        let (victims, leaves) = (stats.segments_reclaimed, stats.map_leaves);
        assert!(victims > 25, "{victims} victims");
        let repointed = stats.leaves_repointed;
        assert!(repointed <= victims * leaves / 4, "{repointed} for {victims} of {leaves} leaves");
        check_stale(&engine, tree, 2000).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_damaged_victim_is_left_as_it_is_and_the_others_of_its_batch_are_emptied() {
    run(async |runtime| {
        let memory = formatted(&runtime, 128).await;
        let device = Fault::new(memory.clone());
        let control = device.control();
        let (engine, tree) = half_stale(device, &runtime, 2000).await;
        let mut damaged = Vec::new();
        for pba in (0..128 * 64).map(Pba) {
            let block = memory.read(pba, AlignedBuf::zeroed(BLOCK as usize)).await.unwrap();
            for lba in [301_u64, 1501] {
                if block.as_ref()[..8] == ((1 + lba) * 1_000_003).to_le_bytes() {
                    control.damage(pba, Damage::Unreadable);
                    damaged.push(lba);
                }
            }
        }
        assert_eq!(damaged.len(), 2, "an odd block lies in one place");
        engine.collect().await.unwrap();
        let stats = engine.stats();
        assert!(stats.segments_reclaimed > 25, "{} victims", stats.segments_reclaimed);
        assert!((1..=2).contains(&stats.copy_forward_failures), "each is tried once");
        for lba in 0..2000 {
            if damaged.contains(&lba) {
                let read = engine.read(tree, lba * BLOCK, BLOCK).await;
                assert_eq!(read.map_err(|error| error.kind), Err(ErrorKind::Damaged));
            } else {
                assert_eq!(tag_of(&engine, tree, lba).await, 1 + lba);
            }
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn collecting_ends_when_a_mark_has_left_nothing_to_select() {
    run(async |runtime| {
        let (engine, tree) = half_stale(formatted(&runtime, 32).await, &runtime, 70).await;
        let before = engine.stats();
        let won = engine.collect().await.unwrap();
        let after = engine.stats();
        assert!(won > 0);
        // One mark to choose by, one to find who refers to what was chosen.
        assert_eq!(after.reclaim_cycles - before.reclaim_cycles, 2, "{won} segments");
        assert_eq!(after.checkpoints - before.checkpoints, 1, "it frees them all");
        assert_eq!(after.space.retiring_bytes, 0);
        check_stale(&engine, tree, 70).await;
        engine.close().await.unwrap();
    });
}

/// How many blocks a collection, the second, moves of `blocks` half stale ones, of which every `trimmed`th
/// is trimmed while its mark runs; the first live one is referred to `twice` if so.
fn moved_of(blocks: u64, trimmed: Option<usize>, twice: bool) -> u64 {
    run(async |runtime| {
        let (engine, tree) = full(formatted(&runtime, 128).await, &runtime, blocks).await;
        // Its mark finds that nothing is referred to twice.
        assert_eq!(engine.collect().await.unwrap(), 0);
        make_half_stale(&engine, tree, blocks).await;
        if twice {
            let (from, to, length) = (tree, tree, BLOCK);
            let clone = Op::Clone { from, from_offset: BLOCK, to, to_offset: 0, length };
            engine.atomic(vec![clone], Durability::Buffered).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        let (client, ended) = (engine.clone(), Rc::new(Cell::new(false)));
        let end = ended.clone();
        let trims: Vec<u64> = trimmed.map_or(vec![], |step| (5..blocks).step_by(step).collect());
        let to_trim = trims.clone();
        runtime.spawn(async move {
            // Until a mark has seen the leaves, and which of them refer to candidates.
            while client.stats().mark_bytes == 0 || client.stats().index_bytes == 0 {
                turns(1).await;
            }
            for lba in to_trim {
                client.trim(tree, lba * BLOCK, BLOCK, Durability::Buffered).await.unwrap();
            }
            assert!(client.stats().mark_bytes > 0, "its bits may be of use still");
            end.set(true);
        });
        let won = soon("collecting", engine.collect()).await;
        assert!(ended.get(), "nobody trimmed");
        assert!(won.unwrap() > 2);
        for lba in (1..blocks).step_by(2) {
            let tag = if trims.contains(&lba) { 0 } else { 1 + lba };
            assert_eq!(tag_of(&engine, tree, lba).await, tag);
        }
        engine.close().await.unwrap();
        engine.stats().moved_bytes / BLOCK
    })
}

#[test]
fn what_is_trimmed_while_a_mark_runs_is_not_moved() {
    for twice in [false, true] {
        let (all, rest) = (moved_of(300, None, twice), moved_of(300, Some(4), twice));
        assert!(all > 100 && rest < all * 2 / 3, "{rest} blocks moved of {all}");
    }
}

/// Where nothing is referred to twice, what a mark found is corrected by what was displaced. Else that
/// may be live still: a little of it is moved, rather than that all leaves are asked.
#[test]
fn batches_go_by_what_the_mark_found() {
    let (all, but_one) = (moved_of(300, None, false), moved_of(300, Some(300), false));
    assert_eq!(but_one, all - 1);
    let (all, in_vain) = (moved_of(300, None, true), moved_of(300, Some(300), true));
    assert_eq!(in_vain, all);
}

/// A leaf that a snapshot shares is one leaf to a mark, until a write to it makes two.
#[test]
fn what_a_snapshot_still_has_is_moved_though_it_was_displaced() {
    run(async |runtime| {
        const BLOCKS: u64 = 300;
        let (engine, _) = full(formatted(&runtime, 128).await, &runtime, 2).await;
        let v = engine.create_volume("a", BLOCKS * BLOCK).await.unwrap().id;
        let u = engine.create_volume("b", BLOCKS * BLOCK).await.unwrap().id;
        for lba in 0..BLOCKS {
            put(&engine, v, lba, 1 + lba).await.unwrap();
            put(&engine, u, lba, 2).await.unwrap();
        }
        let snapshot = engine.create_snapshot("a", "s").await.unwrap().id;
        // Its mark sees each block once.
        assert_eq!(engine.collect().await.unwrap(), 0);
        make_half_stale(&engine, u, BLOCKS).await;
        let (client, ended) = (engine.clone(), Rc::new(Cell::new(false)));
        let end = ended.clone();
        runtime.spawn(async move {
            while client.stats().mark_bytes == 0 || client.stats().index_bytes == 0 {
                turns(1).await;
            }
            for lba in (1..BLOCKS).step_by(2) {
                put(&client, v, lba, 1_000_000 + lba).await.unwrap();
            }
            end.set(true);
        });
        assert!(soon("collecting", engine.collect()).await.unwrap() > 0 && ended.get());
        assert_eq!(engine.stats().copy_forward_failures, 0);
        for lba in 0..BLOCKS {
            let now = if lba % 2 == 1 { 1_000_000 + lba } else { 1 + lba };
            assert_eq!(tag_of(&engine, v, lba).await, now);
            assert_eq!(tag_of(&engine, snapshot, lba).await, 1 + lba);
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn collecting_gives_back_what_the_map_of_deleted_snapshots_took() {
    run(async |runtime| {
        let blocks = 4000;
        let (engine, tree) = half_stale(formatted(&runtime, 256).await, &runtime, blocks).await;
        engine.collect().await.unwrap();
        for number in 0..30 {
            engine.create_snapshot("v", &number.to_string()).await.unwrap();
            for lba in (number..blocks).step_by(200) {
                engine.trim(tree, lba * BLOCK, BLOCK, Durability::Buffered).await.unwrap();
            }
            engine.checkpoint().await.unwrap();
        }
        let full = engine.stats().space.free_bytes;
        for number in 0..30 {
            engine.delete_snapshot("v", &number.to_string()).await.unwrap();
        }
        engine.collect().await.unwrap();
        let won = engine.stats().space.free_bytes;
        assert!(won > full, "{won} bytes are free, {full} were");
        engine.checkpoint().await.unwrap();
        assert_eq!(engine.stats().space.free_bytes, won, "a checkpoint wins no more");
        engine.close().await.unwrap();
    });
}
