//! The mark of a whole store, on one thread and on as many as there are cores.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_engine::Engine;
use mjolnir_host::HostRuntime;
use mjolnir_machine::{ThinDevice, Threads};
use mjolnir_store::{Durability, Store};
use mjolnir_units::BLOCK_SIZE;

use super::size_text;
use crate::chance::Shuffle;
use crate::clock::Timer;
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, MIB, blocks, by_hand, fresh};

pub const ROWS: &[Row] = &[Row {
    name: "scan-threads",
    needs: &[],
    lines: &[
        Line {
            name: "scan-threads",
            what: "scan speed-up with as many threads as there are cores; the bar is for 2",
            unit: "x",
            target: Target::Least(1.8),
        },
        Line {
            name: "scan-threads-bare",
            what: "the same of a bare loop over an array of as many addresses that sets a bit for \
                   each, each thread with its part of them and a sheet of its own",
            unit: "x",
            target: Target::None,
        },
    ],
    run: speed_up,
}];

/// Pairs of marks in a round: one takes some 40 ms at full size, of which others on the machine may take as
/// much again, so each with all threads is compared with the one before it.
const PAIRS: usize = 9;

/// Addresses that the bare loop goes through at least, so that it takes long beside starting a thread.
const BARE_ADDRESSES: usize = 1 << 24;

/// Seconds that like work took, by turns with one thread and with all.
struct Pairs {
    one: Samples,
    all: Samples,
    ratio: Samples,
}

impl Pairs {
    fn new() -> Self {
        Pairs { one: Samples::new(), all: Samples::new(), ratio: Samples::new() }
    }

    fn push(&mut self, one: f64, all: f64) {
        self.one.push(one);
        self.all.push(all);
        self.ratio.push(one / all);
    }
}

/// Marks a store, by turns with one thread and with as many as there are cores.
async fn marks(host: HostRuntime, device: ThinDevice, cores: usize) -> Result<Pairs> {
    // Nothing is a candidate, so a collection is a mark and no more.
    let mut options = by_hand();
    options.reclaim.candidate_threshold = 0.0;
    let threads = Threads::one(host);
    let store = Engine::open(device, threads.clone(), options).await?;
    let mark = async |count: usize| -> Result<f64> {
        threads.set(count);
        let before = store.stats();
        let timer = Timer::start();
        store.collect().await?;
        let took = timer.took().wall_s;
        let after = store.stats();
        ensure!(after.moved_bytes == before.moved_bytes, "something was moved meanwhile");
        let cycles = after.reclaim_cycles - before.reclaim_cycles;
        ensure!(cycles > 0, "nothing was marked");
        Ok(took / cycles as f64)
    };
    mark(1).await?; // The first one brings the map back from media.
    mark(cores).await?; // Its threads stay, and may be on one processor in the beginning.
    let mut pairs = Pairs::new();
    for _ in 0..PAIRS {
        pairs.push(mark(1).await?, mark(cores).await?);
    }
    store.close().await?;
    Ok(pairs)
}

/// The seconds that so many threads, the same as a mark's, take to set a bit for each address, each for its
/// part of them on a sheet of its own, several times.
async fn bare_pass(threads: &Threads, count: usize, addresses: &Arc<[u64]>, bits: usize) -> f64 {
    threads.set(count);
    let times = BARE_ADDRESSES.div_ceil(addresses.len());
    let share = addresses.len().div_ceil(count);
    let sheets: Vec<_> = (0..count).map(|_| vec![u64::MAX; bits.div_ceil(64)]).collect();
    let timer = Timer::start();
    let mut parts = sheets.into_iter().enumerate().map(|(part, mut sheet)| {
        let addresses = addresses.clone();
        move || {
            for _ in 0..times {
                for address in addresses.iter().skip(part * share).take(share) {
                    sheet[(address / 64) as usize] |= 1 << (address % 64);
                }
                black_box(&sheet);
            }
        }
    });
    let own = threads.own_job().and_then(|_| parts.next_back());
    let jobs: Vec<_> = parts.map(|mut part| threads.parallel(move |_| part())).collect();
    own.into_iter().for_each(|mut part| part());
    join_all(jobs).await;
    timer.took().wall_s
}

/// What all cores are worth to such a loop over these addresses, in turns as with marks.
async fn bare(host: HostRuntime, addresses: &Arc<[u64]>, bits: usize, cores: usize) -> f64 {
    let threads = Threads::one(host);
    bare_pass(&threads, cores, addresses, bits).await; // As with marks.
    let mut ratio = Samples::new();
    for _ in 0..PAIRS {
        let one = bare_pass(&threads, 1, addresses, bits).await;
        ratio.push(one / bare_pass(&threads, cores, addresses, bits).await);
    }
    ratio.median()
}

fn speed_up(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(32 * MIB, 4 * GIB, 64 * GIB);
    let count = blocks(span);
    let zone_blocks = (count / 64).clamp(256, 32_768);
    let device = ThinDevice::of_zones((count / zone_blocks * 5 / 4 + 16) as u32, zone_blocks);
    report.progress(&format!("writing {} in blocks of their own", size_text(span)));
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        let store = fresh(|| device.clone(), &runtime, by_hand()).await?;
        let volume = store.create_volume("v", span).await?;
        let (shuffle, zeroes) = (Shuffle::of(count), AlignedBuf::zeroed(4096).freeze());
        for at in 0..count {
            let offset = shuffle.place(at) * BLOCK_SIZE;
            store.write(volume.id, offset, zeroes.clone(), Durability::Buffered).await?;
        }
        store.close().await?;
        Ok(())
    })?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rounds = Pairs::new();
    let (mut bare_ratio, shuffle) = (Samples::new(), Shuffle::of(count));
    let addresses: Arc<[u64]> = (0..count).map(|lba| shuffle.place(lba)).collect();
    let bits = (device.info().zones as u64 * zone_blocks) as usize;
    for _ in 0..bench.rounds {
        let round = mjolnir_host::run(async |host| marks(host, device.clone(), cores).await)?;
        rounds.one.push(round.one.median());
        rounds.all.push(round.all.median());
        rounds.ratio.push(round.ratio.median());
        bare_ratio.push(mjolnir_host::run(async |host| bare(host, &addresses, bits, cores).await));
    }
    let rate = |samples: &Samples| count as f64 / samples.median() / 1e6;
    let note = format!(
        "{} store, {cores} cores: {:.1} M mappings a second with all, {:.1} M with one",
        size_text(span),
        rate(&rounds.all),
        rate(&rounds.one)
    );
    report.line("scan-threads", &rounds.ratio, &note);
    report.line("scan-threads-bare", &bare_ratio, "what all cores are worth to such a loop here");
    Ok(())
}
