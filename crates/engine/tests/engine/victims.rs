//! What the victim policy is asked, that it remembers, and that victims are emptied together.

use std::cell::Cell;
use std::rc::Rc;

use mjolnir_device::filter::{Call, Damage, Fault, Record};
use mjolnir_device::{AlignedBuf, Device, MemoryDevice, Runtime};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, ReclaimOptions};
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{BLOCK, Tick, put, run, soon, tag_of, turns};

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
        let engine = Engine::open(device, runtime, options).await.unwrap();
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
async fn half_stale<D: Device>(
    formatted: D,
    runtime: &Tick,
    blocks: u64,
) -> (Engine<D, Tick>, TreeId) {
    let reclaim = ReclaimOptions { start_utilization: 0.99, ..ReclaimOptions::default() };
    let options = OpenOptions { reclaim, ..OpenOptions::default() };
    let engine = Engine::open(formatted, runtime.clone(), options).await.unwrap();
    let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
    // In strides, so that each segment has blocks of the whole volume.
    let strides = (0..7).flat_map(|first| (first..blocks).step_by(7));
    for lba in strides.chain((0..blocks).step_by(2)) {
        put(&engine, volume.id, lba, 1 + lba).await.unwrap();
    }
    engine.checkpoint().await.unwrap();
    (engine, volume.id)
}

/// A formatted device of `zones` zones.
async fn formatted(runtime: &Tick, zones: u32) -> MemoryDevice {
    let device = MemoryDevice::of_zones(zones, 64);
    Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await.unwrap();
    device
}

/// The blocks of such a store are what was written last.
async fn check_stale<D: Device>(engine: &Engine<D, Tick>, tree: TreeId, blocks: u64) {
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

#[test]
fn what_is_trimmed_while_a_mark_runs_is_not_moved() {
    let moved = |trims: bool| {
        run(async |runtime| {
            let (engine, tree) = half_stale(formatted(&runtime, 128).await, &runtime, 300).await;
            engine.checkpoint().await.unwrap();
            let (client, ended) = (engine.clone(), Rc::new(Cell::new(false)));
            let end = ended.clone();
            runtime.spawn(async move {
                // Until a mark has seen the leaves, and which of them refer to candidates.
                while client.stats().mark_bytes == 0 || client.stats().index_bytes == 0 {
                    turns(1).await;
                }
                for lba in (1..300).step_by(4).filter(|_| trims) {
                    client.trim(tree, lba * BLOCK, BLOCK, Durability::Buffered).await.unwrap();
                }
                assert!(client.stats().mark_bytes > 0, "its bits may be of use still");
                end.set(true);
            });
            let won = soon("collecting", engine.collect()).await;
            assert!(ended.get(), "nobody trimmed");
            assert!(won.unwrap() > 2);
            for lba in (1..300).step_by(2) {
                let tag = if trims && lba % 4 == 1 { 0 } else { 1 + lba };
                assert_eq!(tag_of(&engine, tree, lba).await, tag);
            }
            engine.close().await.unwrap();
            engine.stats().moved_bytes / BLOCK
        })
    };
    let (all, rest) = (moved(false), moved(true));
    assert!(all > 100 && rest < all * 2 / 3, "{rest} blocks moved of {all}");
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
