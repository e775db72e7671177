//! A stage for scripted scenarios: one store on one simulated disk, and a director who can turn
//! the power off.

use std::future::Future;

use bytes::Bytes;
use futures_lite::future::or;
use mjolnir_device::filter::DelayOptions;
use mjolnir_device::{DeviceInfo, MemoryDevice, MemoryOptions, Runtime, Sealing};
use mjolnir_engine::{Engine, OpenOptions};
use mjolnir_store::{Durability, Error, Store};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, TreeId};
use mjolnir_vtime::{Chance, Options, Order, Sim, SimRuntime};

use crate::disk::AfterCut;
use crate::model::{describe_bytes, pattern_block};
use crate::workload::joined;
use crate::{SimDisk, Subject, SubjectOptions};

/// The engine as it runs on a stage.
pub type StageEngine = Engine<SimDisk, SimRuntime>;

/// What a stage is set with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Decides every chance: task order, delays, what a power cut takes.
    pub seed: u64,
    /// Zones of the disk.
    pub zones: u32,
    /// Blocks of a zone.
    pub zone_blocks: u64,
    /// How long requests take; their order of completion varies with the jitter.
    pub delays: DelayOptions,
    /// The store's options.
    pub options: SubjectOptions,
}

impl Setting {
    /// A small disk, and a store that proves each sweep.
    pub fn new(seed: u64) -> Self {
        use std::time::Duration;
        Setting {
            seed,
            zones: 32,
            zone_blocks: 64,
            delays: DelayOptions {
                append: Duration::from_micros(30),
                read: Duration::from_micros(50),
                flush: Duration::from_micros(200),
                other: Duration::from_micros(100),
                jitter: Duration::from_micros(100),
                bytes_per_second: None,
                seed,
            },
            options: SubjectOptions {
                paranoid: true,
                placement: None,
                streams: 1,
                checkpoint_bytes: 1 << 30,
                memory_bytes: 64 << 20,
                dirty_bytes: 64 << 20,
                unflushed_bytes: 256 << 20,
                linger: OpenOptions::default().linger,
            },
        }
    }
}

/// See the module.
pub struct Stage {
    sim: Sim,
    setting: Setting,
    chance: Chance,
    memory: MemoryDevice,
    present: Option<(SimDisk, SimRuntime)>,
}

impl Stage {
    /// A stage with an empty store, not open yet.
    ///
    /// # Panics
    ///
    /// If the store cannot be made.
    pub fn new(setting: Setting) -> Self {
        let info = DeviceInfo {
            name: "the stage's disk".into(),
            uuid: *b"mjolnir on stage",
            zone_blocks: setting.zone_blocks,
            zones: setting.zones,
            append_blocks_max: setting.zone_blocks,
            queue_depth: 8,
            open_zones_max: None,
            sealing: Sealing::Free,
        };
        let memory = MemoryDevice::with_options(
            info,
            MemoryOptions { stale_after_reset: true, ..MemoryOptions::default() },
        );
        let options = Options { order: Order::Drawn, ..Options::default() };
        let mut stage = Stage {
            sim: Sim::new(setting.seed, options),
            chance: Chance::new(setting.seed),
            setting,
            memory,
            present: None,
        };
        let (disk, runtime) = stage.set_up();
        stage
            .play(<StageEngine as Subject>::format(disk, runtime))
            .expect("an empty disk can be formatted");
        stage.power_off();
        stage
    }

    fn set_up(&mut self) -> (SimDisk, SimRuntime) {
        let runtime = self.sim.world();
        let delays = DelayOptions { seed: self.chance.bits(), ..self.setting.delays };
        let disk = SimDisk::new(self.memory.clone(), runtime.clone(), delays, AfterCut::Silence);
        self.present = Some((disk.clone(), runtime.clone()));
        (disk, runtime)
    }

    /// Turns the power on and opens the store.
    pub fn open(&mut self) -> Result<StageEngine, Error> {
        self.power_on();
        self.play(self.recovery())
    }

    /// Turns the power on, and no more: the disk can be told what is to go wrong.
    pub fn power_on(&mut self) -> SimDisk {
        assert!(self.present.is_none(), "the power is on already");
        self.set_up().0
    }

    /// Opens the store on the disk whose power is on.
    pub fn recovery(&self) -> impl Future<Output = Result<StageEngine, Error>> + use<> {
        let (disk, runtime) = self.present.clone().expect("the power is on");
        let options = self.setting.options.clone();
        async move { <StageEngine as Subject>::open(disk, runtime, &options).await }
    }

    /// The disk whose power is on.
    pub fn disk(&self) -> &SimDisk {
        &self.present.as_ref().expect("the power is on").0
    }

    /// The world's clock and tasks.
    pub fn runtime(&self) -> &SimRuntime {
        &self.present.as_ref().expect("the power is on").1
    }

    /// Plays a scene to its end.
    ///
    /// # Panics
    ///
    /// If it never ends; says the seed.
    pub fn play<T>(&self, scene: impl Future<Output = T>) -> T {
        let seed = self.setting.seed;
        self.sim
            .run(scene)
            .unwrap_or_else(|stuck| panic!("seed {seed}: the scene ends not: {stuck}"))
    }

    /// Plays a scene to its end, or until the power goes.
    pub fn play_until_dark<T>(&self, scene: impl Future<Output = T>) -> Option<T> {
        let disk = self.disk().clone();
        self.play(or(
            async {
                disk.power_lost().await;
                None
            },
            async { Some(scene.await) },
        ))
    }

    /// The power goes, if it has not gone yet; what was not durable is lost or not, as the seed
    /// will.
    pub fn power_off(&mut self) {
        let (disk, runtime) = self.present.take().expect("the power is on");
        disk.cut();
        self.sim.kill(runtime.world());
        self.memory = self.memory.crash(self.chance.bits());
    }

    /// The program ends where it stands; the disk keeps its power.
    pub fn program_ends(&mut self) {
        let (_, runtime) = self.present.take().expect("the power is on");
        self.sim.kill(runtime.world());
        self.memory = self.memory.reopen();
    }

    /// Lets virtual time pass.
    pub fn wait(&self, duration: std::time::Duration) {
        self.play(self.runtime().sleep(duration));
    }
}

/// A block's bytes, which name `tag` all over; all zero for tag 0.
pub fn tagged(tag: u64) -> Bytes {
    if tag == 0 { vec![0; BLOCK_BYTES].into() } else { pattern_block(tag).into() }
}

/// Whose bytes a block holds; an error in words if they are not all of one.
pub fn tag_of(block: &[u8]) -> Result<u64, String> {
    let tag = u64::from_le_bytes(block[..8].try_into().expect("a block has eight bytes"));
    if tagged(tag) == block { Ok(tag) } else { Err(describe_bytes(block)) }
}

/// Writes one tagged block.
pub async fn put(
    store: &impl Store,
    volume: TreeId,
    block: u64,
    tag: u64,
    durability: Durability,
) -> Result<(), Error> {
    store.write(volume, block * BLOCK_SIZE, tagged(tag), durability).await
}

/// Reads one block's tag.
///
/// # Panics
///
/// If the block is torn.
pub async fn get(store: &impl Store, volume: TreeId, block: u64) -> Result<u64, Error> {
    let bytes = joined(store.read(volume, block * BLOCK_SIZE, BLOCK_SIZE).await?);
    Ok(tag_of(&bytes).unwrap_or_else(|what| panic!("block {block} is torn: it holds {what}")))
}
