//! A write that the device fails costs a segment: what was accepted is logged again elsewhere, clients see no
//! error, and nothing refers to the failed place.

use std::time::Duration;

use futures_lite::future::poll_once;
use mjolnir_device::filter::{Damage, Fault, Verb};
use mjolnir_device::{MemoryDevice, Runtime};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Op, Store};
use mjolnir_units::{Pba, TreeId, ZoneId};

use crate::support::failing::Failing;
use crate::support::{BLOCK, Random, Tick, open, run, soon, tag_of, turns};

const ZONE: u64 = 128;
const ZONES: u32 = 40;

async fn world(runtime: &Tick) -> Failing {
    let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
    Failing::new(runtime, MemoryDevice::of_zones(ZONES, ZONE), options).await
}

#[test]
fn whichever_append_fails_nothing_is_lost_and_nobody_is_told() {
    run(async |runtime| {
        for nth in 1..12 {
            for (landed, seed) in [(false, 1), (true, 2), (false, 3)] {
                let world = world(&runtime).await;
                world.fail(nth, landed);
                for lba in 0..60 {
                    world.put(lba, lba + 1).await;
                    if lba % 7 == 0 {
                        world.flush().await;
                    }
                }
                soon("a checkpoint", world.engine.checkpoint()).await.unwrap();
                for lba in 0..20 {
                    world.put(lba, lba + 101).await;
                }
                world.flush().await;
                let expected: Vec<u64> =
                    (0..60).map(|lba| lba + 1 + 100 * u64::from(lba < 20)).collect();
                world.expect(world.volume, 0, &expected).await;
                assert_eq!(world.engine.stats().write_errors, 1, "{nth}");
                world.check().await;
                let world = world.cut(seed).await;
                world.expect(world.volume, 0, &expected).await;
                world.check().await;
                soon("closing", world.engine.close()).await.unwrap();
            }
        }
    });
}

#[test]
fn what_came_to_refer_to_a_failed_place_is_repointed() {
    run(async |runtime| {
        for seed in 0..8 {
            let world = world(&runtime).await;
            let other = world.engine.create_volume("w", 2048 * BLOCK).await.unwrap().id;
            world.fail(1, seed % 2 == 0);
            world.device.hold(Verb::Append);
            for lba in 0..30 {
                world.put(lba, lba + 1).await;
            }
            // The group is sent, and its failure is not known yet.
            let mut flush = Box::pin(world.engine.flush());
            assert!(poll_once(&mut flush).await.is_none());
            let engine = &world.engine;
            let snapshot = soon("a snapshot", engine.create_snapshot("v", "s"));
            let mut snapshot = Box::pin(snapshot);
            assert!(poll_once(&mut snapshot).await.is_none());
            let durability = Durability::Buffered;
            let from = world.volume;
            let clone = Op::Clone {
                from,
                from_offset: 0,
                to: other,
                to_offset: 64 * BLOCK,
                length: 10 * BLOCK,
            };
            let moved = Op::Move {
                from,
                from_offset: 10 * BLOCK,
                to: other,
                to_offset: 0,
                length: 5 * BLOCK,
            };
            for op in [clone, moved] {
                soon("a remap", engine.atomic(vec![op], durability)).await.unwrap();
            }
            // Leaves diverge from what the snapshot has.
            for lba in 20..25 {
                world.put(lba, lba + 201).await;
            }
            turns(50).await;
            world.device.release(Verb::Append);
            soon("the flush", flush).await.unwrap();
            let snapshot = snapshot.await.unwrap().id;
            let expect = async |world: &Failing, other: TreeId, snapshot: TreeId| {
                let tags = |range: std::ops::Range<u64>, add: u64| {
                    range.map(|lba| lba + add).collect::<Vec<_>>()
                };
                world.expect(world.volume, 0, &tags(0..10, 1)).await;
                world.expect(world.volume, 10, &[0; 5]).await;
                world.expect(world.volume, 15, &tags(15..20, 1)).await;
                world.expect(world.volume, 20, &tags(20..25, 201)).await;
                world.expect(other, 64, &tags(0..10, 1)).await;
                world.expect(other, 0, &tags(10..15, 1)).await;
                world.expect(snapshot, 0, &tags(0..30, 1)).await;
            };
            assert_eq!(world.engine.stats().write_errors, 1);
            expect(&world, other, snapshot).await;
            world.flush().await;
            expect(&world, other, snapshot).await;
            soon("a collection", world.engine.collect()).await.unwrap();
            world.check().await;
            expect(&world, other, snapshot).await;
            let world = world.cut(seed).await;
            expect(&world, other, snapshot).await;
            world.check().await;
        }
    });
}

#[test]
fn a_place_that_failed_and_cannot_be_read_is_no_damage_once_the_log_says_so() {
    run(async |runtime| {
        // The header of a segment, the first group's header, and one behind it.
        for nth in 1..4 {
            for seed in 0..6 {
                let world = world(&runtime).await;
                world.fail(nth, false);
                for lba in 0..20 {
                    world.put(lba, lba + 1).await;
                    world.flush().await;
                }
                let stats = world.engine.stats();
                let said = stats.last_write_error.unwrap();
                let at: u64 = said.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
                let memory = world.memory.crash(seed);
                drop(world);
                let device = Fault::new(memory.clone());
                device.control().damage(Pba(at), Damage::Unreadable);
                let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
                let volume = engine.find("v").unwrap().id;
                for lba in 0..20 {
                    assert_eq!(tag_of(&engine, volume, lba).await, lba + 1, "{nth} {seed}");
                }
                assert_eq!(engine.check().await.unwrap().problems, [""; 0]);
            }
        }
    });
}

#[test]
fn a_segment_that_goes_on_failing_is_out_of_use_and_one_that_works_again_comes_back() {
    run(async |runtime| {
        let world = world(&runtime).await;
        // Two of the segments that are opened next.
        let (lasts, passes) = (ZoneId(4), ZoneId(5));
        for zone in [lasts, passes] {
            world.control.wear_out(zone, true);
        }
        let mut chance = Random(7);
        let mut model = vec![0; 1000];
        let mut tag = 0;
        let mut churn = async |world: &Failing, writes: u64| {
            for _ in 0..writes {
                let lba = chance.below(1000);
                tag += 1;
                world.put(lba, tag).await;
                model[lba as usize] = tag;
            }
            world.flush().await;
            world.expect(world.volume, 0, &model).await;
        };
        churn(&world, 4000).await;
        assert_eq!(world.engine.stats().segments_bad, 2, "both failed");
        world.control.wear_out(passes, false);
        for _ in 0..40 {
            world.runtime.sleep(Duration::from_secs(10)).await;
            churn(&world, 50).await;
        }
        let stats = world.engine.stats();
        assert_eq!((stats.segments_bad, stats.segments_bad_in_use), (1, 0));
        assert_eq!(stats.space.bad_bytes, ZONE * BLOCK);
        // The store knows it after a restart, and does not open the segment.
        soon("closing", world.engine.close()).await.unwrap();
        let Failing { runtime, memory, device, control, engine, .. } = world;
        drop((engine, device, control));
        let world =
            Failing::on(&runtime, memory.reopen(), &[lasts.0], OpenOptions::default()).await;
        churn(&world, 3000).await;
        let stats = world.engine.stats();
        assert_eq!((stats.segments_bad, stats.write_errors), (1, 0));
        world.check().await;
    });
}

#[test]
fn data_of_a_segment_that_failed_is_moved_out_of_it() {
    run(async |runtime| {
        let world = world(&runtime).await;
        for lba in 0..40 {
            world.put(lba, lba + 1).await;
        }
        world.flush().await;
        world.fail(1, false);
        for lba in 40..44 {
            world.put(lba, lba + 1).await;
        }
        world.flush().await;
        assert_eq!(world.engine.stats().segments_bad, 1);
        for round in 0..100 {
            if world.engine.stats().segments_bad_in_use == 0 {
                break;
            }
            assert!(round < 99, "{:?}", world.engine.stats());
            world.runtime.sleep(Duration::from_secs(1)).await;
            soon("a checkpoint", world.engine.checkpoint()).await.unwrap();
        }
        let tags: Vec<u64> = (0..44).map(|lba| lba + 1).collect();
        world.expect(world.volume, 0, &tags).await;
        world.check().await;
    });
}
