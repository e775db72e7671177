//! Volumes whose size is a multiple of 512 and not of 4096: nothing is past their end, and what was cut
//! off never comes back, however they are resized, copied, cut off from power or opened again.

use bytes::Bytes;
use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::Verb;
use mjolnir_engine::OpenOptions;
use mjolnir_store::DiffExtent;
use mjolnir_store::{Durability, Error, ErrorKind, Extent, Mapping, Op, Store, ZeroMode};
use mjolnir_units::TreeId;

use crate::support::{BLOCK, Engine, Held, Random, dropped_after, flat, fresh, open, run, turns};

const SECTOR: u64 = 512;

fn bytes_of(tag: u8, length: u64) -> Bytes {
    Bytes::from(vec![tag; length as usize])
}

async fn put(engine: &Engine, tree: TreeId, offset: u64, data: Bytes) -> Result<(), Error> {
    engine.write(tree, offset, data, Durability::Buffered).await
}

async fn all_of(engine: &Engine, name: &str) -> Vec<u8> {
    let target = engine.find(name).unwrap();
    flat(engine.read(target.id, 0, target.size).await.unwrap())
}

async fn assert_sound(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_volume_ends_where_its_size_says() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 6144).await.unwrap();
        assert_eq!(v.size, 6144);
        put(&engine, v.id, 0, bytes_of(1, 6144)).await.unwrap();
        assert_eq!(all_of(&engine, "v").await, [1; 6144]);
        for (offset, length) in [(6144, 1), (4096, 4096), (0, 8192), (6143, 2)] {
            let refused = [
                engine.read(v.id, offset, length).await.map(drop).unwrap_err(),
                put(&engine, v.id, offset, bytes_of(2, length)).await.unwrap_err(),
                engine.trim(v.id, offset, length, Durability::Buffered).await.unwrap_err(),
                engine.extents(v.id, offset, length, 9).await.unwrap_err(),
            ];
            for error in refused {
                assert_eq!(error.kind, ErrorKind::Invalid);
                assert!(error.message.contains("passes the end of v, which has 6144 bytes"));
            }
        }
        let extents = engine.extents(v.id, 0, 6144, 9).await.unwrap();
        assert_eq!(extents, [Extent { length: 6144, mapping: Mapping::Data }]);
        assert_eq!(engine.mapped("v").await.unwrap(), 6144);
        // To the end is all of the last block, which becomes a hole.
        let zeroed = engine.write_zeroes(v.id, 3000, 3144, ZeroMode::Unmap, Durability::Buffered);
        zeroed.await.unwrap();
        assert_eq!(engine.mapped("v").await.unwrap(), 4096);
        assert_eq!(all_of(&engine, "v").await, [vec![1; 3000], vec![0; 3144]].concat());
        put(&engine, v.id, 4096, bytes_of(3, 2048)).await.unwrap();
        engine.trim(v.id, 4096, 1024, Durability::Buffered).await.unwrap();
        assert_eq!(engine.mapped("v").await.unwrap(), 6144, "a part of it frees nothing");
        engine.trim(v.id, 4096, 2048, Durability::Buffered).await.unwrap();
        assert_eq!(engine.mapped("v").await.unwrap(), 4096);
        assert_sound(&engine).await;
        for size in [0, 1, 511, 513, 4097, (256 << 40) + 512] {
            for error in [
                engine.create_volume("w", size).await.unwrap_err(),
                engine.resize_volume("v", size, true).await.unwrap_err(),
            ] {
                assert!(error.message.contains("choose a multiple of 512"), "{error}");
            }
        }
        engine.create_volume("w", (256 << 40) - 512).await.unwrap();
        engine.close().await.unwrap();
    });
}

#[test]
fn what_was_cut_off_never_comes_back() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(32, 64);
        let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 3 * BLOCK).await.unwrap();
        put(&engine, v.id, 0, bytes_of(1, 3 * BLOCK)).await.unwrap();
        assert_eq!(engine.resize_volume("v", 4608, true).await.unwrap().size, 4608);
        let expected = |ones: usize, size: usize| [vec![1; ones], vec![0; size - ones]].concat();
        for (size, crash) in [(5120, true), (8192, false), (20_480, true), (5120, false)] {
            engine.resize_volume("v", size, true).await.unwrap();
            assert_eq!(all_of(&engine, "v").await, expected(4608, size as usize));
            if crash {
                drop(engine);
                device.cut_power();
                device = device.crash(size);
            } else {
                engine.close().await.unwrap();
                device = device.reopen();
            }
            engine = open(device.clone(), runtime.clone(), OpenOptions::default()).await.unwrap();
            assert_eq!(all_of(&engine, "v").await, expected(4608, size as usize));
            assert_sound(&engine).await;
        }
        // A hole that is cut stays one.
        engine.trim(v.id, 0, 5120, Durability::Buffered).await.unwrap();
        engine.resize_volume("v", 1024, true).await.unwrap();
        assert_eq!(engine.mapped("v").await.unwrap(), 0);
        engine.close().await.unwrap();
    });
}

#[test]
fn copies_have_the_size_and_restore_brings_it_back() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 6144).await.unwrap();
        put(&engine, v.id, 0, bytes_of(1, 6144)).await.unwrap();
        assert_eq!(engine.create_snapshot("v", "s").await.unwrap().size, 6144);
        assert_eq!(engine.clone_volume("v@s", "c").await.unwrap().size, 6144);
        engine.resize_volume("v", 9216, false).await.unwrap();
        put(&engine, v.id, 4096, bytes_of(2, 5120)).await.unwrap();
        let page = engine.diff("v@s", "v", 0, 9).await.unwrap();
        assert_eq!(page.extents, [DiffExtent { offset: 4096, length: 5120, data: true }]);
        let page = engine.diff("v", "c", 0, 9).await.unwrap();
        assert_eq!(page.extents, [DiffExtent { offset: 4096, length: 2048, data: true }]);
        assert_eq!(engine.restore_snapshot("v", "s").await.unwrap().size, 6144);
        for name in ["v", "v@s", "c"] {
            assert_eq!(all_of(&engine, name).await, [1; 6144], "{name}");
        }
        engine.close().await.unwrap();
        let engine = open(device.reopen(), runtime, OpenOptions::default()).await.unwrap();
        for name in ["v", "v@s", "c"] {
            assert_eq!(engine.resize_volume("v", 6144, true).await.unwrap().size, 6144);
            assert_eq!(all_of(&engine, name).await, [1; 6144], "{name}");
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn vectors_take_the_tail_as_a_whole_where_volumes_end() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let a = engine.create_volume("a", 6144).await.unwrap().id;
        let b = engine.create_volume("b", 2048).await.unwrap().id;
        let c = engine.create_volume("c", 8192).await.unwrap().id;
        put(&engine, a, 0, bytes_of(1, 6144)).await.unwrap();
        put(&engine, c, 0, bytes_of(3, 8192)).await.unwrap();
        let clone = |from, from_offset, to, to_offset, length| {
            vec![Op::Clone { from, from_offset, to, to_offset, length }]
        };
        let shift = |from, from_offset, to, to_offset, length| {
            vec![Op::Move { from, from_offset, to, to_offset, length }]
        };
        let write = |to, offset, length| vec![Op::Write { to, offset, data: bytes_of(4, length) }];
        let trim = |of, offset, length| vec![Op::Trim { of, offset, length }];
        for ops in [
            clone(a, 4096, c, 0, 2048),
            clone(c, 0, b, 0, 2048),
            clone(a, 4096, b, 0, 512),
            clone(a, 4096, b, 0, 4096),
            shift(a, 4096, c, 4096, 2048),
            shift(c, 4096, b, 0, 2048),
            write(a, 0, 2048),
            write(c, 4096, 512),
            write(a, 4096, 4096),
            trim(a, 4096, 1024),
            trim(a, 0, 512),
            trim(c, 4096, 2048),
        ] {
            let words = format!("{ops:?}");
            let refused = engine.atomic(ops, Durability::Buffered).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Invalid, "{words}");
            let told = ["does not reach to the end of", "passes the end of"];
            assert!(told.iter().any(|part| refused.message.contains(part)), "{words}: {refused}");
        }
        assert_eq!(all_of(&engine, "a").await, [1; 6144]);
        assert_eq!(all_of(&engine, "c").await, [3; 8192]);
        let done = async |ops| engine.atomic(ops, Durability::Buffered).await.unwrap();
        done(clone(a, 4096, b, 0, 2048)).await;
        assert_eq!(all_of(&engine, "b").await, [1; 2048]);
        done(write(a, 0, 6144)).await;
        done(shift(b, 0, a, 4096, 2048)).await;
        assert_eq!(all_of(&engine, "b").await, [0; 2048]);
        assert_eq!(all_of(&engine, "a").await, [vec![4; 4096], vec![1; 2048]].concat());
        done(trim(a, 0, 6144)).await;
        assert_eq!(engine.mapped("a").await.unwrap(), 0);
        engine.resize_volume("a", 8192, false).await.unwrap();
        assert_eq!(all_of(&engine, "a").await, [0; 8192]);
        assert_sound(&engine).await;
        engine.close().await.unwrap();
    });
}

/// A write of a part of the last block, under way while that block is cut.
#[test]
fn a_write_that_waits_brings_nothing_back_past_the_end() {
    let (mut written, mut refused) = (0, 0);
    for turn in 0..60 {
        run(async |runtime| {
            let device = Held::new(MemoryDevice::of_zones(32, 64));
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let v = engine.create_volume("v", 8192).await.unwrap().id;
            put(&engine, v, 0, bytes_of(1, 8192)).await.unwrap();
            engine.flush().await.unwrap();
            let write = async {
                turns(turn % 20).await;
                if turn % 2 == 0 {
                    put(&engine, v, 4096 + 512, bytes_of(2, 1024)).await
                } else {
                    put(&engine, v, 4096, bytes_of(2, 512)).await
                }
            };
            let shrink = async {
                turns(turn % 7).await;
                engine.resize_volume("v", 5120, true).await.unwrap();
            };
            let (outcome, ()) = futures_lite::future::zip(write, shrink).await;
            match outcome {
                Ok(()) => written += 1,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
                    refused += 1;
                }
            }
            engine.resize_volume("v", 8192, true).await.unwrap();
            let bytes = all_of(&engine, "v").await;
            assert_eq!(bytes[5120..], [0; 3072], "turn {turn}");
            engine.close().await.unwrap();
        });
    }
    assert!(written > 0 && refused > 0, "{written} written, {refused} refused");
}

#[test]
fn a_cut_of_the_power_leaves_the_old_size_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for turn in 0..60 {
        run(async |runtime| {
            let device = Held::new(MemoryDevice::of_zones(32, 64));
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let v = engine.create_volume("v", 8192).await.unwrap().id;
            engine.write(v, 0, bytes_of(1, 8192), Durability::Durable).await.unwrap();
            if turn % 2 == 0 {
                device.hold(Verb::Flush);
            }
            let done = dropped_after(turn, engine.resize_volume("v", 4608, true)).await;
            device.inner.cut_power();
            let found = device.inner.crash(turn as u64);
            let engine = open(found, runtime.clone(), OpenOptions::default()).await.unwrap();
            match engine.find("v").unwrap().size {
                8192 if !done => {
                    assert_eq!(all_of(&engine, "v").await, [1; 8192], "turn {turn}");
                    old += 1;
                }
                4608 => {
                    engine.resize_volume("v", 8192, true).await.unwrap();
                    let expected = [vec![1; 4608], vec![0; 8192 - 4608]].concat();
                    assert_eq!(all_of(&engine, "v").await, expected, "turn {turn}");
                    new += 1;
                }
                size => panic!("turn {turn}: {size} bytes, done: {done}"),
            }
            assert_sound(&engine).await;
        });
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}

#[test]
fn a_full_store_can_be_shrunk_to_any_size() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 64 << 20).await.unwrap().id;
        let mut at = 0;
        while put(&engine, v, at, bytes_of(1, 16 * BLOCK)).await.is_ok() {
            at += 16 * BLOCK;
        }
        assert_eq!(engine.resize_volume("v", 4608, true).await.unwrap().size, 4608);
        engine.resize_volume("v", 8192, true).await.unwrap();
        assert_eq!(all_of(&engine, "v").await, [vec![1; 4608], vec![0; 8192 - 4608]].concat());
        assert_sound(&engine).await;
        engine.close().await.unwrap();
    });
}

/// Two volumes and a snapshot against plain bytes, through everything that sizes have to do with.
#[test]
fn a_model_of_plain_bytes_agrees() {
    for seed in 1..=40 {
        run(async |runtime| {
            let mut random = Random(seed);
            let mut device = MemoryDevice::of_zones(32, 64);
            let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let names = ["a", "b"];
            let mut model: Vec<Vec<u8>> = Vec::new();
            for name in names {
                let size = (1 + random.below(60)) * SECTOR;
                engine.create_volume(name, size).await.unwrap();
                model.push(vec![0; size as usize]);
            }
            let mut snapshot: Option<Vec<u8>> = None;
            for step in 0..120u8 {
                let at = random.below(2) as usize;
                let id = engine.find(names[at]).unwrap().id;
                let size = model[at].len() as u64;
                let offset = random.below(size);
                let length = 1 + random.below(size - offset);
                let range = offset as usize..(offset + length) as usize;
                match random.below(10) {
                    0..=2 => {
                        put(&engine, id, offset, bytes_of(step + 1, length)).await.unwrap();
                        model[at][range].fill(step + 1);
                    }
                    3 => {
                        let (mode, durability) = (ZeroMode::Unmap, Durability::Buffered);
                        engine.write_zeroes(id, offset, length, mode, durability).await.unwrap();
                        model[at][range].fill(0);
                    }
                    4..=5 => {
                        let new = (1 + random.below(60)) * SECTOR;
                        engine.resize_volume(names[at], new, true).await.unwrap();
                        model[at].resize(new as usize, 0);
                    }
                    6 => match snapshot.take() {
                        None => {
                            engine.create_snapshot("a", "s").await.unwrap();
                            snapshot = Some(model[0].clone());
                        }
                        Some(content) => {
                            engine.restore_snapshot("a", "s").await.unwrap();
                            engine.delete_snapshot("a", "s").await.unwrap();
                            model[0] = content;
                        }
                    },
                    7 => {
                        // From a block boundary to the end, over the end of the other one.
                        let lba = offset / BLOCK * BLOCK;
                        let tail = model[at][lba as usize..].to_vec();
                        let (length, other) = (tail.len() as u64, 1 - at);
                        let to_offset = random.below(4) * BLOCK;
                        engine.resize_volume(names[other], to_offset + length, true).await.unwrap();
                        let to = engine.find(names[other]).unwrap().id;
                        let (from, from_offset) = (id, lba);
                        let clone = Op::Clone { from, from_offset, to, to_offset, length };
                        engine.atomic(vec![clone], Durability::Buffered).await.unwrap();
                        model[other].resize(to_offset as usize, 0);
                        model[other].extend(tail);
                    }
                    8 => {
                        let lba = offset / BLOCK * BLOCK;
                        let data = bytes_of(step + 1, size - lba);
                        let write = Op::Write { to: id, offset: lba, data };
                        engine.atomic(vec![write], Durability::Buffered).await.unwrap();
                        model[at][lba as usize..].fill(step + 1);
                    }
                    _ => {
                        if random.below(2) == 0 {
                            engine.flush().await.unwrap();
                            drop(engine);
                            device.cut_power();
                            device = device.crash(seed);
                        } else {
                            engine.close().await.unwrap();
                            device = device.reopen();
                        }
                        let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
                        engine = open(device.clone(), runtime.clone(), options).await.unwrap();
                        assert_sound(&engine).await;
                    }
                }
                for (name, expected) in names.iter().zip(&model) {
                    assert!(all_of(&engine, name).await == *expected, "seed {seed}, step {step}");
                }
            }
            let s = snapshot.as_ref();
            if let Some(expected) = s {
                assert!(all_of(&engine, "a@s").await == *expected, "seed {seed}");
            }
            assert_eq!(engine.scrub(|_| ()).await.unwrap().damage, Vec::<String>::new());
            engine.close().await.unwrap();
        });
    }
}
