//! Damage to what was logged last, which nothing later vouches for: what was promised is
//! there, or the store says that it is not.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_lite::future::yield_now;
use mjolnir_device::filter::{Call, Damage, Event, Fault, Record, Verb};
use mjolnir_device::{AlignedBuf, Device, ErrorKind as DeviceKind, MemoryDevice};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Change, Durability, ErrorKind, Member, Op, Store, TransactionId};
use mjolnir_units::Pba;

use crate::support::{
    BLOCK, Engine, Held, Tick, flat, format, fresh, open, payload, put, run, tag_of,
};

const ZONE: u64 = 64;
const TAG: u64 = 70;

/// A store whose program ended after a flush: block 7 of `v` holds [`TAG`], the first that was
/// written since the store was opened. And where that lies.
async fn flushed(runtime: &Tick) -> (MemoryDevice, Pba) {
    flushed_one_by_one(runtime, &[7]).await
}

/// The same for several blocks, with a flush after each, and where the first one lies.
async fn flushed_one_by_one(runtime: &Tick, blocks: &[u64]) -> (MemoryDevice, Pba) {
    let memory = MemoryDevice::of_zones(32, ZONE);
    format(memory.clone(), runtime).await;
    let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
    let engine = engine.await.unwrap();
    engine.create_volume("v", 100 * BLOCK).await.unwrap();
    engine.close().await.unwrap();
    let memory = memory.reopen();
    let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
    let engine = engine.await.unwrap();
    let volume = engine.find("v").unwrap();
    for lba in blocks {
        put(&engine, volume.id, *lba, TAG).await.unwrap();
        engine.flush().await.unwrap();
    }
    let at = places_of(&memory, 32 * ZONE, TAG).await[0];
    (memory.reopen(), at)
}

/// Where blocks that a tag was put to lie, on a device of so many blocks.
async fn places_of(memory: &MemoryDevice, blocks: u64, tag: u64) -> Vec<Pba> {
    let mut places = Vec::new();
    for pba in (0..blocks).map(Pba) {
        let block = memory.read(pba, AlignedBuf::zeroed(BLOCK as usize)).await.unwrap();
        if block.as_ref()[..8] == (tag * 1_000_003).to_le_bytes() {
            places.push(pba);
        }
    }
    places
}

/// What reading the flushed block gives on a store opened for reading; or why it does not open.
async fn found<D: Device>(device: D, runtime: &Tick) -> Result<u64, ErrorKind> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let engine = open(device, runtime.clone(), options).await.map_err(|e| e.kind)?;
    let volume = engine.find("v").map_err(|error| error.kind)?;
    let read = engine.read(volume.id, 7 * BLOCK, BLOCK).await.map_err(|error| error.kind)?;
    Ok(u64::from_le_bytes(flat(read)[..8].try_into().unwrap()) / 1_000_003)
}

#[test]
fn payload_of_the_last_flush_that_cannot_be_read_is_missed() {
    run(async |runtime| {
        let (memory, at) = flushed(&runtime).await;
        let device = Fault::new(memory);
        device.control().damage(at, Damage::Unreadable);
        assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged));
    });
}

#[test]
fn a_device_that_fails_in_recovery_does_not_undo_the_last_flush() {
    run(async |runtime| {
        let mut whole = 0;
        let (mut memory, _) = flushed(&runtime).await;
        for nth in 1..300 {
            memory = memory.reopen();
            let device = Fault::new(memory.clone());
            // A second try fails, too.
            for each in nth..nth + 2 {
                device.control().fail(Verb::Read, each, DeviceKind::Io, false);
            }
            match found(device, &runtime).await {
                Ok(tag) => {
                    assert_eq!(tag, TAG, "reads from {nth} on failed");
                    whole += 1;
                }
                Err(kind) => assert_eq!(kind, ErrorKind::Io),
            }
        }
        assert!((1..298).contains(&whole), "{whole}");
    });
}

#[test]
fn a_segment_that_the_root_names_is_never_taken_for_free() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(32, ZONE);
        format(memory.clone(), &runtime).await;
        // The manifest lies alone in a segment that was opened for it. The headers of that, and of
        // its only group, are gone.
        let memory = memory.reopen();
        let device = Fault::new(memory.clone());
        let control = device.control();
        control.damage(Pba(0), Damage::Unreadable);
        control.damage(Pba(1), Damage::Unreadable);
        // The program ends when it has written nothing yet.
        (1..20).for_each(|nth| control.fail(Verb::Append, nth, DeviceKind::Invalid, false));
        let opened = open(device, runtime.clone(), OpenOptions::default()).await;
        assert_eq!(opened.err().expect("it cannot end its recovery").kind, ErrorKind::Io);
        let again = open(memory.reopen(), runtime.clone(), OpenOptions::default());
        again.await.expect("it opens as before").close().await.unwrap();
    });
}

#[test]
fn a_segment_that_lost_both_its_first_headers_is_not_taken_for_unopened() {
    run(async |runtime| {
        for bit in [8 * 20, 8 * 60] {
            let (memory, at) = flushed(&runtime).await;
            let start = at.zone(ZONE).start(ZONE);
            assert_eq!(at, start.plus(2));
            let device = Fault::new(memory);
            device.control().damage(start, Damage::Flipped(bit));
            device.control().damage(start.plus(1), Damage::Flipped(8 * 60));
            let found = found(device, &runtime).await;
            assert!(found == Err(ErrorKind::Damaged) || found == Ok(TAG), "bit {bit}: {found:?}");
        }
    });
}

/// Overwrites and collects, so that segments are given up, and used again by what is written after.
async fn age(engine: &Engine, round: u64) {
    let volume = engine.find("v").unwrap();
    for lba in 0..600 {
        if !(lba + round).is_multiple_of(3) {
            put(engine, volume.id, lba, round * 1000 + lba).await.unwrap();
        }
    }
    engine.flush().await.unwrap();
    engine.collect().await.unwrap();
    engine.checkpoint().await.unwrap();
}

/// The older root leads to what was so long ago, and what it leads to may have been used again since.
#[test]
fn the_older_of_two_roots_serves_only_where_all_that_it_names_is_there() {
    run(async |runtime| {
        let device = Held::new(MemoryDevice::of_zones(48, ZONE));
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        engine.create_volume("v", 600 * BLOCK).await.unwrap();
        let mut roots = Vec::new();
        for round in 0..12 {
            age(&engine, round).await;
            roots.push(device.inner.read_root().await.unwrap().unwrap());
        }
        engine.close().await.unwrap();
        roots.push(device.inner.read_root().await.unwrap().unwrap());
        let mut device = Held::new(device.inner.reopen());
        let (mut served, mut given_up) = (0, None);
        for (age, root) in roots.iter().rev().enumerate() {
            device.damage_root(root.clone());
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            match open(device.clone(), runtime.clone(), options).await {
                Ok(engine) => {
                    let volume = engine.find("v").unwrap().id;
                    for lba in 0..600 {
                        let round = if (lba + 11u64).is_multiple_of(3) { 10 } else { 11 };
                        assert_eq!(tag_of(&engine, volume, lba).await, round * 1000 + lba);
                    }
                    served += 1;
                }
                Err(error) => {
                    assert!(age > 0, "the newest leads to all there is: {error}");
                    assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
                    if error.message.contains("had given it up") {
                        given_up.get_or_insert(root);
                    }
                }
            }
            device = Held::new(device.inner.reopen());
        }
        assert!(served > 0);
        device.damage_root(given_up.expect("one names what was used again").clone());
        let options = OpenOptions { read_only: true, salvage: true, ..OpenOptions::default() };
        let salvaged = open(device, runtime.clone(), options).await.unwrap();
        salvaged.find("v").unwrap();
    });
}

/// What it could not write is in its memory alone: to look for that on the medium would tell of a loss,
/// though nothing was promised that is not there.
#[test]
fn a_store_that_failed_is_neither_checked_nor_scrubbed() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(32, ZONE);
        format(memory.clone(), &runtime).await;
        let device = Fault::new(memory);
        let control = device.control();
        let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
        let volume = engine.create_volume("v", 100 * BLOCK).await.unwrap();
        (1..20).for_each(|nth| control.fail(Verb::Append, nth, DeviceKind::Invalid, false));
        put(&engine, volume.id, 7, TAG).await.unwrap();
        engine.flush().await.unwrap_err();
        for refused in [engine.check().await.err(), engine.scrub(|_| ()).await.err()] {
            let error = refused.expect("the store failed");
            assert!(error.message.contains("before the store is opened again"), "{error}");
        }
        assert_eq!(tag_of(&engine, volume.id, 7).await, TAG, "memory knows");
    });
}

/// As good as never opened, but for the group that follows, which stands in for the header from then on.
#[test]
fn a_segment_whose_header_was_overwritten_is_known_by_its_first_group() {
    run(async |runtime| {
        let (mut memory, at) = flushed(&runtime).await;
        let header = Pba(at.0 / ZONE * ZONE);
        for _ in 0..3 {
            memory = memory.reopen();
            let device = Fault::new(memory.clone());
            device.control().damage(header, Damage::Overwritten);
            let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
            let volume = engine.find("v").unwrap();
            assert_eq!(tag_of(&engine, volume.id, 7).await, TAG);
            assert_eq!(engine.check().await.unwrap().problems, [""; 0]);
            engine.close().await.unwrap();
        }
    });
}

#[test]
fn a_check_tells_of_a_header_that_nothing_stands_in_for() {
    run(async |runtime| {
        let (memory, at) = flushed(&runtime).await;
        let header = Pba(at.0 / ZONE * ZONE);
        let device = Fault::new(memory.reopen());
        let control = device.control();
        let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
        let problems = async || engine.check().await.unwrap().problems;
        assert_eq!(problems().await, [""; 0]);
        control.damage(header, Damage::Overwritten);
        assert_eq!(problems().await, [""; 0]);
        control.damage(header.plus(1), Damage::Overwritten);
        let told = problems().await;
        assert!(told.iter().any(|problem| problem.contains("the header of segment")), "{told:?}");
        control.repair(header.plus(1));
        control.damage(header, Damage::Flipped(8 * 20));
        let told = problems().await;
        assert!(told.iter().any(|problem| problem.contains("the header of segment")), "{told:?}");
    });
}

/// More than the longest group: only one far behind tells that something was there.
#[test]
fn a_long_stretch_that_was_overwritten_is_missed_where_a_later_flush_tells_of_it() {
    run(async |runtime| {
        let (zones, blocks) = (32, 2048);
        let memory = MemoryDevice::of_zones(zones, blocks);
        format(memory.clone(), &runtime).await;
        let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
        let engine = engine.await.unwrap();
        let volume = engine.create_volume("v", 1000 * BLOCK).await.unwrap();
        engine.checkpoint().await.unwrap();
        for lba in 0..900 {
            put(&engine, volume.id, lba, TAG).await.unwrap();
        }
        engine.flush().await.unwrap();
        put(&engine, volume.id, 7, TAG + 1).await.unwrap();
        engine.flush().await.unwrap();
        drop(engine);
        let memory = memory.reopen();
        let at = places_of(&memory, u64::from(zones) * blocks, TAG + 1).await[0];
        let device = Fault::new(memory);
        assert!(at.0 % blocks > 700, "it lies in the same segment, at {at}");
        for pba in (at.0 - 700..at.0 - 2).map(Pba) {
            device.control().damage(pba, Damage::Overwritten);
        }
        assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged));
    });
}

/// A later flush tells that something was promised there.
#[test]
fn groups_that_a_segment_without_a_header_lost_are_missed() {
    run(async |runtime| {
        // Its first group, which stands in for the header, or one behind it.
        for lost in [1, 3] {
            let (memory, at) = flushed_one_by_one(&runtime, &[7, 8, 9]).await;
            let start = at.zone(ZONE).start(ZONE);
            assert_eq!(at, start.plus(2));
            let device = Fault::new(memory);
            device.control().damage(start, Damage::Overwritten);
            device.control().damage(start.plus(lost), Damage::Overwritten);
            let found = found(device, &runtime).await;
            assert_eq!(found, Err(ErrorKind::Damaged), "group {lost}");
        }
    });
}

/// A store with 900 blocks in one segment, all written before a flush, if there was one, and in several groups,
/// of which only a later flush tells; and the segment's start.
async fn many_groups(runtime: &Tick, flushed: bool) -> (MemoryDevice, Pba) {
    let (zones, blocks) = (32, 2048);
    let memory = MemoryDevice::of_zones(zones, blocks);
    format(memory.clone(), runtime).await;
    let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
    let engine = engine.await.unwrap();
    engine.create_volume("v", 1000 * BLOCK).await.unwrap();
    engine.close().await.unwrap();
    let memory = memory.reopen();
    let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
    let engine = engine.await.unwrap();
    let volume = engine.find("v").unwrap();
    for lba in 0..900 {
        put(&engine, volume.id, lba, TAG).await.unwrap();
    }
    if flushed {
        engine.flush().await.unwrap();
        put(&engine, volume.id, 8, TAG).await.unwrap();
        engine.flush().await.unwrap();
    } else {
        // All of it is on its way, but for nothing is there a promise.
        while places_of(&memory, u64::from(zones) * blocks, TAG).await.len() < 300 {
            yield_now().await;
        }
    }
    let places = places_of(&memory, u64::from(zones) * blocks, TAG).await;
    let start = places[0].zone(blocks).start(blocks);
    assert!(places.iter().filter(|place| place.zone(blocks) == start.zone(blocks)).count() > 250);
    (memory.reopen(), start)
}

/// Damages the header of a segment and of its first group, which leaves those of later ones.
fn without_a_beginning(memory: MemoryDevice, start: Pba, how: Damage) -> Fault<MemoryDevice> {
    let device = Fault::new(memory);
    device.control().damage(start, how);
    device.control().damage(start.plus(1), how);
    device
}

#[test]
fn a_segment_without_a_beginning_is_missed_where_any_later_group_of_it_tells_that_it_was_durable() {
    run(async |runtime| {
        let (memory, start) = many_groups(&runtime, true).await;
        let device = without_a_beginning(memory, start, Damage::Overwritten);
        assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged));
    });
}

/// A power cut may leave the same where nothing was flushed.
#[test]
fn a_segment_without_a_beginning_of_which_nothing_was_promised_is_not_missed() {
    run(async |runtime| {
        let (memory, start) = many_groups(&runtime, false).await;
        let device = without_a_beginning(memory, start, Damage::Overwritten);
        assert_eq!(found(device, &runtime).await, Ok(0));
    });
}

/// The newest root is damaged, and the segment that was opened after it has no beginning either.
#[test]
fn a_segment_without_a_beginning_tells_of_a_later_root_than_the_one_that_is_left() {
    run(async |runtime| {
        let (memory, _) = flushed(&runtime).await;
        let older = memory.read_root().await.unwrap().unwrap();
        let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
        let engine = engine.await.unwrap();
        let volume = engine.find("v").unwrap();
        for lba in [7, 8, 9] {
            put(&engine, volume.id, lba, TAG + 1).await.unwrap();
            engine.flush().await.unwrap();
        }
        let at = places_of(&memory, 32 * ZONE, TAG + 1).await[0];
        let start = at.zone(ZONE).start(ZONE);
        let mut memory = memory;
        for damaged in [false, true] {
            memory = memory.reopen();
            let held = Held::new(memory.clone());
            let device = Fault::new(held.clone());
            if damaged {
                device.control().damage(start, Damage::Overwritten);
                device.control().damage(start.plus(1), Damage::Overwritten);
            }
            held.damage_root(older.clone());
            assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged), "{damaged}");
        }
    });
}

/// A salvage that was cut short is no salvage: the damage is found again, though its program, or the power,
/// ended when it had made segments ready to be written.
#[test]
fn a_salvage_that_is_cut_short_leaves_what_tells_of_the_loss() {
    run(async |runtime| {
        for (how, seed) in [Damage::Overwritten, Damage::Flipped(8 * 20)]
            .into_iter()
            .flat_map(|how| [None, Some(1), Some(2), Some(3)].map(|seed| (how, seed)))
        {
            // Of the second one nothing is left that tells what it was.
            let blocks = if how == Damage::Overwritten { &[7, 8, 9][..] } else { &[7] };
            let (memory, at) = flushed_one_by_one(&runtime, blocks).await;
            let start = at.zone(ZONE).start(ZONE);
            let device = without_a_beginning(memory.clone(), start, how);
            assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged));
            let memory = memory.reopen();
            let device = without_a_beginning(memory.clone(), start, how);
            let control = device.control();
            (1..20).for_each(|nth| control.fail(Verb::Append, nth, DeviceKind::Invalid, false));
            let options = OpenOptions { salvage: true, ..OpenOptions::default() };
            let opened = open(device, runtime.clone(), options.clone()).await;
            assert_eq!(opened.err().expect("it cannot write").kind, ErrorKind::Io);
            let memory = match seed {
                None => memory.reopen(),
                Some(seed) => memory.crash(seed),
            };
            let device = without_a_beginning(memory.clone(), start, how);
            assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged), "{how:?}, {seed:?}");
            let memory = memory.reopen();
            let device = without_a_beginning(memory.clone(), start, how);
            let salvaged = open(device, runtime.clone(), options).await.unwrap();
            assert!(salvaged.log_loss().is_some());
            salvaged.close().await.unwrap();
            // From then on it is as if it had never been.
            let device = without_a_beginning(memory.reopen(), start, how);
            let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
            assert_eq!(engine.check().await.unwrap().problems, [""; 0]);
            engine.close().await.unwrap();
        }
    });
}

/// Only what a checkpoint wrote that did not end tells that the last flush was promised. Where that lies in a
/// segment of its own, the next one does not use it.
#[test]
fn a_checkpoint_that_did_not_end_tells_of_a_promise_until_the_next_one_has() {
    run(async |runtime| {
        let mut kept = 0;
        for (checkpoints, idle) in (8..14).flat_map(|busy| (0..4).map(move |idle| (busy, idle))) {
            let device = Fault::new(flushed(&runtime).await.0);
            let (memory, control) = (device.inner().clone(), device.control());
            // The root is not to tell of it, too.
            let promise_after = Duration::from_secs(3600);
            let options = OpenOptions { promise_after, ..OpenOptions::default() };
            let engine = open(device, runtime.clone(), options).await.unwrap();
            let volume = engine.find("v").unwrap();
            for lba in 10..10 + checkpoints {
                put(&engine, volume.id, lba, 1).await.unwrap();
                engine.checkpoint().await.unwrap();
            }
            for _ in 0..idle {
                engine.checkpoint().await.unwrap();
            }
            for lba in [8, 9, 7] {
                put(&engine, volume.id, lba, TAG + 1).await.unwrap();
                engine.flush().await.unwrap();
            }
            control.fail_all(Verb::WriteRoot, Some(DeviceKind::Io));
            engine.close().await.unwrap_err();
            let last = *places_of(&memory, 32 * ZONE, TAG + 1).await.last().unwrap();
            let damaged = |memory: MemoryDevice| {
                let device = Fault::new(memory);
                device.control().damage(Pba(last.0 - 1), Damage::Overwritten);
                device
            };
            let memory = memory.reopen();
            assert_eq!(found(damaged(memory.clone()), &runtime).await, Err(ErrorKind::Damaged));
            let memory = memory.reopen();
            let salvage = OpenOptions { salvage: true, ..OpenOptions::default() };
            let looked = OpenOptions { read_only: true, ..salvage.clone() };
            let engine = open(damaged(memory.clone()), runtime.clone(), looked).await.unwrap();
            kept += engine.stats().space.retiring_bytes / BLOCK / ZONE;
            drop(engine);
            let memory = memory.reopen();
            let device = damaged(memory.clone());
            device.control().fail_all(Verb::WriteRoot, Some(DeviceKind::Io));
            let cut_short = open(device, runtime.clone(), salvage.clone()).await;
            assert_eq!(cut_short.err().expect("it has no root").kind, ErrorKind::Io);
            let memory = memory.reopen();
            assert_eq!(found(damaged(memory.clone()), &runtime).await, Err(ErrorKind::Damaged));
            let memory = memory.reopen();
            let salvaged = open(damaged(memory.clone()), runtime.clone(), salvage).await.unwrap();
            assert!(salvaged.log_loss().is_some());
            salvaged.close().await.unwrap();
            assert_eq!(found(damaged(memory.reopen()), &runtime).await, Ok(TAG));
        }
        assert!((1..12).contains(&kept), "{kept}");
    });
}

/// What a power cut may have left beside it is not what the refusal is for: neither a group without a header,
/// nor a segment without a beginning, which comes last.
#[test]
fn a_refusal_names_what_is_damaged_for_certain() {
    run(async |runtime| {
        let blocks: Vec<u64> = (0..50).collect();
        let (mut memory, at) = flushed_one_by_one(&runtime, &blocks).await;
        let places = places_of(&memory, 32 * ZONE, TAG).await;
        let other = places.iter().map(|place| place.zone(ZONE)).find(|zone| *zone != at.zone(ZONE));
        let (at, other) = (at.zone(ZONE).start(ZONE), other.unwrap().start(ZONE));
        let (gone, flipped) = (Damage::Overwritten, Damage::Flipped(8 * 60));
        for (damage, named) in [
            (vec![(at.plus(5), gone), (other.plus(11), flipped)], other.plus(11)),
            (vec![(other, gone), (other.plus(1), gone), (at.plus(11), flipped)], at.plus(11)),
            (vec![(other, gone), (other.plus(1), gone), (at.plus(5), gone)], at.plus(5)),
        ] {
            memory = memory.reopen();
            let device = Fault::new(memory.clone());
            damage.into_iter().for_each(|(pba, how)| device.control().damage(pba, how));
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let error = open(device, runtime.clone(), options).await.err().unwrap();
            let named = format!("segment {}, block {}", named.zone(ZONE).0, named.offset(ZONE));
            assert!(error.message.contains(&named), "{error}, not {named}");
        }
    });
}

/// Where a volume's growth cannot be repeated, neither can what was done in the part that grew. That is a loss
/// to be told of, not one for the sake of which nothing else is given out.
#[test]
fn what_was_done_in_a_part_whose_growth_is_lost_is_told_with_it() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(64, 256);
        format(memory.clone(), &runtime).await;
        let engine = open(memory.clone(), runtime.clone(), OpenOptions::default()).await.unwrap();
        let volume = engine.create_volume("v", 4000 * BLOCK).await.unwrap().id;
        engine.create_volume("w", 4 * BLOCK).await.unwrap();
        // More extents than a leaf of the map holds.
        for lba in 0..2000 {
            put(&engine, volume, 2 * lba, TAG).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        engine.resize_volume("v", 6000 * BLOCK, false).await.unwrap();
        put(&engine, volume, 5000, TAG).await.unwrap();
        let (from, to) = (volume, volume);
        let (from_offset, to_offset, length) = (5000 * BLOCK, 5500 * BLOCK, BLOCK);
        let moved = Op::Move { from, from_offset, to, to_offset, length };
        engine.atomic(vec![moved], Durability::Durable).await.unwrap();
        let zeroed = Op::Trim { of: to, offset: 5400 * BLOCK, length: 200 * BLOCK };
        engine.atomic(vec![zeroed], Durability::Durable).await.unwrap();
        let transaction = TransactionId(0xab);
        let write = |lba| Op::Write { to, offset: lba * BLOCK, data: payload(TAG, 1) };
        let changes = [5100, 5300].map(|lba| Change::Bytes(write(lba)));
        engine.prepare(transaction, changes.into()).await.unwrap();
        engine.commit(transaction).await.unwrap();
        engine.flush().await.unwrap();
        drop(engine);
        let mut memory = memory.reopen();
        let device = Record::new(memory.clone());
        let log = device.log();
        assert_eq!(found(device, &runtime).await, Ok(0));
        let mut read: Vec<Pba> = Vec::new();
        for event in log.events().iter() {
            if let Event::Called(_, Call::Read { from, blocks }) = event {
                read.extend((0..*blocks).map(|block| from.plus(block)));
            }
        }
        let mut growth_lost = 0;
        for pba in read.into_iter().collect::<BTreeSet<_>>() {
            memory = memory.reopen();
            let device = Fault::new(memory.clone());
            device.control().damage(pba, Damage::Unreadable);
            let options = OpenOptions { read_only: true, salvage: true, ..OpenOptions::default() };
            let opened = open(device, runtime.clone(), options).await;
            let engine = opened.unwrap_or_else(|why| panic!("without block {pba}: {why}"));
            engine.find("w").unwrap();
            let Some(loss) = engine.log_loss() else { continue };
            let told = |what: &str| loss.changes.iter().any(|change| change.contains(what));
            growth_lost += u32::from(told("was given a size") && told("pass the end"));
        }
        assert!(growth_lost > 0);
    });
}

/// Each block of a failing disk may take seconds.
#[test]
fn no_group_is_looked_for_in_much_that_cannot_be_read() {
    run(async |runtime| {
        let blocks = 8192;
        let memory = MemoryDevice::of_zones(16, blocks);
        format(memory.clone(), &runtime).await;
        let engine = open(memory.clone(), runtime.clone(), OpenOptions::default());
        let engine = engine.await.unwrap();
        let volume = engine.create_volume("v", 1000 * BLOCK).await.unwrap();
        engine.checkpoint().await.unwrap();
        put(&engine, volume.id, 7, TAG).await.unwrap();
        engine.flush().await.unwrap();
        drop(engine);
        let memory = memory.reopen();
        let at = places_of(&memory, 16 * blocks, TAG).await[0];
        let fault = Fault::new(memory);
        let end = at.zone(blocks).start(blocks).0 + blocks;
        for pba in (at.0 + 1..end).map(Pba) {
            fault.control().damage(pba, Damage::Unreadable);
        }
        let device = Record::new(fault);
        let log = device.log();
        assert_eq!(found(device, &runtime).await, Err(ErrorKind::Damaged), "it may have been more");
        let is_there = |event: &&Event| match event {
            Event::Called(_, Call::Read { from, .. }) => from.zone(blocks) == at.zone(blocks),
            _ => false,
        };
        let reads = log.events().iter().filter(is_there).count();
        assert!((514..1_000).contains(&reads), "{reads} reads");
    });
}
