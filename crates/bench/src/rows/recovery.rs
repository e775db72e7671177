//! Opening a store after `kill -9`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use mjolnir_device::AlignedBuf;
use mjolnir_engine::{Engine, FormatOptions};
use mjolnir_host::{HostRuntime, NewStore, create_store};
use mjolnir_store::{Durability, Store};
use mjolnir_units::BLOCK_SIZE;
use rustix::process::{Signal, getpid, kill_process};

use super::size_text;
use crate::chance::Chance;
use crate::clock::Timer;
use crate::direct;
use crate::load::{self, Load};
use crate::place::{adopt, release};
use crate::report::Report;
use crate::samples::Samples;
use crate::sparse;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, MIB, TIB, blocks, by_hand, reopen, shut};

pub const ROWS: &[Row] = &[
    Row {
        name: "recovery",
        needs: &[],
        lines: &[Line {
            name: "recovery",
            what: "recovery after `kill -9` with 1 GiB of 4 KiB random writes since the \
                   checkpoint, against the time to read 1 GiB at queue depth 1 of 1 MiB reads",
            unit: "x",
            target: Target::Most(1.0),
        }],
        run: against_reading,
    },
    Row {
        name: "recovery-large",
        needs: &[],
        lines: &[Line {
            name: "recovery-large",
            what: "the same dirt in a store with 1 TiB mapped at random (a tenth of the blocks; \
                   sparse file) against one with 16 GiB",
            unit: "x",
            target: Target::Most(1.5),
        }],
        run: against_small,
    },
];

/// What the hidden option does: opens the store, writes so many blocks at random within the first
/// so many of volume `v`, flushes, and dies without a chance to tidy up.
pub fn dirty_and_die(arguments: &[String]) -> Result<bool> {
    let [path, writes, span] = arguments else { bail!("three arguments are needed") };
    let (writes, span) = (writes.parse().context("writes")?, span.parse::<u64>().context("span")?);
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<bool> {
        let device = sparse::open(Path::new(path), &runtime)?;
        let store = Engine::open(device, runtime, by_hand()).await?;
        let volume = store.find("v")?.id;
        // Dirt since a checkpoint: what opening left is not counted.
        store.checkpoint().await?;
        load::run(&store, volume, Load::random_writes(span * BLOCK_SIZE, writes, writes)).await?;
        store.flush().await?;
        kill_process(getpid(), Signal::KILL).context("cannot end itself")?;
        bail!("it outlived its own end")
    })
}

/// Has another process leave dirt in a store.
fn leave_dirt(path: &Path, writes: u64, span_blocks: u64) -> Result<()> {
    let mut command = Command::new(std::env::current_exe().context("cannot tell what this is")?);
    command.arg("--dirty-and-die").arg(path);
    command.arg(writes.to_string()).arg(span_blocks.to_string());
    // Standard output is for figures.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    let mut child = command.spawn().context("cannot run itself")?;
    let id = child.id();
    adopt(id);
    let status = child.wait().context("a copy of itself is lost")?;
    release(id);
    let killed = std::os::unix::process::ExitStatusExt::signal(&status);
    ensure!(killed == Some(9), "what was to leave dirt ended with {status}");
    Ok(())
}

/// A new store in a sparse file with a volume of `volume` bytes, a tenth of whose blocks are
/// written, with zeroes that take no room.
async fn map_a_tenth(path: &Path, volume: u64, room: u64, runtime: &HostRuntime) -> Result<()> {
    let new = NewStore { bytes: Some(volume / 8 + room), ..NewStore::default() };
    create_store(path, new, runtime).await?;
    let device = || sparse::open(path, runtime);
    Engine::format(device()?, runtime.clone(), FormatOptions::default()).await?;
    let store = Engine::open(device()?, runtime.clone(), by_hand()).await?;
    let id = store.create_volume("v", volume).await?.id;
    let (mut chance, zeroes) = (Chance::new(volume), AlignedBuf::zeroed(4096).freeze());
    for _ in 0..blocks(volume) / 10 {
        let offset = chance.below(blocks(volume)) * BLOCK_SIZE;
        store.write(id, offset, zeroes.clone(), Durability::Buffered).await?;
    }
    shut(store).await?;
    Ok(())
}

/// Seconds until a store is open; `writes` records must have been replayed.
async fn open_dirty(path: &Path, writes: u64, runtime: &HostRuntime) -> Result<f64> {
    direct::forget(path)?;
    let timer = Timer::start();
    let store = reopen(path, runtime, by_hand()).await?;
    let seconds = timer.took().wall_s;
    let replayed = store.stats().replayed_records;
    ensure!(
        replayed > writes / 10 * 9,
        "{replayed} of {writes} records were replayed: a checkpoint was taken meanwhile"
    );
    shut(store).await?;
    Ok(seconds)
}

fn against_reading(bench: &Bench, report: &mut Report) -> Result<()> {
    let dirt = bench.size(4 * MIB, 256 * MIB, GIB);
    let (writes, span) = (blocks(dirt), blocks(4 * dirt));
    let rounds = bench.rounds as u64;
    let path = bench.place.file("recovery.mj");
    let plain = bench.place.file("plain");
    direct::write(&plain, dirt)?;
    let (mut ratio, mut opening, mut reading) = (Samples::new(), Samples::new(), Samples::new());
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        let room = dirt * (rounds + 1) * 5 / 4 + bench.size(64 * MIB, 512 * MIB, GIB);
        let new = NewStore { bytes: Some(room), ..NewStore::default() };
        create_store(&path, new, &runtime).await?;
        let store = reopen(&path, &runtime, by_hand()).await?;
        store.create_volume("v", span * BLOCK_SIZE).await?;
        shut(store).await?;
        for _ in 0..rounds {
            leave_dirt(&path, writes, span)?;
            let opened = open_dirty(&path, writes, &runtime).await?;
            direct::forget(&plain)?;
            let read = direct::read(&plain, dirt, MIB)?;
            ratio.push(opened / read);
            opening.push(opened * 1e3);
            reading.push(read * 1e3);
        }
        Ok(())
    })?;
    let note = format!(
        "{} of dirt: {:.0} ms, its checkpoint included; reading as much: {:.0} ms",
        size_text(dirt),
        opening.median(),
        reading.median()
    );
    report.line("recovery", &ratio, &note);
    Ok(())
}

fn against_small(bench: &Bench, report: &mut Report) -> Result<()> {
    let dirt = bench.size(2 * MIB, 64 * MIB, GIB);
    let (small, large) = bench.size((64 * MIB, 256 * MIB), (GIB, 32 * GIB), (16 * GIB, TIB));
    let writes = blocks(dirt);
    let rounds = bench.rounds.min(bench.size(1, 3, 5)) as u64;
    let room = dirt * (rounds + 1) * 5 / 4 + bench.size(128 * MIB, GIB, 4 * GIB);
    let paths = [bench.place.file("small.mj"), bench.place.file("large.mj")];
    let (mut ratio, mut times) = (Samples::new(), [Samples::new(), Samples::new()]);
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        for (path, volume) in paths.iter().zip([small, large]) {
            report.progress(&format!("mapping a tenth of {}", size_text(volume)));
            map_a_tenth(path, volume, room, &runtime).await?;
        }
        for _ in 0..rounds {
            let mut took = [f64::NAN; 2];
            for (at, path) in paths.iter().enumerate() {
                leave_dirt(path, writes, blocks(small))?;
                took[at] = open_dirty(path, writes, &runtime).await?;
                times[at].push(took[at] * 1e3);
            }
            ratio.push(took[1] / took[0]);
        }
        Ok(())
    })?;
    let note = format!(
        "{} of dirt in the first {}: {:.0} ms in a volume of {}, {:.0} ms in one of {}",
        size_text(dirt),
        size_text(small),
        times[1].median(),
        size_text(large),
        times[0].median(),
        size_text(small)
    );
    report.line("recovery-large", &ratio, &note);
    Ok(())
}
