//! A device that is away for a while, or has no space: requests wait, and all is as before once that is over. If it
//! lasts, changes are refused until then.

use std::time::Duration;

use futures_lite::future::{or, poll_once};
use mjolnir_device::filter::{Damage, Delay, DelayOptions, Fault, Verb};
use mjolnir_device::{AlignedBuf, Device, ErrorKind as DeviceKind, MemoryDevice, Runtime};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{ErrorKind, Store};
use mjolnir_units::Pba;

use crate::support::failing::{Failing, flushing_again};
use crate::support::{BLOCK, Tick, format, open, put, run, soon, tag_of, turns};

async fn world(runtime: &Tick, patience: Duration) -> Failing {
    let options = OpenOptions { patience, ..OpenOptions::default() };
    let world = Failing::new(runtime, flushing_again(60, 128), options).await;
    for lba in 0..200 {
        world.put(lba, lba + 1).await;
    }
    world.flush().await;
    world
}

#[test]
fn requests_wait_while_the_device_is_away_and_then_all_are_served() {
    run(async |runtime| {
        for round in 0..6 {
            let world = world(&runtime, Duration::from_secs(3600)).await;
            for lba in 0..round * 10 {
                put(&world.engine, world.volume, lba, lba + 1000).await.unwrap();
            }
            world.away(true);
            for lba in 0..100 {
                soon("a write", put(&world.engine, world.volume, lba, lba + 2000)).await.unwrap();
            }
            let mut flush = Box::pin(world.engine.flush());
            let mut checkpoint = Box::pin(world.engine.checkpoint());
            let mut read = Box::pin(tag_of(&world.engine, world.volume, 150));
            for _ in 0..30 {
                assert!(poll_once(&mut flush).await.is_none());
                assert!(poll_once(&mut checkpoint).await.is_none());
                assert!(poll_once(&mut read).await.is_none());
                world.pass(1).await;
            }
            assert!(world.engine.stats().outage.is_some_and(|why| why.contains("requests wait")));
            world.away(false);
            soon("the flush", flush).await.unwrap();
            soon("the checkpoint", checkpoint).await.unwrap();
            assert_eq!(soon("the read", read).await, 151);
            world.expect(world.volume, 0, &(2000..2100).collect::<Vec<_>>()).await;
            let stats = world.engine.stats();
            assert_eq!((stats.outage, stats.outages, stats.segments_bad), (None, 1, 0));
            assert_eq!(world.engine.check().await.unwrap().problems, [""; 0]);
            let memory = world.memory.crash(round);
            drop(world);
            let engine = open(memory, runtime.clone(), OpenOptions::default()).await.unwrap();
            let volume = engine.find("v").unwrap().id;
            for lba in 0..100 {
                assert_eq!(tag_of(&engine, volume, lba).await, lba + 2000);
            }
        }
    });
}

#[test]
fn a_long_outage_ends_in_refusals_and_the_store_goes_on_once_it_is_over() {
    run(async |runtime| {
        for lack in [DeviceKind::Gone, DeviceKind::NoSpace] {
            let world = world(&runtime, Duration::from_secs(60)).await;
            match lack {
                DeviceKind::Gone => world.away(true),
                lack => world.control.fail_all(Verb::Append, Some(lack)),
            }
            put(&world.engine, world.volume, 0, 500).await.unwrap();
            let kind = match lack {
                DeviceKind::Gone => ErrorKind::Io,
                _ => ErrorKind::NoSpace,
            };
            let refused = soon("the flush", world.engine.flush()).await.unwrap_err();
            assert_eq!(refused.kind, kind, "{refused}");
            let refused = put(&world.engine, world.volume, 1, 501).await.unwrap_err();
            assert!(refused.message.contains("refused until that is over"), "{refused}");
            assert_eq!(tag_of(&world.engine, world.volume, 0).await, 500, "it is in memory");
            match lack {
                DeviceKind::Gone => world.away(false),
                _ => world.control.fail_all(Verb::Append, None),
            }
            for _ in 0..100 {
                if world.engine.stats().outage.is_none() {
                    break;
                }
                world.pass(1).await;
            }
            put(&world.engine, world.volume, 1, 501).await.unwrap();
            soon("a flush", world.engine.flush()).await.unwrap();
            world.expect(world.volume, 0, &[500, 501, 3]).await;
            soon("closing", world.engine.close()).await.unwrap();
        }
    });
}

#[test]
fn what_a_device_lost_while_it_was_away_is_noticed() {
    run(async |runtime| {
        let world = world(&runtime, Duration::from_secs(60)).await;
        for lba in 0..40 {
            put(&world.engine, world.volume, lba, lba + 700).await.unwrap();
        }
        // It has them, and no flush covers them.
        world.pass(1).await;
        let before = world.engine.stats().device_write_bytes;
        assert!(before > 140 * BLOCK);
        world.away(true);
        let mut flush = Box::pin(world.engine.flush());
        assert!(poll_once(&mut flush).await.is_none());
        turns(50).await;
        assert!(world.engine.stats().outage.is_some());
        // What was written last reads as zeroes from now on.
        lose(&world, 700).await;
        world.away(false);
        let refused = soon("the flush", flush).await.unwrap_err();
        assert!(refused.message.contains("lost what it had taken"), "{refused}");
        assert!(put(&world.engine, world.volume, 1, 1).await.is_err(), "nothing is built on it");
    });
}

#[test]
fn a_store_can_be_closed_during_an_outage() {
    run(async |runtime| {
        let world = world(&runtime, Duration::from_secs(3600)).await;
        world.away(true);
        put(&world.engine, world.volume, 0, 9).await.unwrap();
        let mut flush = Box::pin(world.engine.flush());
        assert!(poll_once(&mut flush).await.is_none());
        let waits = async {
            world.pass(1000).await;
            panic!("closing waits for the device");
        };
        assert!(or(world.engine.close(), waits).await.is_err());
        assert!(flush.await.is_err());
        drop(world.device);
    });
}

#[test]
fn a_flush_that_works_during_an_outage_says_nothing_of_what_was_written_before() {
    run(async |runtime| {
        for lost in [false, true] {
            let world = world(&runtime, Duration::from_secs(3600)).await;
            for lba in 0..40 {
                world.put(lba, lba + 700).await;
            }
            // They are written, and two flushes of the device begin.
            world.device.hold(Verb::Flush);
            let mut flush = Box::pin(world.engine.flush());
            let mut checkpoint = Box::pin(world.engine.checkpoint());
            assert!(poll_once(&mut flush).await.is_none());
            assert!(poll_once(&mut checkpoint).await.is_none());
            turns(50).await;
            world.control.fail_all(Verb::Append, Some(DeviceKind::Gone));
            for lba in 100..300 {
                world.put(lba, lba).await;
            }
            turns(50).await;
            assert!(world.engine.stats().outage.is_some());
            if lost {
                lose(&world, 700).await;
            }
            world.device.release(Verb::Flush);
            turns(50).await;
            assert!(poll_once(&mut flush).await.is_none(), "the outage is not over");
            assert!(poll_once(&mut checkpoint).await.is_none());
            world.away(false);
            let flushed = soon("the flush", flush).await;
            let written = soon("the checkpoint", checkpoint).await;
            assert_eq!((flushed.is_err(), written.is_err()), (lost, lost));
            if !lost {
                world.expect(world.volume, 0, &(700..740).collect::<Vec<_>>()).await;
                world.check().await;
            }
        }
    });
}

#[test]
fn what_was_done_behind_a_failed_append_is_made_again_after_an_outage() {
    run(async |runtime| {
        let mut behind = 0;
        for seed in 0..8 {
            let memory = flushing_again(60, 128);
            format(memory.clone(), &runtime).await;
            let fault = Fault::new(memory.clone());
            let control = fault.control();
            let jitter = Duration::from_secs(2);
            let delays = DelayOptions { jitter, seed, ..DelayOptions::default() };
            let device = Delay::new(fault, runtime.clone(), delays);
            let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
            let volume = engine.create_volume("v", 2048 * BLOCK).await.unwrap().id;
            soon("a flush", engine.flush()).await.unwrap();
            control.fail(Verb::Append, 2, DeviceKind::Gone, false);
            control.fail_all(Verb::Read, Some(DeviceKind::Gone));
            // Each is sent in a group of its own, of which several are under way.
            for lba in 0..12 {
                put(&engine, volume, lba, lba + 1).await.unwrap();
                turns(50).await;
            }
            let mut turn = 0;
            while engine.stats().outage.is_none() {
                turns(1).await;
                turn += 1;
                assert!(turn < 100_000, "there was an outage");
            }
            runtime.sleep(Duration::from_secs(3)).await;
            // Nothing is under way any more, and the device loses what it had taken behind the failed append.
            let said = engine.stats().last_write_error.unwrap();
            let at: u64 = said.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
            for block in at..(at / 128 + 1) * 128 {
                if block_at(&memory, Pba(block)).await != 0 {
                    control.damage(Pba(block), Damage::Overwritten);
                    behind += 1;
                }
            }
            control.fail_all(Verb::Read, None);
            soon("a flush", engine.flush()).await.unwrap();
            let memory = memory.crash(seed);
            drop(engine);
            let engine = open(memory, runtime.clone(), OpenOptions::default()).await.unwrap();
            for lba in 0..12 {
                assert_eq!(tag_of(&engine, volume, lba).await, lba + 1, "{seed}");
            }
        }
        assert!(behind > 0, "something was written behind a failed append");
    });
}

#[test]
fn a_segment_that_is_reset_while_it_is_verified_is_no_loss() {
    run(async |runtime| {
        let world = world(&runtime, Duration::from_secs(60)).await;
        // What is flushed after a write that failed is read again.
        world.control.fail(Verb::WriteRoot, 1, DeviceKind::Io, false);
        soon("a checkpoint", world.engine.checkpoint()).await.unwrap();
        for lba in 0..300 {
            world.put(lba, lba + 700).await;
        }
        let may_go = world.device.detain(Verb::Read);
        let reads = world.control.count(Verb::Read);
        let mut flush = Box::pin(world.engine.flush());
        for turn in 0.. {
            assert!(turn < 10_000 && poll_once(&mut flush).await.is_none());
            if world.control.count(Verb::Read) > reads {
                break;
            }
            turns(1).await;
        }
        world.device.detain_no_more(Verb::Read);
        // Another flush is done with that. Then all is overwritten, and its segments are reset.
        for lba in 0..300 {
            world.put(lba, lba + 1700).await;
        }
        soon("a checkpoint", world.engine.checkpoint()).await.unwrap();
        let resets = world.control.count(Verb::Reset);
        for _ in 0..20 {
            soon("a collection", world.engine.collect()).await.unwrap();
            soon("a checkpoint", world.engine.checkpoint()).await.unwrap();
            for lba in 0..300 {
                world.put(lba, lba + 1700).await;
            }
        }
        assert!(world.control.count(Verb::Reset) > resets + 2);
        // The device's flush goes on, though others were done with what it covers.
        may_go.set(true);
        turns(200).await;
        soon("the flush", flush).await.unwrap();
        world.put(0, 1700).await;
        world.flush().await;
        world.expect(world.volume, 0, &(1700..2000).collect::<Vec<_>>()).await;
        world.check().await;
    });
}

async fn block_at(memory: &MemoryDevice, at: Pba) -> u64 {
    let read = Device::read(memory, at, AlignedBuf::zeroed(BLOCK as usize)).await.unwrap();
    u64::from_le_bytes(read.as_ref()[..8].try_into().unwrap())
}

/// What was written with that tag reads as zeroes from now on.
async fn lose(world: &Failing, tag: u64) {
    let mut lost = 0;
    for block in 0..60 * 128 {
        if block_at(&world.memory, Pba(block)).await == tag * 1_000_003 {
            world.control.damage(Pba(block), Damage::Overwritten);
            lost += 1;
        }
    }
    assert_eq!(lost, 1);
}
