//! A medium that lost its end: a check tells what lay there and what of it is lost, and that is what is lost once
//! the medium is as long again.

use std::rc::Rc;

use bytes::Bytes;
use mjolnir_device::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, MemoryDevice};
use mjolnir_engine::OpenOptions;
use mjolnir_store::report::CheckReport;
use mjolnir_store::{ErrorKind, Store};
use mjolnir_units::{Pba, ZoneId};

use crate::support::{BLOCK, Tick, fresh, open, put, run};

const ZONES: u32 = 40;
const ZONE_BLOCKS: u64 = 32;

/// Reads as zeroes from a block on; nothing can be written.
#[derive(Clone)]
struct Short {
    inner: Rc<MemoryDevice>,
    end: Pba,
}

#[allow(clippy::manual_async_fn)] // The futures must not borrow the device.
impl Device for Short {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn abilities(&self) -> &dyn Abilities {
        self
    }

    fn append(
        &self,
        _: Pba,
        _: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        async { panic!("nothing is written") }
    }
    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let there = (self.end.0.saturating_sub(from.0) * BLOCK) as usize;
        let read = self.inner.read(from, buffer);
        async move {
            let mut buffer = read.await?;
            let there = there.min(buffer.as_ref().len());
            buffer.as_mut()[there..].fill(0);
            Ok(buffer)
        }
    }
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        async { panic!("nothing is written") }
    }
    fn seal(&self, _: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        async { panic!("nothing is written") }
    }
    fn reset(&self, _: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        async { panic!("nothing is written") }
    }
    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.inner.read_root()
    }
    fn write_root(&self, _: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        async { panic!("nothing is written") }
    }
}

impl Abilities for Short {
    fn missing_from(&self) -> Option<Pba> {
        Some(self.end)
    }
}

/// A store of which `blocks` of a volume were written, closed in order or cut from power.
async fn store(runtime: &Tick, blocks: u64, closed: bool) -> MemoryDevice {
    let device = MemoryDevice::of_zones(ZONES, ZONE_BLOCKS);
    let engine = fresh(|| device.clone(), runtime, OpenOptions::default()).await;
    let v = engine.create_volume("v", 2000 * BLOCK).await.unwrap();
    engine.checkpoint().await.unwrap();
    for lba in 0..blocks {
        put(&engine, v.id, lba, lba + 1).await.unwrap();
    }
    engine.flush().await.unwrap();
    if closed {
        engine.close().await.unwrap();
        return device.reopen();
    }
    drop(engine);
    device.cut_power();
    device.crash(1)
}

async fn checked(device: &MemoryDevice, runtime: &Tick, end: u64) -> CheckReport {
    let options = OpenOptions { read_only: true, salvage: true, ..OpenOptions::default() };
    let short = Short { inner: Rc::new(device.clone()), end: Pba(end) };
    let engine = open(short, runtime.clone(), options).await.unwrap();
    let report = engine.check().await.unwrap();
    // What it says is lost cannot be read, and all else can.
    let v = engine.find("v").unwrap();
    for lba in 0..v.size / BLOCK {
        let lost = report.losses.iter().any(|loss| {
            (loss.offset..loss.offset + loss.length).contains(&(lba * BLOCK)) && loss.target == "v"
        });
        match engine.read(v.id, lba * BLOCK, BLOCK).await {
            Ok(_) => assert!(!lost, "block {lba} is there"),
            Err(error) => {
                assert!(lost, "block {lba}: {error}");
                assert_eq!(error.kind, ErrorKind::Damaged);
            }
        }
    }
    engine.close().await.unwrap();
    report
}

#[test]
fn each_segment_that_is_missing_is_told_with_what_is_lost() {
    run(async |runtime| {
        let device = store(&runtime, 500, true).await;
        let whole = u64::from(ZONES) * ZONE_BLOCKS;
        let (mut harmless, mut harmful) = (0, 0);
        for end in (0..whole).rev().step_by(7) {
            let root_is_gone = {
                let options =
                    OpenOptions { read_only: true, salvage: true, ..OpenOptions::default() };
                let short = Short { inner: Rc::new(device.clone()), end: Pba(end) };
                open(short, runtime.clone(), options).await.is_err()
            };
            if root_is_gone {
                continue;
            }
            let report = checked(&device, &runtime, end).await;
            let missing = report.missing.expect("a part is missing");
            assert!(missing.unsure.is_empty(), "it was closed: {missing:?}");
            let mut zones = [missing.in_use.clone(), missing.free].concat();
            zones.sort();
            let expected: Vec<u32> = ((end / ZONE_BLOCKS) as u32..ZONES).collect();
            assert_eq!(zones, expected, "each is told once");
            match missing.in_use.is_empty() {
                true => {
                    assert_eq!((report.problems, report.losses), (vec![], vec![]), "from {end} on");
                    harmless += 1;
                }
                false => harmful += u32::from(!report.losses.is_empty()),
            }
        }
        assert!(harmless > 50 && harmful > 20, "{harmless} harmless, {harmful} harmful");
    });
}

#[test]
fn where_the_store_was_not_closed_the_next_segments_may_have_held_more() {
    run(async |runtime| {
        let device = store(&runtime, 60, false).await;
        let whole = checked(&device, &runtime, u64::from(ZONES) * ZONE_BLOCKS - 1).await;
        let missing = whole.missing.unwrap();
        assert_eq!((missing.in_use, missing.unsure), (vec![], vec![]), "the last one is far off");
        // The segments are opened in order, so what was logged last lies before the first free one.
        let mut first_free = ZONES;
        while checked(&device, &runtime, u64::from(first_free - 1) * ZONE_BLOCKS)
            .await
            .missing
            .is_some_and(|missing| missing.in_use.is_empty())
        {
            first_free -= 1;
        }
        // As long as all before it may have been opened, any may have been (or what was begun of the map is free).
        for (there, unsure) in [(0, true), (7, true), (10, false), (20, false)] {
            let from = first_free + there;
            let report = checked(&device, &runtime, u64::from(from) * ZONE_BLOCKS).await;
            let missing = report.missing.unwrap();
            let all: Vec<u32> = (from..ZONES).collect();
            let expected = if unsure { (all, vec![]) } else { (vec![], all) };
            assert_eq!((missing.unsure, missing.free), expected, "{there} are there");
        }
    });
}
