//! What cleaning a segment costs when its data has many snapshots (Mjölnir, INFLOW'15, where 2,000
//! of them made it 87 times slower).

use anyhow::{Result, ensure};
use mjolnir_device::Device;
use mjolnir_engine::Engine;
use mjolnir_host::HostRuntime;
use mjolnir_machine::RamDevice;
use mjolnir_store::{Durability, Store};
use mjolnir_units::BLOCK_SIZE;

use crate::chance::{Chance, Shuffle};
use crate::clock::{Timer, Took};
use crate::load;
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{by_hand, in_memory};

pub const ROWS: &[Row] = &[
    Row {
        name: "clean",
        needs: &[],
        lines: &[
            Line {
                name: "clean-2000",
                what: "cleaning one fully live 128 MiB segment whose data has 2,000 snapshots, \
                       against the same with 1 (paper: 87 times slower)",
                unit: "x",
                target: Target::Most(1.2),
            },
            Line {
                name: "clean-10000",
                what: "the same with 10,000 snapshots",
                unit: "x",
                target: Target::Most(1.3),
            },
        ],
        run: shared,
    },
    Row {
        name: "clean-diverged",
        needs: &[],
        lines: &[
            Line {
                name: "clean-diverged-cpu",
                what: "the same with one random 4 KiB write before each of 2,000 snapshots: \
                       processor time beyond the case of 1 snapshot, for each distinct leaf more",
                unit: "µs",
                target: Target::Most(2.0),
            },
            Line {
                name: "clean-diverged-memory",
                what: "the same: map memory a snapshot",
                unit: "B",
                target: Target::Most(8192.0),
            },
        ],
        run: diverged,
    },
];

type MemoryStore = Engine<RamDevice, HostRuntime>;

/// A store whose one sealed segment of client data is fully live, and what cleaning it took.
struct Cleaned {
    took: Took,
    leaves: u64,
    map_bytes: u64,
}

/// Writes as many single blocks as a segment has, in random order: they fill one segment, and the
/// few for which headers leave no room begin the next.
async fn fill(store: &MemoryStore, zone_blocks: u64) -> Result<()> {
    let volume = store.create_volume("v", zone_blocks * BLOCK_SIZE).await?;
    let shuffle = Shuffle::of(zone_blocks);
    let payload = load::payload(BLOCK_SIZE);
    for at in 0..zone_blocks {
        let offset = shuffle.place(at) * BLOCK_SIZE;
        store.write(volume.id, offset, payload.clone(), Durability::Buffered).await?;
    }
    Ok(())
}

async fn clean(
    runtime: &HostRuntime,
    device: &RamDevice,
    snapshots: u64,
    diverge: bool,
    seed: u64,
) -> Result<Cleaned> {
    let zone_blocks = device.info().zone_blocks;
    let store = in_memory(device, runtime, by_hand()).await?;
    fill(&store, zone_blocks).await?;
    let volume = store.find("v")?;
    let payload = load::payload(BLOCK_SIZE);
    let mut chance = Chance::new(seed);
    let empty = store.stats();
    for number in 0..snapshots {
        if diverge {
            let offset = chance.below(zone_blocks) * BLOCK_SIZE;
            store.write(volume.id, offset, payload.clone(), Durability::Buffered).await?;
        }
        store.create_snapshot("v", &number.to_string()).await?;
    }
    store.checkpoint().await?;
    let before = store.stats();
    let timer = Timer::start();
    store.collect().await?;
    let took = timer.took();
    let after = store.stats();
    let moved = (after.moved_bytes - before.moved_bytes) / BLOCK_SIZE;
    ensure!(
        after.segments_reclaimed == before.segments_reclaimed + 1 && moved > zone_blocks * 9 / 10,
        "{} segments were cleaned, and {moved} of {zone_blocks} blocks moved, not one full one",
        after.segments_reclaimed - before.segments_reclaimed
    );
    store.close().await?;
    let bytes = |stats: &mjolnir_store::report::Stats| stats.map_bytes + stats.map_table_bytes;
    Ok(Cleaned {
        took,
        leaves: before.map_leaves,
        map_bytes: bytes(&before).saturating_sub(bytes(&empty)),
    })
}

/// Segments of 128 MiB.
fn device(bench: &Bench) -> RamDevice {
    RamDevice::of_zones(24, bench.size(1024, 32_768, 32_768)).touched()
}

fn shared(bench: &Bench, report: &mut Report) -> Result<()> {
    let device = device(bench);
    let counts = [1, bench.size(20, 2000, 2000), bench.size(100, 10_000, 10_000)];
    let mut ratios = [Samples::new(), Samples::new()];
    let mut times = [Samples::new(), Samples::new(), Samples::new()];
    let mut cpus = times.clone();
    let measure = |snapshots: u64| {
        mjolnir_host::run(async |runtime: HostRuntime| {
            clean(&runtime, &device, snapshots, false, 0).await
        })
    };
    // Unmeasured once, so that the first store finds memory as the others do.
    measure(1)?;
    for round in 0..bench.rounds {
        let mut took = [f64::NAN; 3];
        for turn in 0..3 {
            let at = (round + turn) % 3;
            let cleaned = measure(counts[at])?;
            times[at].push(cleaned.took.wall_s * 1e3);
            cpus[at].push(cleaned.took.process_s * 1e3);
            took[at] = cleaned.took.wall_s;
        }
        for (ratio, many) in ratios.iter_mut().zip(&took[1..]) {
            ratio.push(many / took[0]);
        }
    }
    for ((name, ratio), at) in ["clean-2000", "clean-10000"].iter().zip(&ratios).zip(1..) {
        let note = format!(
            "{} snapshots: {:.0} ms, {:.0} ms of processor time; 1 snapshot: {:.0} ms, {:.0} ms",
            counts[at],
            times[at].median(),
            cpus[at].median(),
            times[0].median(),
            cpus[0].median(),
        );
        report.line(name, ratio, &note);
    }
    Ok(())
}

/// Pairs of runs of which a round is the median: the difference of two runs that take so much longer
/// scatters by several times its value.
const PAIRS: u64 = 21;

fn diverged(bench: &Bench, report: &mut Report) -> Result<()> {
    let device = device(bench);
    let count = bench.size(20, 2000, 2000);
    let (mut cpu, mut memory, mut leaves) = (Samples::new(), Samples::new(), Samples::new());
    let (mut beyond, mut one_ms) = (Samples::new(), Samples::new());
    let measure = |snapshots: u64, seed: u64| {
        mjolnir_host::run(async |runtime: HostRuntime| {
            clean(&runtime, &device, snapshots, true, seed).await
        })
    };
    // Unmeasured once, so that the first store finds memory as the others do.
    measure(1, 0)?;
    let pairs = bench.size(1, 3, PAIRS);
    for round in 0..bench.rounds as u64 {
        let mut of_pairs = std::array::from_fn::<_, 5, _>(|_| Samples::new());
        for pair in 0..pairs {
            let seed = round * pairs + pair;
            // Each comes first by turns.
            let (one, many) = if seed.is_multiple_of(2) {
                let one = measure(1, seed)?;
                (one, measure(count, seed)?)
            } else {
                let many = measure(count, seed)?;
                (measure(1, seed)?, many)
            };
            let more = (many.leaves - one.leaves) as f64;
            let seconds = many.took.process_s - one.took.process_s;
            let bytes = many.map_bytes as f64 / count as f64;
            let one_ms = one.took.process_s * 1e3;
            let values = [seconds * 1e6 / more, bytes, more, seconds * 1e3, one_ms];
            of_pairs.iter_mut().zip(values).for_each(|(samples, value)| samples.push(value));
        }
        let rounds = [&mut cpu, &mut memory, &mut leaves, &mut beyond, &mut one_ms];
        rounds.into_iter().zip(of_pairs).for_each(|(round, pairs)| round.push(pairs.median()));
    }
    let note = format!(
        "{:.0} distinct leaves more; {:.0} ms of processor time more than the {:.0} ms with 1 \
         snapshot, the checkpoint of the repointed leaves included; nobody writes meanwhile; a round \
         is the median of {pairs} pairs",
        leaves.median(),
        beyond.median(),
        one_ms.median()
    );
    report.line("clean-diverged-cpu", &cpu, &note);
    report.line("clean-diverged-memory", &memory, "nodes and table, by the map's own account");
    Ok(())
}
