//! A server that is killed, with writes under way, and started again: with its warm log nothing that it
//! acknowledged is lost, flushed or not, and however often the next one is killed while it opens the store.

use std::collections::BTreeMap;

use mjolnir_device::filter::Verb;
use mjolnir_device::{AnyDevice, MemoryDevice, MemoryWarmLog};
use mjolnir_engine::OpenOptions;
use mjolnir_store::report::WarmLeft;
use mjolnir_store::{Durability, Op, Store, ZeroMode};

use crate::support::{
    BLOCK, Engine, Held, Random, Tick, dropped_after, format, payload, put, run, tag_of, turns,
};

const ZONE: u64 = 32;
const BLOCKS: u64 = 200;

async fn open_warm(
    device: impl mjolnir_device::Device,
    runtime: &Tick,
    warm: &MemoryWarmLog,
) -> Result<Engine, mjolnir_store::Error> {
    let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
    let warm = Box::new(warm.clone());
    Engine::open_warm(AnyDevice::new(device), runtime.clone(), options, Some(warm)).await
}

/// What each volume or snapshot holds: a tag for each block, 0 for a hole.
type Model = BTreeMap<String, Vec<u64>>;

/// A random change, acknowledged when this returns.
async fn change(engine: &Engine, model: &mut Model, draw: &mut Random, tag: u64) {
    let volumes: Vec<String> = model.keys().filter(|name| !name.contains('@')).cloned().collect();
    let name = volumes[draw.below(volumes.len() as u64) as usize].clone();
    let id = engine.find(&name).unwrap().id;
    let length = 1 + draw.below(9);
    let lba = draw.below(BLOCKS - length);
    let range = lba as usize..(lba + length) as usize;
    match draw.below(20) {
        0..8 => {
            put(engine, id, lba, tag).await.unwrap();
            model.get_mut(&name).unwrap()[lba as usize] = tag;
        }
        8..11 => {
            let data = payload(tag, length as usize);
            engine.write(id, lba * BLOCK, data, Durability::Buffered).await.unwrap();
            // `payload` counts on from block to block.
            model.get_mut(&name).unwrap()[range].fill(tag);
        }
        11 => {
            let trim = engine.trim(id, lba * BLOCK, length * BLOCK, Durability::Buffered);
            trim.await.unwrap();
            model.get_mut(&name).unwrap()[range].fill(0);
        }
        12 => {
            let (from, length) = (lba * BLOCK, length * BLOCK);
            let zeroes =
                engine.write_zeroes(id, from, length, ZeroMode::Unmap, Durability::Buffered);
            zeroes.await.unwrap();
            model.get_mut(&name).unwrap()[range].fill(0);
        }
        13 | 14 => {
            // A vector of a write and a clone, all or nothing.
            let to = draw.below(BLOCKS - length);
            let ops = vec![
                Op::Clone {
                    from: id,
                    from_offset: lba * BLOCK,
                    to: id,
                    to_offset: to * BLOCK,
                    length: length * BLOCK,
                },
                Op::Write { to: id, offset: lba * BLOCK, data: payload(tag, 1) },
            ];
            engine.atomic(ops, Durability::Buffered).await.unwrap();
            let blocks = model.get_mut(&name).unwrap();
            blocks.copy_within(range, to as usize);
            blocks[lba as usize] = tag;
        }
        15 if model.len() < 8 => {
            let snapshot = format!("s{tag}");
            engine.create_snapshot(&name, &snapshot).await.unwrap();
            let copy = model[&name].clone();
            model.insert(format!("{name}@{snapshot}"), copy);
        }
        16 if volumes.len() < 4 => {
            let clone = format!("c{tag}");
            engine.clone_volume(&name, &clone).await.unwrap();
            let copy = model[&name].clone();
            model.insert(clone, copy);
        }
        17 => engine.flush().await.unwrap(),
        18 => turns(draw.below(100) as usize).await,
        _ => engine.checkpoint().await.unwrap(),
    }
}

async fn verify(engine: &Engine, model: &Model, seed: u64) {
    for (name, blocks) in model {
        let id = engine.find(name).unwrap().id;
        for (lba, tag) in (0..).zip(blocks) {
            let found = tag_of(engine, id, lba).await;
            assert_eq!(found, *tag, "seed {seed}: block {lba} of {name}");
        }
    }
    assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn what_was_acknowledged_is_there_after_any_kill() {
    // More by hand: MJOLNIR_TRIES=10000 cargo test -p mjolnir-engine --test engine outlives
    let tries = std::env::var("MJOLNIR_TRIES").map_or(60, |text| text.parse().unwrap());
    let mut rescued = 0;
    for seed in 0..tries {
        run(async |runtime| {
            let mut draw = Random(seed);
            draw.bits();
            let mut device = Held::new(MemoryDevice::of_zones(120, ZONE));
            format(device.clone(), &runtime).await;
            let mut warm = MemoryWarmLog::default();
            if draw.below(4) == 0 {
                warm.limit(draw.below(20) as usize);
            }
            let mut engine = open_warm(device.clone(), &runtime, &warm).await.unwrap();
            engine.create_volume("v", BLOCKS * BLOCK).await.unwrap();
            let mut model = Model::from([("v".to_owned(), vec![0; BLOCKS as usize])]);
            let mut tag = 1;
            for _ in 0..3 {
                // What ends with a flush would wait for ever, and so would what finds no place in the warm log.
                let (mut steps, mut unfinished) = (10 + draw.below(60), false);
                while steps > 0 {
                    steps -= 1;
                    let mut next = model.clone();
                    if !dropped_after(3000, change(&engine, &mut next, &mut draw, tag)).await {
                        unfinished = true; // Perhaps done, perhaps not: this history ends here.
                        break;
                    }
                    model = next;
                    tag += 1;
                    if draw.below(30) == 0 {
                        device.strand(Verb::Append);
                    }
                }
                let mut left = warm.crash();
                let mut memory = device.inner.kill(draw.bits());
                // Killed again while it opens.
                for _ in 0..draw.below(3) {
                    let opening = Held::new(memory);
                    let turns = draw.below(300) as usize;
                    let opened = open_warm(opening.clone(), &runtime, &left);
                    dropped_after(turns, opened).await;
                    left = left.crash();
                    memory = opening.inner.kill(draw.bits());
                }
                device = Held::new(memory);
                warm = left;
                engine = open_warm(device.clone(), &runtime, &warm).await.unwrap();
                if unfinished {
                    return;
                }
                verify(&engine, &model, seed).await;
                rescued += engine.recovery().rescued_records;
            }
            engine.close().await.unwrap();
            assert!(warm.is_empty(), "a store that was closed leaves nothing");
        });
    }
    println!("{tries} tries: {rescued} records were logged again");
    assert!(rescued > 20, "{rescued}");
}

/// A device that holds a store with an empty volume, closed in order: each time the same.
async fn closed_store(runtime: &Tick) -> MemoryDevice {
    let device = MemoryDevice::of_zones(120, ZONE);
    format(device.clone(), runtime).await;
    let engine = open_warm(device.clone(), runtime, &MemoryWarmLog::default()).await.unwrap();
    engine.create_volume("v", BLOCKS * BLOCK).await.unwrap();
    engine.close().await.unwrap();
    device.reopen()
}

/// Its epochs count on from those of the copy, so they alone tell nothing.
#[test]
fn an_older_copy_that_is_put_back_takes_nothing_of_what_was_left() {
    run(async |runtime| {
        let (device, copy) = (closed_store(&runtime).await, closed_store(&runtime).await);
        let device = Held::new(device);
        let warm = MemoryWarmLog::default();
        let engine = open_warm(device.clone(), &runtime, &warm).await.unwrap();
        device.strand(Verb::Append);
        let id = engine.find("v").unwrap().id;
        for lba in 0..5 {
            put(&engine, id, lba, 100 + lba).await.unwrap();
        }
        let left = warm.crash();
        assert_eq!(left.len(), 5);
        device.inner.kill(1);

        // The copy is served as often as the store was, by a server that knows of no warm log.
        let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
        let served = Engine::open(AnyDevice::new(copy.clone()), runtime.clone(), options).await;
        drop(served.unwrap());
        let copy = copy.kill(2);
        let engine = open_warm(copy, &runtime, &left).await.unwrap();
        let told = engine.recovery();
        assert_eq!(told.rescued_records, 0);
        assert_eq!(told.foreign, Some(WarmLeft { place: "memory".into(), records: 5, take: None }));
        let id = engine.find("v").unwrap().id;
        for lba in 0..5 {
            assert_eq!(tag_of(&engine, id, lba).await, 0, "block {lba} is of another history");
        }
    });
}
