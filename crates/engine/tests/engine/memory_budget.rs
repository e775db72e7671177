//! The memory budget is kept under random writes, and a store works, slowly, in almost none.

use std::cell::Cell;
use std::rc::Rc;

use mjolnir_device::filter::{Delay, DelayOptions};
use mjolnir_device::{MemoryDevice, Runtime};
use mjolnir_engine::{OpenOptions, ReclaimOptions, SegmentContent};
use mjolnir_store::report::Stats;
use mjolnir_store::{Durability, Store};
use mjolnir_units::TreeId;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::support::{BLOCK, Engine, Tick, fresh, open, put, run, tag_of, turns};

/// The most memory that was in use while `operation` ran.
async fn most_used(engine: &Engine, operation: impl Future) -> u64 {
    most_of(engine, |stats| stats.memory_bytes, operation).await
}

/// The most of something that was in use while `operation` ran.
async fn most_of(engine: &Engine, used: impl Fn(&Stats) -> u64, operation: impl Future) -> u64 {
    let mut most = 0;
    let watch = async {
        loop {
            most = most.max(used(&engine.stats()));
            turns(1).await;
        }
    };
    let ended = async {
        operation.await;
    };
    futures_lite::future::or(ended, watch).await;
    most
}

#[test]
fn random_writes_keep_to_the_budget() {
    run(async |runtime| {
        let budget = 8 << 20;
        let device = MemoryDevice::of_zones(96, 4096);
        let options = OpenOptions { memory_bytes: budget, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let blocks = 1 << 18;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        let mut random = Pcg64::seed_from_u64(5);
        let mut most = 0;
        for round in 0..150_000u64 {
            put(&engine, volume.id, random.next_u64() % blocks, round).await.unwrap();
            if round % 100 == 0 {
                most = most.max(engine.stats().memory_bytes);
            }
        }
        assert!(most <= budget + budget / 4, "{most} bytes were used of {budget}");
        engine.close().await.unwrap();
    });
}

/// As an NBD server takes them: lengths of which little fits where others were.
#[test]
fn payloads_in_the_engines_buffers_keep_to_the_budget() {
    run(async |runtime| {
        let budget = 16 << 20;
        let device = MemoryDevice::of_zones(96, 4096);
        let options = OpenOptions { memory_bytes: budget, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let blocks = 1 << 16;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        let buffers = engine.client_buffers();
        let mut random = Pcg64::seed_from_u64(7);
        let (mut most, mut most_buffers) = (0, 0);
        for _ in 0..6_000 {
            let count = [1, 17, 33][(random.next_u64() % 3) as usize];
            let mut payload = buffers.take(count * BLOCK as usize);
            payload.as_mut().fill(7);
            let at = random.next_u64() % (blocks - 33) * BLOCK;
            let write = engine.write(volume.id, at, payload.freeze(), Durability::Buffered);
            write.await.unwrap();
            let stats = engine.stats();
            most = most.max(stats.memory_bytes);
            most_buffers = most_buffers.max(stats.buffer_bytes + stats.dirty_bytes);
        }
        assert!(most <= budget + budget / 4, "{most} bytes were used of {budget}");
        assert!(most_buffers > 1 << 20, "{most_buffers} bytes of buffers at most");
        engine.close().await.unwrap();
        drop(engine);
        assert_eq!(buffers.bytes(), buffers.kept_bytes(), "all came back");
    });
}

/// What reads were answered with is let go of once nobody has needed as much for a while, though nothing
/// is written and the answers were held for long.
#[test]
fn buffers_of_reads_are_let_go() {
    run(async |runtime| {
        const SECOND: usize = 100; // In turns.
        let device = MemoryDevice::of_zones(32, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 4096 * BLOCK).await.unwrap().id;
        for lba in 0..4096 {
            put(&engine, volume, lba, lba).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        turns(4 * SECOND).await;
        let few = 512 << 10;
        let kept = engine.stats().buffer_bytes;
        assert!(kept <= few, "{kept} bytes are kept for the next buffers");
        let mut answers = Vec::new();
        for at in (0..2048).step_by(16) {
            answers.push(engine.read(volume, at * BLOCK, 16 * BLOCK).await.unwrap());
        }
        turns(4 * SECOND).await;
        assert!(engine.stats().buffer_bytes >= 8 << 20, "somebody holds them");
        drop(answers);
        turns(4 * SECOND).await;
        let kept = engine.stats().buffer_bytes;
        assert!(kept <= few, "{kept} bytes are kept for the next ones");
        engine.close().await.unwrap();
    });
}

#[test]
fn a_store_is_read_with_room_for_no_checksums() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 4096 * BLOCK).await.unwrap();
        for lba in 0..4096 {
            put(&engine, volume.id, lba * 2039 % 4096, lba).await.unwrap();
        }
        engine.close().await.unwrap();
        let options = OpenOptions { memory_bytes: 512, ..OpenOptions::default() };
        let engine = open(device.reopen(), runtime.clone(), options).await.unwrap();
        for lba in 0..4096 {
            assert_eq!(tag_of(&engine, volume.id, lba * 2039 % 4096).await, lba);
        }
        engine.close().await.unwrap();
    });
}

/// Relocation logs nothing, yet it makes leaves dirty: here all of many snapshots' own ones.
#[test]
fn reclaim_of_an_idle_store_keeps_to_the_budget() {
    run(async |runtime| {
        let budget = 8 << 20;
        let device = MemoryDevice::of_zones(96, 1024);
        let options = OpenOptions { memory_bytes: budget, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let blocks = 1 << 15;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        let mut random = Pcg64::seed_from_u64(5);
        for round in 0..2 * blocks {
            put(&engine, volume.id, random.next_u64() % blocks, round).await.unwrap();
        }
        for snapshot in 0..80 {
            engine.create_snapshot("v", &format!("s{snapshot}")).await.unwrap();
            for lba in (0..blocks).step_by(300) {
                put(&engine, volume.id, lba, snapshot).await.unwrap();
            }
        }
        engine.checkpoint().await.unwrap();
        let won = Cell::new(0);
        let most = most_used(&engine, async { won.set(engine.collect().await.unwrap()) }).await;
        assert!(won.get() > 5, "{} segments were won", won.get());
        assert!(most <= budget + budget / 4, "{most} bytes were used of {budget}");
        engine.close().await.unwrap();
    });
}

/// Many clients get more of a slow device than the checkpoint does, and each of their blocks makes
/// another leaf dirty.
#[test]
fn clients_that_outrun_the_checkpoint_keep_to_the_budget() {
    run(async |runtime| {
        const CLIENTS: u64 = 64;
        let budget = 8 << 20;
        let memory = MemoryDevice::of_zones(400, 1024);
        let slow = DelayOptions { bytes_per_second: Some(1 << 30), ..DelayOptions::default() };
        let device = || Delay::new(memory.clone(), runtime.clone(), slow);
        let options = OpenOptions { memory_bytes: budget, ..OpenOptions::default() };
        let engine = fresh(device, &runtime, options).await;
        let blocks = 1 << 15;
        let volume = engine.create_volume("v0", blocks * BLOCK).await.unwrap();
        let mut random = Pcg64::seed_from_u64(5);
        for round in 0..blocks {
            put(&engine, volume.id, random.next_u64() % blocks, round).await.unwrap();
        }
        let mut volumes = vec![volume.id];
        for clone in 1..80 {
            volumes.push(engine.clone_volume("v0", &format!("v{clone}")).await.unwrap().id);
        }
        engine.checkpoint().await.unwrap();
        let done = Rc::new(Cell::new(0));
        for client in 0..CLIENTS {
            let (engine, volumes, done) = (engine.clone(), volumes.clone(), done.clone());
            runtime.spawn(async move {
                let mut random = Pcg64::seed_from_u64(client);
                for round in 0..500 {
                    let volume = volumes[random.next_u64() as usize % volumes.len()];
                    let lba = random.next_u64() % blocks;
                    if round % 4 == 0 {
                        engine
                            .trim(volume, lba * BLOCK, BLOCK, Durability::Buffered)
                            .await
                            .unwrap();
                    } else {
                        put(&engine, volume, lba, round).await.unwrap();
                    }
                    turns(1).await;
                }
                done.set(done.get() + 1);
            });
        }
        let all = async {
            while done.get() < CLIENTS {
                turns(1).await;
            }
        };
        let most = most_used(&engine, all).await;
        assert!(most <= budget + budget / 4, "{most} bytes were used of {budget}");
        engine.close().await.unwrap();
    });
}

/// Blocks of a volume that was written in an order in which no two neighbours follow one another.
const SCATTERED: u64 = 1 << 17;

/// A store with such a volume, whose map is larger than the budget that it is opened with. Its
/// device takes time, so that what waits for it, or goes on for ever, can be told. Returns the bytes of
/// the map, too.
async fn larger_than_memory(
    runtime: &Tick,
    zone_blocks: u64,
    budget: u64,
    reclaim: ReclaimOptions,
) -> (Engine, TreeId, u64) {
    let device = MemoryDevice::of_zones((300 * 1024 / zone_blocks) as u32, zone_blocks);
    let engine = fresh(|| device.clone(), runtime, OpenOptions::default()).await;
    let volume = engine.create_volume("v", SCATTERED * BLOCK).await.unwrap().id;
    for round in 0..SCATTERED {
        put(&engine, volume, round * 60_013 % SCATTERED, round).await.unwrap();
    }
    let map_bytes = engine.stats().map_bytes;
    assert!(map_bytes > budget, "the map takes {map_bytes} bytes");
    engine.close().await.unwrap();
    let options = OpenOptions { memory_bytes: budget, reclaim, ..OpenOptions::default() };
    let slow = DelayOptions { bytes_per_second: Some(1 << 30), ..DelayOptions::default() };
    let device = Delay::new(device.reopen(), runtime.clone(), slow);
    let engine = open(device, runtime.clone(), options).await.unwrap();
    (engine, volume, map_bytes)
}

/// Many reads at once, where neither map nor checksums have room: what leaves are evicted for is not read
/// as whole footers again and again, which would have to go for the next leaves.
#[test]
fn reads_beyond_the_budget_read_little_more_than_they_need() {
    run(async |runtime| {
        const CLIENTS: u64 = 32;
        const READS: u64 = 400;
        let budget = 900 << 10;
        let reclaim = ReclaimOptions { enabled: false, ..ReclaimOptions::default() };
        let (engine, volume, _) = larger_than_memory(&runtime, 2048, budget, reclaim).await;
        let done = Rc::new(Cell::new(0));
        for client in 0..CLIENTS {
            let (engine, done) = (engine.clone(), done.clone());
            runtime.spawn(async move {
                let mut random = Pcg64::seed_from_u64(client);
                for _ in 0..READS {
                    let round = random.next_u64() % SCATTERED;
                    let lba = round * 60_013 % SCATTERED;
                    assert_eq!(tag_of(&engine, volume, lba).await, round);
                }
                done.set(done.get() + 1);
            });
        }
        let before = engine.stats().device_read_bytes;
        let all = async {
            while done.get() < CLIENTS {
                turns(1).await;
            }
        };
        let most = most_used(&engine, all).await;
        let read = (engine.stats().device_read_bytes - before) as f64 / BLOCK as f64;
        let each = read / (CLIENTS * READS) as f64;
        assert!(each < 3.2, "{each} blocks for each that was asked for");
        assert!(most <= budget + budget / 4, "{most} bytes were used of {budget}");
        engine.close().await.unwrap();
    });
}

/// A checkpoint moves what lives in sparse segments of the map, which may be far more of it than
/// memory has room for.
#[test]
fn a_checkpoint_that_moves_much_of_the_map_keeps_to_the_budget() {
    run(async |runtime| {
        let budget = 512 << 10;
        let reclaim = ReclaimOptions { enabled: false, ..ReclaimOptions::default() };
        let (engine, volume, map_bytes) = larger_than_memory(&runtime, 1024, budget, reclaim).await;
        assert!(map_bytes > 2 * budget, "the map takes {map_bytes} bytes");
        let mut random = Pcg64::seed_from_u64(5);
        let writes = async {
            for round in 0..20_000 {
                put(&engine, volume, random.next_u64() % SCATTERED, round).await.unwrap();
            }
        };
        let most = most_of(&engine, |stats| stats.map_bytes, writes).await;
        let stats = engine.stats();
        assert!(stats.map_write_bytes > 4 * map_bytes, "{} bytes of map", stats.map_write_bytes);
        assert!(most <= budget + budget / 4, "{most} bytes of map were in memory of {budget}");
        // In a segment's worth of checkpoints, one leaf is written once and another each time. What is
        // written once is moved on, or each would keep a segment.
        for once in 1..=16 {
            put(&engine, volume, once * (SCATTERED / 17), once).await.unwrap();
            for round in 0..110 {
                put(&engine, volume, 0, round).await.unwrap();
                engine.checkpoint().await.unwrap();
            }
        }
        let segments = engine.segments();
        let of_map = segments.iter().filter(|segment| segment.content == SegmentContent::Map);
        let count = of_map.count();
        assert!(count <= 8, "the map is in {count} segments");
        engine.close().await.unwrap();
    });
}

#[test]
fn checksums_keep_to_a_bound_of_their_own() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 1024);
        let most = 10 << 10;
        let options = OpenOptions { checksum_bytes_max: most, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", 16_384 * BLOCK).await.unwrap();
        for lba in 0..16_384 {
            put(&engine, volume.id, lba * 2039 % 16_384, lba).await.unwrap();
        }
        engine.flush().await.unwrap();
        let check = || {
            let bytes = engine.stats().checksum_bytes;
            assert!((4 << 10..=most).contains(&bytes), "{bytes}: two segments of 4 KiB fit");
        };
        check();
        for lba in (0..16_384).step_by(97) {
            assert_eq!(tag_of(&engine, volume.id, lba * 2039 % 16_384).await, lba);
            check();
        }
        engine.close().await.unwrap();
    });
}

/// Reclaim beside clients, in a store whose map is larger than the budget: no step may wait
/// for ever for nodes that others' loads drive out.
#[test]
fn reclaim_and_writers_come_to_an_end_in_almost_no_memory() {
    for (budget, writers) in [(512 << 10, 1), (512 << 10, 8), (128 << 10, 8)] {
        run(async |runtime| {
            let reclaim = ReclaimOptions { start_utilization: 0.2, ..ReclaimOptions::default() };
            let (engine, volume, map_bytes) =
                larger_than_memory(&runtime, 1024, budget, reclaim).await;
            assert!(map_bytes > 2 * budget, "the map takes {map_bytes} bytes");
            let done = Rc::new(Cell::new(0));
            for writer in 0..writers {
                let (engine, done) = (engine.clone(), done.clone());
                runtime.spawn(async move {
                    let mut random = Pcg64::seed_from_u64(writer);
                    let mut round = 0;
                    // At least until reclaim has moved something beside them.
                    while round < 4_000 / writers || engine.stats().moved_bytes == 0 {
                        let lba = random.next_u64() % SCATTERED;
                        put(&engine, volume, lba, round).await.unwrap();
                        round += 1;
                    }
                    done.set(done.get() + 1);
                });
            }
            for waited in 0.. {
                if done.get() == writers {
                    break;
                }
                assert!(waited < 100_000, "{} of {writers} writers are done", done.get());
                turns(1).await;
            }
            engine.close().await.unwrap();
        });
    }
}

/// Recovery holds the records of the log in memory, and those of small trims take next to no room on the
/// medium.
#[test]
fn a_log_of_many_small_records_is_cut_short_by_checkpoints() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 1024);
        let options = OpenOptions { memory_bytes: 16 << 20, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", 1 << 20).await.unwrap().id;
        put(&engine, volume, 0, 1).await.unwrap();
        turns(1000).await;
        let before = engine.stats().checkpoints;
        for step in 0..800_000 {
            engine.trim(volume, BLOCK, BLOCK, Durability::Buffered).await.unwrap();
            if step % 1000 == 0 {
                turns(10).await;
            }
        }
        let taken = engine.stats().checkpoints - before;
        assert!((2..=4).contains(&taken), "{taken} checkpoints in 800,000 records");
        engine.close().await.unwrap();
    });
}
