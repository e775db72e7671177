//! What one seed's run is like: each seed disables some operations and skews the rest.

use std::time::Duration;

use mjolnir_device::filter::{DelayOptions, FaultRates};
use mjolnir_device::{DeviceInfo, Sealing};
use mjolnir_vtime::Chance;

use crate::subject::SubjectOptions;

/// How much one seed does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSize {
    /// A fraction of a second: for every change.
    Short,
    /// Some ten times that: for soaks.
    Long,
}

macro_rules! kinds {
    ($($kind:ident = $weight:expr),* $(,)?) => {
        /// What clients ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $(#[allow(missing_docs)] $kind),* }
        /// Each with its weight before the seed skews it.
        pub const KINDS: &[(Kind, u32)] = &[$((Kind::$kind, $weight)),*];
    };
}

kinds! {
    Write = 40,
    DurableWrite = 6,
    Read = 20,
    Zeroes = 5,
    Trim = 8,
    Flush = 6,
    CloneRange = 6,
    MoveRange = 4,
    Atomic = 5,
    Race = 4,
    Extents = 3,
    Snapshot = 4,
    DeleteSnapshot = 4,
    Restore = 1,
    CreateVolume = 2,
    DeleteVolume = 2,
    Resize = 2,
    CloneVolume = 2,
    Collect = 1,
    Checkpoint = 2,
    Rest = 3,
    Transaction = 4,
}

/// What goes wrong besides power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing does.
    None,
    /// Reads fail now and then, and would succeed if tried again.
    FlakyReads,
    /// Blocks on the medium cannot be read, or have a bit inverted, for good.
    Damage,
    /// Appends, flushes, resets and root writes fail now and then.
    FailedWrites,
    /// Places on the medium take no write: appends fail, and land in parts. Clients see no error.
    BadPlaces,
    /// The disk is away for a while now and then, or has no space. Clients wait and see no error.
    Outages,
}

/// Placement policies to draw from; the default, three times in eight.
const PLACEMENTS: [Option<&str>; 8] = [
    None,
    None,
    None,
    Some("together"),
    Some("dac"),
    Some("sepbit"),
    Some("autostream"),
    Some("interval"),
];

/// A seed's run.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// The device.
    pub info: DeviceInfo,
    /// Resets leave stale bytes.
    pub stale_after_reset: bool,
    /// Whether free zones can be given back.
    pub gives_back: bool,
    /// Whether it is a zoned device: zones take blocks in order, end at a failed append, and may turn
    /// read-only.
    pub zoned: bool,
    /// Its delays.
    pub delays: DelayOptions,
    /// Weight of each kind, as in [`KINDS`].
    pub weights: Vec<u32>,
    /// Concurrent clients.
    pub clients: u64,
    /// Operations of each client in each life.
    pub ops: u64,
    /// Times the store is opened.
    pub lives: u64,
    /// One life in so many ends in order; the others by a power cut. 0: none does.
    pub orderly_one_in: u64,
    /// Volumes at most.
    pub volumes: usize,
    /// Blocks of a volume at most.
    pub volume_blocks: u64,
    /// Blocks of an operation at most, but for a few.
    pub io_blocks: u64,
    /// Percent of the device that live blocks may take before clients give space back.
    pub fill_percent: u64,
    /// Offsets and lengths at any byte.
    pub unaligned: bool,
    /// Four of five operations go to a tenth of each volume.
    pub hot: bool,
    /// Ready tasks run in a drawn order.
    pub shuffle: bool,
    /// The thread that hands jobs out does some, too.
    pub own_job: bool,
    /// One recovery in so many is cut by another power cut. 0: none is.
    pub cut_recovery_one_in: u64,
    /// What else goes wrong.
    pub trouble: Trouble,
    /// With [`Trouble::BadPlaces`], one append in so many fails; `None`: each life draws how many.
    pub bad_place_one_in: Option<u64>,
    /// The store's own options.
    pub subject: SubjectOptions,
}

impl Swarm {
    /// The run that `seed` names.
    pub fn draw(seed: u64, size: RunSize) -> Swarm {
        let chance = &mut Chance::new(seed ^ 0x005e_ed0f_5eed);
        let mut weights: Vec<u32> = KINDS
            .iter()
            .take(KINDS.len() - 1)
            .map(
                |(_, weight)| {
                    if chance.one_in(4) { 0 } else { weight * (1 + chance.below(4) as u32) }
                },
            )
            .collect();
        // Without writes there is nothing to see.
        weights[0] = weights[0].max(20);
        // The last has room for groups of full length.
        let zone_blocks = *chance.pick(&[64, 96, 128, 256, 640]);
        let zones = chance.within(24..65) as u32;
        let micros = |chance: &mut Chance, most| Duration::from_micros(chance.below(most));
        let long = if size == RunSize::Long { 8 } else { 1 };
        let clients = *chance.pick(&[1, 1, 2, 4, 8, 16]);
        let trouble = match chance.below(10) {
            0 => Trouble::FlakyReads,
            1 => Trouble::Damage,
            2 => Trouble::FailedWrites,
            _ => Trouble::None,
        };
        let capacity = u64::from(zones) * zone_blocks;
        let volumes = chance.within(1..5) as usize;
        let mut swarm = Swarm {
            info: DeviceInfo {
                name: "simulated".into(),
                uuid: *b"mjolnir in a lab",
                zone_blocks,
                zones,
                append_blocks_max: *chance.pick(&[zone_blocks, 64, 16]),
                queue_depth: *chance.pick(&[1, 4, 32]),
                open_zones_max: *chance.pick(&[None, None, Some(4), Some(6)]),
                sealing: Sealing::Free,
            },
            stale_after_reset: chance.one_in(3),
            gives_back: false,
            zoned: false,
            delays: DelayOptions {
                append: micros(chance, 100),
                read: micros(chance, 100),
                flush: micros(chance, 1000),
                other: micros(chance, 1000),
                jitter: Duration::from_micros(*chance.pick(&[0, 20, 200, 3000])),
                bytes_per_second: *chance.pick(&[None, Some(200 << 20), Some(2 << 30)]),
                seed: chance.bits(),
            },
            weights,
            clients,
            ops: long * chance.within(100..300) / clients.min(4) + 10,
            lives: if trouble == Trouble::Damage { 1 } else { chance.within(2..6) },
            orderly_one_in: *chance.pick(&[0, 2, 4]),
            volumes,
            volume_blocks: (capacity / volumes as u64).clamp(64, 2048),
            io_blocks: *chance.pick(&[1, 4, 16, 64, 300]),
            fill_percent: *chance.pick(&[20, 40, 55, 65, 120]),
            unaligned: chance.one_in(2),
            hot: chance.one_in(2),
            shuffle: chance.one_in(2),
            own_job: false,
            cut_recovery_one_in: *chance.pick(&[0, 2, 3]),
            trouble,
            bad_place_one_in: None,
            subject: SubjectOptions {
                paranoid: true,
                streams: *chance.pick(&[1, 2, 4]),
                checkpoint_bytes: *chance.pick(&[1 << 18, 1 << 20, 4 << 20, 64 << 20]),
                memory_bytes: *chance.pick(&[1 << 18, 1 << 20, 64 << 20]),
                dirty_bytes: *chance.pick(&[256 << 10, 4 << 20, 64 << 20]),
                placement: *chance.pick(&PLACEMENTS),
                unflushed_bytes: *chance.pick(&[64 << 10, 1 << 20, 256 << 20]),
                linger: Duration::from_millis(*chance.pick(&[1, 1, 10])),
            },
        };
        // Drawn last, so that a seed is else what it was before there was this.
        swarm.own_job = chance.one_in(2);
        swarm.gives_back = chance.one_in(2);
        let (kind, weight) = KINDS[KINDS.len() - 1];
        assert_eq!(kind, Kind::Transaction);
        swarm.weights.push(if chance.one_in(2) { weight } else { 0 });
        if swarm.trouble == Trouble::None && chance.one_in(4) {
            swarm.trouble = Trouble::BadPlaces;
        }
        if swarm.trouble == Trouble::None && chance.one_in(5) {
            swarm.trouble = Trouble::Outages;
        }
        swarm.zoned = chance.one_in(4);
        // An outage of a zoned device ends all segments that are open, and each takes another one that is
        // free. A store that has none takes no more changes, which these runs do not allow for.
        swarm.zoned &= swarm.trouble != Trouble::Outages;
        if swarm.zoned && swarm.trouble == Trouble::BadPlaces {
            swarm.fill_percent = swarm.fill_percent.min(55);
        }
        swarm.gives_back &= !swarm.zoned;
        swarm
    }

    /// The same run on a disk of which one append in so many fails, and nothing else goes wrong.
    pub fn with_bad_places(self, one_in: u64) -> Swarm {
        Swarm { trouble: Trouble::BadPlaces, bad_place_one_in: Some(one_in), ..self }
    }

    /// How often requests fail by chance.
    pub fn fault_rates(&self, chance: &mut Chance) -> FaultRates {
        let mut often = |most: u64| 1 + chance.below(most);
        match self.trouble {
            Trouble::None => FaultRates::default(),
            Trouble::FlakyReads => {
                FaultRates { read: 20 + often(200), flip: 20 + often(200), ..FaultRates::default() }
            }
            Trouble::Damage | Trouble::Outages => FaultRates::default(),
            Trouble::BadPlaces if let Some(bad_place) = self.bad_place_one_in => {
                FaultRates { bad_place, ..FaultRates::default() }
            }
            Trouble::BadPlaces => {
                let most = [20, 200, 1000][often(3) as usize - 1];
                let bad_place = 10 + often(most);
                let zones = if often(2) == 1 { 10 + often(100) } else { 0 };
                FaultRates { bad_place, zones, ..FaultRates::default() }
            }
            Trouble::FailedWrites => match often(4) {
                1 => FaultRates { append: 100 + often(1000), ..FaultRates::default() },
                2 => FaultRates { no_space: 100 + often(1000), ..FaultRates::default() },
                3 => FaultRates { flush: 20 + often(100), ..FaultRates::default() },
                _ => FaultRates { other: 20 + often(100), ..FaultRates::default() },
            },
        }
    }

    /// Blocks on the device.
    pub fn capacity(&self) -> u64 {
        self.info.blocks()
    }

    /// Whether errors of the media are to be expected.
    pub fn troubled(&self) -> bool {
        self.trouble != Trouble::None
    }
}
