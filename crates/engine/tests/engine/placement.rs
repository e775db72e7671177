//! Placement in the engine: skewed writes cost less where blocks that die together lie together;
//! whatever the policy, a store keeps its data through reclaim, restarts and narrow devices, and
//! says which streams it has.

use futures_util::future::join_all;
use mjolnir_device::{Device, DeviceInfo, MemoryDevice};
use mjolnir_engine::{OpenOptions, ReclaimOptions};
use mjolnir_store::report::Stats;
use mjolnir_store::{Durability, ErrorKind, Store};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::support::{BLOCK, Engine, Tick, fresh, open, put, run, soon, tag_of};

const POLICIES: [&str; 7] =
    ["apart", "together", "dac", "sepbit", "sepbit:clients=1", "autostream", "interval"];

/// The first stream of clients, and of a policy's classes.
const CLIENT_STREAM: u8 = 3;

fn options(placement: &str) -> OpenOptions {
    OpenOptions {
        placement: placement.into(),
        checkpoint_bytes: 64 << 20,
        dirty_bytes_max: 4 << 20,
        ..OpenOptions::default()
    }
}

/// A block of `count`: four of five draws fall on an eighth of them, of these four of five on an
/// eighth, and so on.
fn skewed(random: &mut Pcg64, count: u64) -> u64 {
    let mut range = count;
    while range > 16 && !random.next_u64().is_multiple_of(5) {
        range /= 8;
    }
    // Scattered, so that address says nothing.
    random.next_u64() % range * 2_654_435_761 % count
}

struct Life {
    engine: Engine,
    volume: mjolnir_units::TreeId,
    blocks: u64,
    /// What each block holds.
    tags: Vec<u64>,
    random: Pcg64,
    next: u64,
}

impl Life {
    async fn begin(device: &MemoryDevice, runtime: &Tick, options: OpenOptions, fill: f64) -> Self {
        let info = device.info();
        let blocks = (f64::from(info.zones) * info.zone_blocks as f64 * fill) as u64;
        let engine = fresh(|| device.clone(), runtime, options).await;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap().id;
        let random = Pcg64::seed_from_u64(3);
        let tags = vec![0; blocks as usize];
        let mut life = Life { engine, volume, blocks, tags, random, next: 1 };
        for lba in 0..blocks {
            life.put(lba).await;
        }
        life
    }

    async fn put(&mut self, lba: u64) {
        let tag = self.next;
        self.next += 1;
        put(&self.engine, self.volume, lba, tag).await.unwrap();
        self.tags[lba as usize] = tag;
    }

    async fn overwrite(&mut self, writes: u64) {
        for _ in 0..writes {
            let lba = skewed(&mut self.random, self.blocks);
            self.put(lba).await;
        }
    }

    async fn verify(&self, what: &str) {
        for (lba, tag) in (0..).zip(&self.tags) {
            assert_eq!(tag_of(&self.engine, self.volume, lba).await, *tag, "{what}: block {lba}");
        }
        let report = self.engine.check().await.unwrap();
        assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
    }
}

/// Blocks written by clients' log and by reclaim, for each that clients wrote, between two looks.
fn waf(before: &Stats, after: &Stats) -> f64 {
    let written = |stats: &Stats| (stats.log_write_bytes + stats.reclaim_write_bytes) as f64;
    let accepted = (after.accepted_write_bytes - before.accepted_write_bytes) as f64;
    (written(after) - written(before)) / accepted
}

#[test]
fn skewed_writes_cost_less_where_lifetimes_are_told_apart() {
    let costs = ["together", "apart", "sepbit", "dac"].map(|placement| {
        run(async |runtime| {
            let device = MemoryDevice::of_zones(128, 256);
            let mut life = Life::begin(&device, &runtime, options(placement), 0.68).await;
            life.overwrite(3 * life.blocks).await;
            let before = life.engine.stats();
            life.overwrite(6 * life.blocks).await;
            let after = life.engine.stats();
            assert_eq!(after.placement, placement);
            assert_eq!(after.placement_streams, after.placement_streams_wanted);
            assert!(after.segments_reclaimed > before.segments_reclaimed + 100, "reclaim works");
            let cost = waf(&before, &after);
            println!(
                "{placement}: {cost:.3}, {} panics, {} displaced",
                after.panics,
                after.displaced_bytes / BLOCK
            );
            life.engine.close().await.unwrap();
            cost
        })
    });
    let [together, apart, sepbit, dac] = costs;
    assert!(apart < together, "{costs:?}");
    assert!(sepbit < apart && dac < apart, "{costs:?}");
}

#[test]
fn every_policy_keeps_the_data_through_reclaim_and_restarts() {
    for placement in POLICIES {
        run(async |runtime| {
            let device = MemoryDevice::of_zones(48, 128);
            let narrow = OpenOptions { checkpoint_bytes: 4 << 20, ..options(placement) };
            let paranoid = OpenOptions { paranoid: true, ..narrow.clone() };
            let mut life = Life::begin(&device, &runtime, paranoid.clone(), 0.6).await;
            life.overwrite(2 * life.blocks).await;
            life.engine.flush().await.unwrap();
            life.verify(placement).await;
            // The power fails; then an orderly end; then another policy takes over.
            let device = device.crash(11);
            life.engine = open(device.clone(), runtime.clone(), paranoid).await.unwrap();
            life.verify(&format!("{placement} after a power cut")).await;
            life.overwrite(life.blocks).await;
            life.engine.close().await.unwrap();
            let (device, other) = (device.reopen(), options("dac"));
            life.engine = open(device.clone(), runtime.clone(), other).await.unwrap();
            life.overwrite(life.blocks).await;
            life.verify(&format!("{placement}, then dac")).await;
            life.engine.close().await.unwrap();
            let device = device.reopen();
            life.engine = open(device, runtime.clone(), narrow).await.unwrap();
            life.overwrite(life.blocks).await;
            life.verify(&format!("{placement}, dac, {placement}")).await;
            life.engine.close().await.unwrap();
        });
    }
}

/// With four zones open, two are the clients' and reclaim's; with more, a policy's last classes
/// share the rest.
#[test]
fn few_open_zones_fold_the_classes_and_the_statistics_say_so() {
    for (open_zones_max, placement, streams, in_force) in [
        (4, "sepbit", 2, "apart"),
        (4, "together", 1, "together"),
        (5, "dac", 2, "dac"),
        (6, "sepbit", 3, "sepbit"),
        (7, "interval", 4, "interval"),
        (9, "dac", 6, "dac"),
        (9, "dac:classes=4", 4, "dac:classes=4"),
        (4, "dac:classes=4", 2, "apart"),
        (5, "sepbit:clients=1", 2, "sepbit:clients=1"),
    ] {
        run(async |runtime| {
            let info = MemoryDevice::of_zones(64, 64).info();
            let info = DeviceInfo { open_zones_max: Some(open_zones_max), ..info };
            let device = MemoryDevice::new(info);
            let mut life = Life::begin(&device, &runtime, options(placement), 0.5).await;
            life.overwrite(2 * life.blocks).await;
            let stats = life.engine.stats();
            let context = format!("{placement} on {open_zones_max} open zones");
            assert_eq!(stats.placement, in_force, "{context}");
            assert_eq!(stats.placement_streams, streams, "{context}");
            assert!(stats.segments_reclaimed > 20, "{context}");
            life.verify(&context).await;
            life.engine.close().await.unwrap();
        });
    }
}

/// A store that is written full: what a policy keeps open is used up before clients hear of it.
#[test]
fn a_full_store_uses_what_every_class_has_open() {
    let filled = ["apart", "dac", "sepbit", "sepbit:clients=1", "interval"].map(|placement| {
        run(async |runtime| {
            let device = MemoryDevice::of_zones(64, 64);
            let mut life = Life::begin(&device, &runtime, options(placement), 0.4).await;
            life.overwrite(life.blocks).await;
            let more = 64 * 64 * BLOCK;
            let second = life.engine.create_volume("w", more).await.unwrap().id;
            let mut lba = 0;
            let error = loop {
                match soon("a write", put(&life.engine, second, lba, lba)).await {
                    Ok(()) => lba += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind, ErrorKind::NoSpace, "{placement}: {error}");
            life.verify(placement).await;
            // It is of use still.
            soon("a trim", life.engine.trim(second, 0, more, Durability::Buffered)).await.unwrap();
            soon("a write", life.put(0)).await;
            life.verify(placement).await;
            life.engine.close().await.unwrap();
            lba
        })
    });
    println!("{filled:?}");
    let [apart, others @ ..] = filled;
    assert!(others.iter().all(|&blocks| blocks * 20 >= apart * 19), "{filled:?}");
}

/// A policy that has all of clients' blocks in one class, and asks about reclaim's: their classes have
/// segments of their own.
#[test]
fn relocated_classes_are_apart_where_clients_blocks_are_all_of_one() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(128, 128);
        let spread = OpenOptions { client_streams: 2, ..options("sepbit:sample=16,clients=1") };
        let mut life = Life::begin(&device, &runtime, spread, 0.6).await;
        life.overwrite(6 * life.blocks).await;
        let stats = life.engine.stats();
        assert_eq!(stats.placement, "sepbit:clients=1", "defaults are left out");
        assert_eq!((stats.placement_streams, stats.client_streams), (5, 2));
        assert!(stats.segments_reclaimed > 50, "reclaim works");
        // Clients' class is the first, and their second stream comes after the fifth class.
        let streams = |wanted: &[u8]| {
            let segments = life.engine.segments();
            segments.iter().filter(|segment| wanted.contains(&segment.stream)).count()
        };
        let clients = [CLIENT_STREAM, CLIENT_STREAM + 5];
        assert!(clients.iter().all(|stream| streams(&[*stream]) > 0));
        let classes: Vec<usize> = (1..5).map(|class| streams(&[CLIENT_STREAM + class])).collect();
        assert!(classes.iter().filter(|segments| **segments > 0).count() >= 2, "{classes:?}");
        assert_eq!(streams(&[CLIENT_STREAM + 6]), 0);
        life.verify("sepbit:clients=1").await;
        life.engine.close().await.unwrap();
    });
}

#[test]
fn a_policy_that_nobody_knows_is_refused_with_the_nearest() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, options("apart")).await;
        engine.close().await.unwrap();
        for (placement, said) in [
            ("sepbits", "\"sepbit\" comes nearest"),
            ("dac:class=4", "dac has no parameter \"class\"; \"classes\" comes nearest"),
            ("dac:classes=0", "classes = 0 cannot be; write a whole number from 1 to 64"),
        ] {
            device = device.reopen();
            let opened = open(device.clone(), runtime.clone(), options(placement)).await;
            let error = opened.err().unwrap();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains(said), "{error}");
        }
    });
}

/// What a snapshot holds was written in order, and lies so. Of every other block of it the volume has had a
/// later version since, so a policy that knows of intervals wants them apart.
#[test]
fn what_lies_side_by_side_is_not_torn_block_by_block() {
    run(async |runtime| {
        const BLOCKS: u64 = 36_000;
        let device = MemoryDevice::of_zones(160, 2048);
        let reclaim = ReclaimOptions { start_utilization: 0.999, ..ReclaimOptions::default() };
        let options = OpenOptions { reclaim, ..options("interval") };
        let engine = fresh(|| device.clone(), &runtime, options.clone()).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        let other = engine.create_volume("other", 1 << 30).await.unwrap().id;
        for lba in (0..BLOCKS).step_by(2) {
            put(&engine, volume, lba, 1).await.unwrap();
        }
        for step in 0..120_000 {
            put(&engine, other, step % 1000, 1).await.unwrap();
        }
        for lba in (0..BLOCKS).step_by(512) {
            let writes = (lba..(lba + 512).min(BLOCKS)).map(|lba| put(&engine, volume, lba, lba));
            join_all(writes).await.into_iter().for_each(Result::unwrap);
            for at in 0..64 {
                put(&engine, other, 2000 + lba + at, 2).await.unwrap();
            }
        }
        engine.create_snapshot("v", "s").await.unwrap();
        for lba in (1..BLOCKS).step_by(2) {
            put(&engine, volume, lba, BLOCKS + lba).await.unwrap();
        }
        engine.trim(other, 0, 1 << 30, Durability::Durable).await.unwrap();
        engine.checkpoint().await.unwrap();
        let before = engine.stats();
        engine.collect().await.unwrap();
        engine.checkpoint().await.unwrap();
        let after = engine.stats();
        // All but what lies in segments that are wholly live, or open.
        assert!(after.moved_bytes - before.moved_bytes > BLOCKS * BLOCK * 9 / 10);
        let more = after.map_bytes - before.map_bytes;
        assert!(more < BLOCKS, "{more} bytes more of the map: a word has eight");
        engine.close().await.unwrap();
        let engine = open(device.reopen(), runtime.clone(), options).await.unwrap();
        let snapshot = engine.find("v@s").unwrap().id;
        for lba in 0..BLOCKS {
            assert_eq!(tag_of(&engine, snapshot, lba).await, lba);
            assert_eq!(tag_of(&engine, volume, lba).await, lba + lba % 2 * BLOCKS);
        }
        engine.close().await.unwrap();
    });
}
