//! Each read of the device that fails, and each that returns other bytes than were written, is counted by
//! what it was for, also where nobody else hears of it; and the last one is told with its place.

use mjolnir_device::filter::{Damage, Fault, FaultControl, Verb};
use mjolnir_device::{AlignedBuf, Device, ErrorKind as DeviceKind, MemoryDevice};
use mjolnir_engine::OpenOptions;
use mjolnir_store::report::{ReadErrorKind, ReadPurpose, Stats};
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{BLOCK, Engine, Random, Tick, format, open, put, run, soon};

const ZONES: u32 = 40;
const ZONE: u64 = 128;
const BLOCKS: u64 = 2000;

/// A store in which a volume was written here and there, opened on a device that is to fail.
async fn written(runtime: &Tick) -> (MemoryDevice, Engine, FaultControl, TreeId) {
    let memory = MemoryDevice::of_zones(ZONES, ZONE);
    format(memory.clone(), runtime).await;
    let engine = open(memory.clone(), runtime.clone(), OpenOptions::default()).await.unwrap();
    let volume = engine.create_volume("v", 100_000 * BLOCK).await.unwrap().id;
    for block in 0..BLOCKS {
        put(&engine, volume, place(block), block + 1).await.unwrap();
    }
    engine.close().await.unwrap();
    let memory = memory.reopen();
    let (engine, control) = opened(&memory, runtime).await;
    (memory, engine, control, volume)
}

async fn opened(memory: &MemoryDevice, runtime: &Tick) -> (Engine, FaultControl) {
    let device = Fault::new(memory.clone());
    let control = device.control();
    let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
    assert_eq!((engine.stats().read_errors, engine.stats().checksum_errors), (0, 0));
    (engine, control)
}

/// Where a block of the volume is: each is an extent of its own.
fn place(block: u64) -> u64 {
    block * 40_503 % 65_536
}

/// Where the block with that tag lies.
async fn lies(memory: &MemoryDevice, tag: u64) -> Pba {
    for pba in (0..u64::from(ZONES) * ZONE).map(Pba) {
        let block = memory.read(pba, AlignedBuf::zeroed(BLOCK as usize)).await.unwrap();
        if block.as_ref()[..8] == (tag * 1_000_003).to_le_bytes() {
            return pba;
        }
    }
    panic!("it was written");
}

fn assert_only(stats: &Stats, purposes: &[ReadPurpose]) {
    for purpose in ReadPurpose::ALL {
        let errors = (stats.read_errors_by.of(purpose), stats.checksum_errors_by.of(purpose));
        assert!(purposes.contains(&purpose) || errors == (0, 0), "{purpose:?}: {stats:?}");
    }
    assert_eq!(stats.read_errors, stats.read_errors_by.total());
    assert_eq!(stats.checksum_errors, stats.checksum_errors_by.total());
}

#[test]
fn of_a_client() {
    run(async |runtime| {
        let (memory, engine, control, volume) = written(&runtime).await;
        let at = lies(&memory, 78).await;
        for (damage, failed, wrong) in [
            (Damage::Failing, 1, 0),
            (Damage::Unreadable, 2, 0),
            (Damage::Flipped(77), 2, 1),
            (Damage::Overwritten, 2, 2),
        ] {
            control.damage(at, damage);
            engine.read(volume, place(77) * BLOCK, BLOCK).await.unwrap_err();
            let stats = engine.stats();
            assert_eq!((stats.read_errors, stats.checksum_errors), (failed, wrong), "{damage:?}");
            assert_only(&stats, &[ReadPurpose::Client]);
            let last = stats.last_read_error.unwrap();
            assert_eq!((last.block, last.segment), (at.0, at.zone(ZONE).0));
            assert_eq!(last.kind == ReadErrorKind::Mismatch, wrong > 0, "{last:?}");
            assert!(last.message.contains(if wrong > 0 { "checksum" } else { "injected" }));
        }
        control.repair(at);
        engine.read(volume, place(77) * BLOCK, BLOCK).await.unwrap();
        // What a part is written of is read, too.
        control.damage(at, Damage::Failing);
        let part = vec![1; 100].into();
        engine.write(volume, place(77) * BLOCK, part, Durability::Buffered).await.unwrap_err();
        assert_eq!(engine.stats().read_errors_by.client, 3);
        control.repair(at);
        engine.close().await.unwrap();
    });
}

#[test]
fn of_reclaim_which_tells_nobody() {
    run(async |runtime| {
        let (memory, engine, control, volume) = written(&runtime).await;
        // One that is live, in a segment of which the rest is not.
        let at = lies(&memory, 1001).await;
        control.damage(at, Damage::Failing);
        let mut random = Random(1);
        for block in (0..BLOCKS).filter(|block| *block != 1000 && random.below(8) > 0) {
            let trim = engine.trim(volume, place(block) * BLOCK, BLOCK, Durability::Buffered);
            trim.await.unwrap();
        }
        let _ = soon("collecting", engine.collect()).await;
        let stats = engine.stats();
        assert!(stats.read_errors_by.reclaim > 0, "{stats:?}");
        assert_only(&stats, &[ReadPurpose::Reclaim]);
        control.damage(at, Damage::Flipped(1));
        put(&engine, volume, place(BLOCKS), 1).await.unwrap();
        let _ = soon("collecting", engine.collect()).await;
        control.repair(at);
        engine.close().await.unwrap();
    });
}

#[test]
fn of_the_map() {
    run(async |runtime| {
        let (_, engine, control, volume) = written(&runtime).await;
        // No node is in memory yet.
        control.fail_all(Verb::Read, Some(DeviceKind::Io));
        engine.read(volume, place(9) * BLOCK, BLOCK).await.unwrap_err();
        let stats = engine.stats();
        assert!(stats.read_errors_by.map > 0, "{stats:?}");
        assert_only(&stats, &[ReadPurpose::Map]);
        assert_eq!(stats.last_read_error.unwrap().purpose, ReadPurpose::Map);
        control.fail_all(Verb::Read, None);
        engine.close().await.unwrap();
    });
}

#[test]
fn of_an_opening_that_another_copy_helps() {
    run(async |runtime| {
        let (memory, engine, _, volume) = written(&runtime).await;
        for block in 0..100 {
            put(&engine, volume, place(block), 1).await.unwrap();
        }
        engine.flush().await.unwrap();
        drop(engine);
        let mut memory = memory.crash(1);
        let mut met = 0;
        for nth in 1..60 {
            memory = memory.reopen();
            let device = Fault::new(memory.clone());
            device.control().fail(Verb::Read, nth, DeviceKind::Unreadable, false);
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let control = device.control();
            let Ok(engine) = open(device, runtime.clone(), options).await else { continue };
            let stats = engine.stats();
            let all = [ReadPurpose::Recovery];
            assert_only(&stats, &all);
            assert_eq!(stats.read_errors, control.faults(), "read {nth} left no trace");
            met += stats.read_errors;
            engine.close().await.unwrap();
        }
        assert!(met > 1, "only {met} openings met one that another copy or try helps");
    });
}

#[test]
fn of_a_scrub_and_a_check_with_addresses() {
    run(async |runtime| {
        let (memory, engine, control, _) = written(&runtime).await;
        let at = lies(&memory, 500).await;
        control.damage(at, Damage::Unreadable);
        let report = engine.scrub(|_| ()).await.unwrap();
        assert_eq!(report.losses.len(), 1);
        let stats = engine.stats();
        assert!(stats.read_errors_by.scrub >= 2, "a scrub reads it again by itself: {stats:?}");
        assert_only(&stats, &[ReadPurpose::Scrub]);
        // A check does not read data. It meets what failed of the log's own, here a header once, which is
        // there in the next try.
        let report = engine.check().await.unwrap();
        assert_eq!(report.met, [], "{at}: {report:?}");
        assert_eq!(report.read_errors, stats.read_errors);
        let group = at.zone(ZONE).start(ZONE).plus(1);
        let mut passing = None;
        for nth in 1..200 {
            let before = engine.stats().read_errors;
            control.fail(Verb::Read, nth, DeviceKind::Unreadable, false);
            let Ok(report) = engine.check().await else { continue };
            assert_eq!(report.read_errors, before + report.met.len() as u64);
            if report.problems.is_empty() && !report.met.is_empty() {
                passing = Some(report);
                break;
            }
        }
        let report = passing.expect("no header is read again");
        let met = &report.met[0];
        assert_eq!((met.kind, met.purpose), (ReadErrorKind::Failed, ReadPurpose::Check));
        assert_eq!(met.segment, Pba(met.block).zone(ZONE).0, "{met:?} {group}");
        // A header that is damaged for good is a mismatch.
        let wrong = engine.stats().checksum_errors_by.check;
        control.damage(group, Damage::Flipped(8 * 2000));
        let report = engine.check().await.unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains("checksum")), "{report:?}");
        assert!(engine.stats().checksum_errors_by.check > wrong);
        assert!(report.met.iter().any(|met| met.block == group.0));
        control.repair(at);
        control.repair(group);
        let error = engine.close().await.err();
        assert_eq!(error.map(|error| error.kind), None::<ErrorKind>);
    });
}
