//! A device that fails for a while, as while another path to a disk is found: nothing is proven by it, and all is
//! as before once it is over.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mjolnir_device::filter::{Damage, Fault, FaultControl, Verb};
use mjolnir_device::{ErrorKind as DeviceKind, MemoryDevice, Runtime};
use mjolnir_engine::{OpenOptions, ReclaimOptions, SegmentContent, SegmentInfo};
use mjolnir_store::{Durability, Error, ErrorKind, Store};
use mjolnir_units::{Pba, TreeId, ZoneId};

use crate::support::{
    BLOCK, Engine, Held, Random, Tick, format, fresh, open, put, run, soon, turns,
};

/// A store that is full, on a device that is to fail, and how many blocks a client has there.
struct Full {
    device: Held<Fault<MemoryDevice>>,
    control: FaultControl,
    engine: Engine,
    volume: TreeId,
    blocks: u64,
}

/// Where a block of the client is: each is an extent of its own.
fn place(block: u64) -> u64 {
    block * 40_503 % 65_536
}

impl Full {
    async fn new(runtime: &Tick, options: OpenOptions) -> Self {
        let memory = MemoryDevice::of_zones(40, 512);
        format(memory.clone(), runtime).await;
        let device = Held::new(Fault::new(memory));
        let control = device.inner.control();
        let engine = open(device.clone(), runtime.clone(), options).await.unwrap();
        let volume = engine.create_volume("v", 65536 * BLOCK).await.unwrap().id;
        let mut blocks = 0;
        while soon("a write", put(&engine, volume, place(blocks), 1)).await.is_ok() {
            blocks += 1;
        }
        Full { device, control, engine, volume, blocks }
    }

    fn outage(&self, on: bool) {
        self.control.fail_all(Verb::Read, on.then_some(DeviceKind::Io));
    }

    /// Something of each segment is won by copying the rest.
    async fn trim_some(&self, round: u64) {
        for block in (round..self.blocks).step_by(36) {
            let at = place(block) * BLOCK;
            let trim = self.engine.trim(self.volume, at, BLOCK, Durability::Buffered);
            soon("a trim", trim).await.unwrap();
        }
    }

    async fn write(&self) -> Result<(), Error> {
        soon("a write", put(&self.engine, self.volume, 1, 1)).await
    }

    async fn refused(&self) -> Error {
        loop {
            if let Err(error) = self.write().await {
                return error;
            }
        }
    }
}

#[test]
fn an_outage_makes_no_store_full_for_long() {
    run(async |runtime| {
        let full = Full::new(&runtime, OpenOptions::default()).await;
        full.outage(true);
        let begun = runtime.now();
        let mut refused = full.refused().await;
        // Each time there is more to win, they are tried again.
        for round in 0..12 {
            full.trim_some(round).await;
            refused = full.write().await.unwrap_err();
        }
        assert_eq!(refused.kind, ErrorKind::NoSpace, "{refused}");
        assert!(refused.message.contains("injected"), "it does not say why: {refused}");
        let told = full.engine.stats().reclaim_failed.expect("it fails still");
        assert!(told.contains("injected"), "{told}");
        let error = soon("collecting", full.engine.collect()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        // It ends. As long again, and all is as it should be, though nobody asks.
        full.outage(false);
        let won = full.engine.stats().segments_reclaimed;
        let lasted = Duration::from_nanos(runtime.now().0 - begun.0);
        runtime.sleep(lasted + Duration::from_secs(2)).await;
        turns(1_000).await;
        let told = full.engine.stats().reclaim_failed;
        assert_eq!(told, None, "after {lasted:?} it is told still");
        assert!(full.engine.stats().segments_reclaimed > won, "nothing was won after {lasted:?}");
        for step in 0..2_000 {
            let lba = place(3 * step % full.blocks);
            soon("a write", put(&full.engine, full.volume, lba, 2)).await.unwrap();
        }
        assert_eq!(full.engine.stats().reclaim_failed, None);
        soon("collecting", full.engine.collect()).await.unwrap();
        soon("closing", full.engine.close()).await.unwrap();
    });
}

/// The outage ends 0.7 s after something met it. Whether it has, by now.
fn ends_after_a_while(control: &FaultControl, runtime: &Tick) -> Rc<Cell<bool>> {
    let is_over = Rc::new(Cell::new(false));
    let (control, clock, over) = (control.clone(), runtime.clone(), is_over.clone());
    let faults = control.faults();
    runtime.spawn(async move {
        while control.faults() == faults {
            turns(1).await;
        }
        let until = clock.now() + Duration::from_millis(700);
        while clock.now() < until {
            turns(1).await;
        }
        control.fail_all(Verb::Read, None);
        over.set(true);
    });
    is_over
}

/// While clients take space that is still to be won, the device fails from their first need on, for 0.7 s.
async fn refuses_nobody_in_a_short_outage(full: &Full, runtime: &Tick) {
    let (faults, waits) = (full.control.faults(), full.engine.stats().room_waits);
    full.outage(true);
    let is_over = ends_after_a_while(&full.control, runtime);
    for block in 0.. {
        if is_over.get() {
            break;
        }
        // A client hears itself of a leaf that cannot be read for it.
        while let Err(error) =
            soon("a write", put(&full.engine, full.volume, place(block), 3)).await
        {
            assert_eq!(error.kind, ErrorKind::Io, "{error}");
        }
    }
    assert!(full.control.faults() > faults + 1, "it was met but once");
    assert!(full.engine.stats().room_waits > waits);
    assert_eq!(full.engine.stats().reclaim_failed, None);
}

/// Whether what is to be moved cannot be read, or the map.
#[test]
fn a_short_outage_refuses_nobody() {
    for memory_bytes in [OpenOptions::default().memory_bytes, 1 << 16] {
        run(async |runtime| {
            let options = OpenOptions { memory_bytes, ..OpenOptions::default() };
            let full = Full::new(&runtime, options).await;
            full.trim_some(0).await;
            full.trim_some(1).await;
            refuses_nobody_in_a_short_outage(&full, &runtime).await;
            soon("closing", full.engine.close()).await.unwrap();
        });
    }
}

#[test]
fn a_short_outage_refuses_nobody_long_after_another() {
    run(async |runtime| {
        let full = Full::new(&runtime, OpenOptions::default()).await;
        full.outage(true);
        for round in 0..12 {
            full.trim_some(round).await;
            full.refused().await;
        }
        full.outage(false);
        runtime.sleep(Duration::from_secs(140)).await;
        refuses_nobody_in_a_short_outage(&full, &runtime).await;
        soon("closing", full.engine.close()).await.unwrap();
    });
}

/// While a client waits for a checkpoint, having heard that nothing can be won, the device is tried again.
#[test]
fn who_waits_while_the_device_comes_back_is_not_refused() {
    run(async |runtime| {
        let full = Full::new(&runtime, OpenOptions::default()).await;
        full.trim_some(0).await;
        full.trim_some(1).await;
        full.outage(true);
        full.refused().await;
        full.device.hold(Verb::Flush);
        let mut write = Box::pin(full.write());
        let meanwhile = async {
            turns(2_000).await;
            full.outage(false);
            // The next read is that of the cycle that finds it back.
            full.device.hold(Verb::Read);
            let reads = full.control.count(Verb::Read);
            while full.control.count(Verb::Read) == reads {
                turns(1).await;
            }
            full.device.release(Verb::Flush);
            turns(2_000).await;
            full.device.release(Verb::Read);
            std::future::pending().await
        };
        futures_lite::future::or(&mut write, meanwhile).await.expect("there is room again");
        drop(write);
        soon("closing", full.engine.close()).await.unwrap();
    });
}

#[test]
fn reclaim_tries_again_though_it_is_never_idle() {
    const BLOCKS: u64 = 5_000;
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(128, 64);
        format(memory.clone(), &runtime).await;
        let device = Fault::new(memory);
        let control = device.control();
        let options = OpenOptions {
            reclaim: ReclaimOptions { start_utilization: 0.1, ..ReclaimOptions::default() },
            ..OpenOptions::default()
        };
        let engine = open(device, runtime.clone(), options).await.unwrap();
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        for lba in 0..BLOCKS {
            put(&engine, volume, lba, lba + 1).await.unwrap();
        }
        engine.flush().await.unwrap();
        // A few blocks of each segment are never written again; nor, for now, can some of them be read.
        let written = |segment: &&SegmentInfo| segment.content == SegmentContent::Written;
        let segments = engine.segments();
        let mut zones: Vec<ZoneId> =
            segments.iter().filter(written).step_by(12).map(|segment| segment.zone).collect();
        let first = |zone: &ZoneId| u64::from(zone.0) * 64;
        let places: Vec<Pba> =
            zones.iter().flat_map(|zone| (0..64).map(|at| Pba(first(zone) + at))).collect();
        places.iter().for_each(|pba| control.damage(*pba, Damage::Failing));
        let mut random = Random(1);
        let overwrite = async |lba: u64| {
            if lba % 20 > 3 {
                soon("a write", put(&engine, volume, lba, 1)).await.unwrap();
            }
        };
        for lba in (0..BLOCKS).chain(0..BLOCKS) {
            overwrite(lba).await;
        }
        let given_up = |zone: &ZoneId| !engine.segments().iter().any(|other| other.zone == *zone);
        assert!(control.faults() > 0 && !zones.iter().any(given_up));
        places.iter().for_each(|pba| control.repair(*pba));
        let (clock, begun) = (runtime.clone(), runtime.now());
        runtime.spawn(async move {
            loop {
                clock.sleep(Duration::from_millis(1)).await;
            }
        });
        loop {
            overwrite((random.bits() >> 33) % BLOCKS).await;
            zones.retain(|zone| !given_up(zone));
            if zones.is_empty() {
                break;
            }
            let lasted = Duration::from_nanos(runtime.now().0 - begun.0);
            assert!(lasted < Duration::from_secs(30), "left: {zones:?}");
        }
        soon("closing", engine.close()).await.unwrap();
    });
}

/// A store with something to win, not a node of whose map is in memory, on a device that fails from now on.
async fn unread(runtime: &Tick) -> (FaultControl, Engine) {
    let memory = MemoryDevice::of_zones(48, 64);
    let engine = fresh(|| memory.clone(), runtime, OpenOptions::default()).await;
    let volume = engine.create_volume("v", 1200 * BLOCK).await.unwrap();
    for lba in (0..7).flat_map(|first| (first..1200).step_by(7)) {
        put(&engine, volume.id, lba, lba + 1).await.unwrap();
    }
    engine.close().await.unwrap();
    let device = Fault::new(memory.reopen());
    let control = device.control();
    let engine = open(device, runtime.clone(), OpenOptions::default()).await.unwrap();
    control.fail_all(Verb::Read, Some(DeviceKind::Io));
    (control, engine)
}

#[test]
fn a_map_that_could_not_be_read_is_not_told_of_for_ever() {
    run(async |runtime| {
        let (control, engine) = unread(&runtime).await;
        let error = soon("collecting", engine.collect()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io, "{error}");
        assert!(engine.stats().reclaim_failed.is_some());
        control.fail_all(Verb::Read, None);
        runtime.sleep(Duration::from_secs(4)).await;
        turns(1_000).await;
        assert_eq!(engine.stats().reclaim_failed, None);
        soon("collecting", engine.collect()).await.unwrap();
        soon("closing", engine.close()).await.unwrap();
    });
}

#[test]
fn who_has_reclaim_run_does_not_hear_of_a_short_outage() {
    run(async |runtime| {
        let (control, engine) = unread(&runtime).await;
        ends_after_a_while(&control, &runtime);
        soon("collecting", engine.collect()).await.expect("it was short");
        assert!(control.faults() > 1, "it was met but once");
        soon("closing", engine.close()).await.unwrap();
    });
}
