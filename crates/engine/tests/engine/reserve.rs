//! A checkpoint always finds room: neither a map that grows faster than the data nor a full store
//! makes a store fail, and what was acknowledged survives a power cut.

use futures_util::future::{join, join_all};
use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::Verb;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, ErrorKind, Op, Store};

use crate::support::{
    BLOCK, Held, Random, dropped_after, fresh, open, put, run, soon, tag_of, turns,
};

#[test]
fn snapshots_after_every_few_writes_fill_a_store_without_making_it_fail() {
    for (seed, zones, zone_blocks, writes) in [(1, 32, 32, 1), (2, 48, 64, 1), (3, 40, 128, 7)] {
        run(async |runtime| {
            let device = MemoryDevice::of_zones(zones, zone_blocks);
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let blocks = u64::from(zones) * zone_blocks / 3;
            let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
            let mut versions = vec![0; blocks as usize];
            let mut random = Random(seed);
            let mut snapshots = 0;
            let error = 'full: loop {
                for _ in 0..writes {
                    let bits = random.bits();
                    let (lba, tag) = ((bits >> 33) % blocks, bits >> 40);
                    match soon("a write", put(&engine, volume.id, lba, tag)).await {
                        Ok(()) => versions[lba as usize] = tag,
                        Err(error) => break 'full error,
                    }
                }
                let name = format!("s{snapshots}");
                match soon("a snapshot", engine.create_snapshot("v", &name)).await {
                    Ok(_) => snapshots += 1,
                    Err(error) => break 'full error,
                }
            };
            assert_eq!(error.kind, ErrorKind::NoSpace, "seed {seed}: {error}");
            assert_eq!(engine.stats().failed, None, "seed {seed}");
            soon("a checkpoint", engine.checkpoint()).await.unwrap();
            engine.flush().await.unwrap();
            drop(engine);
            let found = device.crash(seed);
            let engine = open(found, runtime.clone(), OpenOptions::default());
            let engine = soon("opening", engine).await.unwrap();
            for (lba, tag) in versions.iter().enumerate() {
                assert_eq!(tag_of(&engine, volume.id, lba as u64).await, *tag, "seed {seed}");
            }
            assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
            soon("closing", engine.close()).await.unwrap();
        });
    }
}

/// What a checkpoint wrote that never got its root holds room which the next one needs, on a store that
/// is full by now.
#[test]
fn a_crash_within_a_checkpoint_of_a_full_store_leaves_room_for_the_next() {
    const SOURCES: u64 = 1000;
    const TARGETS: u64 = 100_000;
    for seed in 0..6 {
        run(async |runtime| {
            let device = Held::new(MemoryDevice::of_zones(66 + seed as u32, 32));
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let volume = engine.create_volume("v", SOURCES * BLOCK).await.unwrap();
            let shared = engine.create_volume("w", TARGETS * BLOCK).await.unwrap();
            let mut random = Random(seed);
            for lba in 0..SOURCES {
                soon("a write", put(&engine, volume.id, lba, lba + 1)).await.unwrap();
            }
            // References to blocks here and there: a map that grows, and hardly any data.
            let mut clones = || {
                let mut one = || Op::Clone {
                    from: volume.id,
                    from_offset: random.below(SOURCES) * BLOCK,
                    to: shared.id,
                    to_offset: random.below(TARGETS) * BLOCK,
                    length: BLOCK,
                };
                engine.atomic((0..90).map(|_| one()).collect(), Durability::Buffered)
            };
            for _ in 0..600 {
                soon("cloning", clones()).await.unwrap();
            }
            soon("a checkpoint", engine.checkpoint()).await.unwrap();
            // From here on no root arrives: a checkpoint writes all that it has to, and waits.
            device.hold(Verb::WriteRoot);
            let mut crowded = false;
            for _ in 0..1000 {
                crowded = !dropped_after(500, clones()).await;
                if crowded {
                    break;
                }
            }
            assert!(crowded, "clients go on");
            crowded = false;
            for lba in 0..SOURCES {
                let trim = engine.trim(volume.id, lba * BLOCK, BLOCK, Durability::Durable);
                crowded = !dropped_after(500, trim).await;
                if crowded {
                    break;
                }
            }
            assert!(crowded, "what gives space back goes on");
            let found = device.inner.crash(seed);
            let engine = open(found, runtime.clone(), OpenOptions::default());
            let engine = soon("opening", engine).await;
            let engine = engine.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
            soon("closing", engine.close()).await.unwrap();
        });
    }
}

/// Several wait for room, and each segment that is won is opened by one of them: the others write into it.
#[test]
fn whoever_waits_for_room_takes_what_is_left_of_a_segment_that_another_opened() {
    run(async |runtime| {
        const BLOCKS: u64 = 900;
        let device = Held::new(MemoryDevice::of_zones(48, 32));
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 4 * BLOCKS * BLOCK).await.unwrap();
        let mut lba = 0;
        let full = loop {
            lba += 1;
            if let Err(error) = soon("a write", put(&engine, volume.id, lba, lba)).await {
                break error;
            }
        };
        assert_eq!(full.kind, ErrorKind::NoSpace);
        let writes = (0..16).map(|number| put(&engine, volume.id, 4 * BLOCKS - 1 - number, number));
        // While they wait it turns out that there is room for one segment more.
        device.hold(Verb::WriteRoot);
        let trim = async {
            turns(200).await;
            engine.trim(volume.id, BLOCK, 29 * BLOCK, Durability::Buffered).await.unwrap();
            device.release(Verb::WriteRoot);
        };
        let (outcomes, ()) = soon("writes", join(join_all(writes), trim)).await;
        let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(refused, 0, "of {}", outcomes.len());
    });
}
