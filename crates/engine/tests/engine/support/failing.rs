//! A store on a device that fails as it is told to.

use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_device::filter::{Fault, FaultControl, Verb};
use mjolnir_device::{DeviceInfo, ErrorKind as DeviceKind, MemoryDevice, MemoryOptions, Sealing};
use mjolnir_engine::OpenOptions;
use mjolnir_store::Store;
use mjolnir_units::{TreeId, ZoneId};

use super::{BLOCK, Engine, Held, Tick, format, open, put, soon, tag_of, turns};

const VERBS: [Verb; 6] =
    [Verb::Append, Verb::Read, Verb::Flush, Verb::Seal, Verb::Reset, Verb::WriteRoot];

/// A store with a volume `v` of 2,048 blocks.
pub struct Failing {
    pub runtime: Tick,
    pub memory: MemoryDevice,
    pub device: Held<Fault<MemoryDevice>>,
    pub control: FaultControl,
    pub engine: Engine,
    pub volume: TreeId,
}

/// A device whose flushes can be repeated after one that failed.
pub fn flushing_again(zones: u32, zone_blocks: u64) -> MemoryDevice {
    let info = DeviceInfo {
        name: "memory".into(),
        uuid: *b"mjolnir in memor",
        zone_blocks,
        zones,
        append_blocks_max: zone_blocks,
        queue_depth: 32,
        open_zones_max: None,
        sealing: Sealing::Free,
    };
    let options = MemoryOptions { flushes_again: true, ..MemoryOptions::default() };
    MemoryDevice::with_options(info, options)
}

impl Failing {
    /// A new store.
    pub async fn new(runtime: &Tick, memory: MemoryDevice, options: OpenOptions) -> Self {
        format(memory.clone(), runtime).await;
        let mut world = Failing::on(runtime, memory, &[], options).await;
        world.volume = world.engine.create_volume("v", 2048 * BLOCK).await.unwrap().id;
        world.engine.checkpoint().await.unwrap();
        world
    }

    /// The store that lies there. Appends to some zones fail.
    pub async fn on(
        runtime: &Tick,
        memory: MemoryDevice,
        worn_out: &[u32],
        options: OpenOptions,
    ) -> Self {
        let device = Held::new(Fault::new(memory.clone()));
        let control = device.inner.control();
        worn_out.iter().for_each(|zone| control.wear_out(ZoneId(*zone), true));
        let engine = open(device.clone(), runtime.clone(), options).await.unwrap();
        let volume = engine.find("v").map_or(TreeId(0), |volume| volume.id);
        Failing { runtime: runtime.clone(), memory, device, control, engine, volume }
    }

    pub async fn put(&self, lba: u64, tag: u64) {
        soon("a write", put(&self.engine, self.volume, lba, tag)).await.unwrap();
    }

    pub async fn flush(&self) {
        soon("a flush", self.engine.flush()).await.unwrap();
    }

    pub async fn expect(&self, tree: TreeId, from: u64, tags: &[u64]) {
        for (lba, tag) in (from..).zip(tags) {
            assert_eq!(tag_of(&self.engine, tree, lba).await, *tag, "block {lba}");
        }
    }

    /// Cuts the power and opens what is left.
    pub async fn cut(self, seed: u64) -> Self {
        let Failing { runtime, memory, device, engine, .. } = self;
        drop((engine, device));
        let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
        Failing::on(&runtime, memory.crash(seed), &[], options).await
    }

    pub async fn check(&self) {
        let report = soon("a check", self.engine.check()).await.unwrap();
        assert_eq!(report.problems, [""; 0]);
        let scrubbed = soon("a scrub", self.engine.scrub(|_| ())).await.unwrap();
        assert!(scrubbed.damage.is_empty(), "{scrubbed:?}");
    }

    /// The `nth` append from now on fails; whether it landed.
    pub fn fail(&self, nth: u64, landed: bool) {
        self.control.fail(Verb::Append, nth, DeviceKind::Io, landed);
    }

    /// Everything fails, until it is back.
    pub fn away(&self, away: bool) {
        let error = away.then_some(DeviceKind::Gone);
        VERBS.iter().for_each(|verb| self.control.fail_all(*verb, error));
    }

    /// Lets time pass, in which other tasks run.
    pub async fn pass(&self, seconds: u64) {
        self.runtime.sleep(Duration::from_secs(seconds)).await;
        turns(200).await;
    }
}
