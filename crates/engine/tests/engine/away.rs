//! A device that is away for a while, or has no space: requests wait, and all is as before once that is over. If it
//! lasts, changes are refused until then.

use std::time::Duration;

use futures_lite::future::{or, poll_once};
use mjolnir_device::ErrorKind as DeviceKind;
use mjolnir_device::filter::{Damage, Verb};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{ErrorKind, Store};
use mjolnir_units::Pba;

use crate::support::failing::{Failing, flushing_again};
use crate::support::{BLOCK, Tick, open, put, run, soon, tag_of, turns};

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
        let mut lost = 0;
        for block in 0..60 * 128 {
            let at = Pba(block);
            let held = world.memory.clone();
            let read =
                mjolnir_device::Device::read(&held, at, mjolnir_device::AlignedBuf::zeroed(4096));
            let read = read.await.unwrap();
            let word = u64::from_le_bytes(read.as_ref()[..8].try_into().unwrap());
            if word == 700 * 1_000_003 {
                world.control.damage(at, Damage::Overwritten);
                lost += 1;
            }
        }
        assert_eq!(lost, 1);
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
