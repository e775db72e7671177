//! No wait is without end: not for space that cannot be won, not behind damage, not after closing,
//! and not for a client that went away.

use mjolnir_device::filter::{Damage, Fault, Verb};
use mjolnir_device::{ErrorKind as DeviceKind, MemoryDevice};
use mjolnir_engine::{OpenOptions, ReclaimOptions, SegmentContent, SegmentInfo};
use mjolnir_store::{Durability, Error, ErrorKind, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{
    BLOCK, Engine, Held, Random, Tick, dropped_after, format, fresh, open, payload, put, run, soon,
    tag_of, turns,
};

async fn fill(engine: &Engine, tree: TreeId) -> (u64, Error) {
    for lba in 0.. {
        if let Err(error) = soon("a write", put(engine, tree, lba, lba + 1)).await {
            return (lba, error);
        }
    }
    unreachable!()
}

#[test]
fn a_full_store_says_so_and_what_is_trimmed_can_be_written_again() {
    for (zones, zone_blocks) in [(24, 32), (32, 64), (40, 128)] {
        for enabled in [true, false] {
            run(async |runtime| {
                let device = MemoryDevice::of_zones(zones, zone_blocks);
                let reclaim = ReclaimOptions { enabled, ..ReclaimOptions::default() };
                let options = OpenOptions { reclaim, paranoid: true, ..OpenOptions::default() };
                let engine = fresh(|| device.clone(), &runtime, options).await;
                let volume = engine.create_volume("v", 65536 * BLOCK).await.unwrap();
                let (full, error) = fill(&engine, volume.id).await;
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                assert!(full > u64::from(zones) * zone_blocks / 2, "only {full} blocks");
                let again = soon("another write", put(&engine, volume.id, full, 1)).await;
                assert_eq!(again.unwrap_err().kind, ErrorKind::NoSpace);
                assert_eq!(engine.stats().failed, None);
                for lba in 0..full {
                    assert_eq!(tag_of(&engine, volume.id, lba).await, lba + 1);
                }
                // Every kind of relief works on a full store, many times over.
                for round in 0..20 {
                    let at = round * BLOCK;
                    let trim = engine.trim(volume.id, at, BLOCK, Durability::Durable);
                    soon("a trim", trim).await.unwrap();
                }
                let length = (full - 20) * BLOCK;
                let trim = engine.trim(volume.id, 20 * BLOCK, length, Durability::Durable);
                soon("a large trim", trim).await.unwrap();
                if enabled {
                    let (refilled, error) = fill(&engine, volume.id).await;
                    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                    assert!(refilled + zone_blocks * 3 > full, "{refilled} after {full}");
                }
                soon("deleting", engine.delete_volume("v", true)).await.unwrap();
                assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
                soon("closing", engine.close()).await.unwrap();
            });
        }
    }
}

#[test]
fn a_full_store_says_so_though_others_trim_what_is_not_there() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(24, 32);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 65536 * BLOCK).await.unwrap();
        let (full, _) = fill(&engine, volume.id).await;
        // Their records take segments, which are given up again, and nothing is won.
        let busy = async {
            loop {
                let trim = engine.trim(volume.id, 60_000 * BLOCK, BLOCK, Durability::Durable);
                soon("a trim", trim).await.unwrap();
            }
        };
        let write = soon("a write", put(&engine, volume.id, full, 1));
        let error = futures_lite::future::or(write, busy).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn one_damaged_block_does_not_hold_up_reclaim() {
    // For good, or so that it may pass.
    [Damage::Unreadable, Damage::Failing].into_iter().for_each(reclaims_beside);
}

fn reclaims_beside(damage: Damage) {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(32, 64);
        format(memory.clone(), &runtime).await;
        let device = Fault::new(memory);
        let control = device.control();
        let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
        let volume = engine.create_volume("v", 600 * BLOCK).await.unwrap();
        for lba in 0..600 {
            put(&engine, volume.id, lba, lba + 1).await.unwrap();
        }
        engine.flush().await.unwrap();
        // One live block is unreadable in a segment of which most is stale.
        for lba in (0..600).filter(|lba| lba % 60 > 3) {
            put(&engine, volume.id, lba, lba + 1).await.unwrap();
        }
        engine.flush().await.unwrap();
        for zone in (0..32).step_by(2) {
            for offset in 2..6 {
                control.damage(Pba(zone * 64 + offset), damage);
            }
        }
        let mut random = Random(1);
        for step in 0..8000u64 {
            let bits = random.bits();
            let lba = 60 * ((bits >> 45) % 10) + 4 + (bits >> 33) % 56;
            soon("a write", put(&engine, volume.id, lba, step)).await.unwrap();
        }
        assert!(control.faults() > 0, "no damage was met");
        assert!(engine.stats().segments_reclaimed > 50);
        let won = soon("collecting", engine.collect()).await.expect("most could be won");
        assert!(won > 0);
        assert_eq!(engine.stats().reclaim_failed, None);
        // What fills a store is not what cannot be won.
        let other = engine.create_volume("other", 2_000 * BLOCK).await.unwrap();
        let refused = async {
            for lba in 0..2_000 {
                if let Err(error) = soon("a write", put(&engine, other.id, lba, 1)).await {
                    return error;
                }
            }
            panic!("the store is not full")
        };
        let refused = refused.await;
        assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
        assert!(refused.message.contains("trim or delete"), "{refused}");
        soon("closing", engine.close()).await.unwrap();
    });
}

/// A store that was closed with much to win, opened without a node of its map in memory; reclaim waits until
/// somebody asks for space.
async fn much_to_win(runtime: &Tick) -> (Fault<MemoryDevice>, MemoryDevice) {
    let memory = MemoryDevice::of_zones(48, 64);
    let engine = fresh(|| memory.clone(), runtime, waiting()).await;
    let volume = engine.create_volume("v", 1200 * BLOCK).await.unwrap();
    for lba in (0..7).flat_map(|first| (first..1200).step_by(7)) {
        put(&engine, volume.id, lba, lba + 1).await.unwrap();
    }
    for lba in (0..1200).step_by(3) {
        put(&engine, volume.id, lba, lba + 1).await.unwrap();
    }
    engine.close().await.unwrap();
    let memory = memory.reopen();
    (Fault::new(memory.clone()), memory)
}

fn waiting() -> OpenOptions {
    let reclaim = ReclaimOptions { start_utilization: 0.99, ..ReclaimOptions::default() };
    OpenOptions { reclaim, ..OpenOptions::default() }
}

/// What a read that failed once would have told is not known; that nothing can be won is not known by it.
#[test]
fn a_read_that_fails_once_makes_no_store_full() {
    run(async |runtime| {
        let mut waited = 0;
        for nth in (1..20).chain((20..200).step_by(10)) {
            let memory = MemoryDevice::of_zones(40, 512);
            format(memory.clone(), &runtime).await;
            let device = Held::new(Fault::new(memory));
            let control = device.inner.control();
            // So little that each mark reads the map anew.
            let options = OpenOptions { memory_bytes: 1 << 16, ..OpenOptions::default() };
            let engine = open(device.clone(), runtime.clone(), options).await.unwrap();
            let volume = engine.create_volume("v", 65536 * BLOCK).await.unwrap().id;
            // Each block is an extent of its own.
            let mut lba = 0;
            while soon("a write", put(&engine, volume, lba * 40_503 % 65536, 1)).await.is_ok() {
                lba += 1;
            }
            let waits = engine.stats().room_waits;
            let trim = engine.trim(volume, 0, 30_000 * BLOCK, Durability::Buffered);
            soon("a trim", trim).await.unwrap();
            control.fail(Verb::Read, nth, DeviceKind::Io, false);
            // The next cycle takes its time.
            let hold = async {
                while control.faults() == 0 {
                    turns(1).await;
                }
                device.hold(Verb::Read);
                turns(1_000).await;
                device.release(Verb::Read);
                std::future::pending().await
            };
            let write = soon("a write", put(&engine, volume, 1, 1));
            match futures_lite::future::or(write, hold).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Io => {}
                Err(error) => panic!("read {nth} failed: {error}"),
            }
            device.release(Verb::Read);
            waited += engine.stats().room_waits - waits;
            soon("another write", put(&engine, volume, 2, 1)).await.unwrap();
            soon("closing", engine.close()).await.unwrap();
        }
        assert!(waited > 10, "{waited}");
    });
}

#[test]
fn who_asks_for_space_hears_why_reclaim_fails() {
    run(async |runtime| {
        let (device, _) = much_to_win(&runtime).await;
        let control = device.control();
        let engine = open(device, runtime.clone(), waiting()).await.unwrap();
        let volume = engine.find("v").unwrap().id;
        for lba in 0..8 {
            put(&engine, volume, lba, 1).await.unwrap();
        }
        let of_map = |segment: &SegmentInfo| segment.content == SegmentContent::Map;
        let mut damaged = Vec::new();
        for segment in engine.segments().into_iter().filter(of_map) {
            damaged.extend((0..64).map(|offset| Pba(u64::from(segment.zone.0) * 64 + offset)));
        }
        damaged.iter().for_each(|pba| control.damage(*pba, Damage::Unreadable));
        let error = soon("collecting", engine.collect()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
        let told = engine.stats().reclaim_failed.expect("it fails still");
        assert!(told.contains("injected damage"), "{told}");
        let refused = async {
            for step in 0.. {
                if let Err(error) = soon("a write", put(&engine, volume, step % 8, 1)).await {
                    return error;
                }
            }
            unreachable!()
        };
        let error = refused.await;
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert!(error.message.contains("injected damage"), "{error}");
        // What cannot be found any more is given up.
        soon("deleting", engine.delete_volume("v", false)).await.unwrap();
        soon("collecting", engine.collect()).await.unwrap();
        let stats = engine.stats();
        assert_eq!(stats.reclaim_failed, None);
        assert!(stats.space.free_bytes > stats.space.total_bytes / 2, "{:?}", stats.space);
        let volume = engine.create_volume("v", 1200 * BLOCK).await.unwrap().id;
        put(&engine, volume, 1, 1).await.unwrap();
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn closing_twice_and_asking_afterwards_end() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        soon("closing", engine.close()).await.unwrap();
        soon("closing again", engine.close()).await.unwrap();
        assert_eq!(
            soon("a checkpoint", engine.checkpoint()).await.unwrap_err().kind,
            ErrorKind::Closed
        );
        assert_eq!(soon("collecting", engine.collect()).await.unwrap_err().kind, ErrorKind::Closed);
        assert_eq!(
            soon("growing", engine.grow(1 << 40)).await.unwrap_err().kind,
            ErrorKind::Closed
        );
    });
}

#[test]
fn a_checkpoint_that_was_asked_for_ends_though_others_follow_at_once() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 128);
        let options = OpenOptions { checkpoint_bytes: 1, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", 600 * BLOCK).await.unwrap();
        let busy = async {
            for step in 0.. {
                put(&engine, volume.id, step % 600, step).await.unwrap();
                turns(1).await;
            }
            unreachable!()
        };
        let checkpoint = soon("a checkpoint", engine.checkpoint());
        futures_lite::future::or(checkpoint, busy).await.unwrap();
    });
}

#[test]
fn clients_that_go_away_while_they_wait_hold_nothing_up() {
    run(async |runtime| {
        let device = Held::new(MemoryDevice::of_zones(32, 64));
        let options = OpenOptions { dirty_bytes_max: 4 * BLOCK, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", 1000 * BLOCK).await.unwrap();
        device.hold(Verb::Append);
        let long = engine.write(volume.id, 0, payload(1, 600), Durability::Durable);
        assert!(!dropped_after(100, long).await);
        device.hold(Verb::Flush);
        device.release(Verb::Append);
        assert!(!dropped_after(100, engine.flush()).await);
        device.release(Verb::Flush);
        soon("a flush", engine.flush()).await.unwrap();
        for round in 0..4 {
            for lba in 0..1000 {
                soon("a write", put(&engine, volume.id, lba, round)).await.unwrap();
            }
        }
        soon("collecting", engine.collect()).await.unwrap();
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn short_segments_that_restarts_leave_are_joined() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(40, 64);
        format(device.clone(), &runtime).await;
        for round in 0..120 {
            let open = open(device.clone(), runtime.clone(), OpenOptions::default());
            let engine = soon("opening", open).await.unwrap();
            if round == 0 {
                engine.create_volume("v", 1000 * BLOCK).await.unwrap();
            }
            let volume = engine.find("v").unwrap();
            soon("a write", put(&engine, volume.id, round, round + 1)).await.unwrap();
            for lba in 0..=round {
                assert_eq!(tag_of(&engine, volume.id, lba).await, lba + 1);
            }
            soon("closing", engine.close()).await.unwrap();
            device = device.reopen();
        }
    });
}
