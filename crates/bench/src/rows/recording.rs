//! What recording costs, on a store in memory.

use anyhow::Result;
use mjolnir_host::{HostRuntime, Recorded, Recorder};
use mjolnir_machine::RamDevice;
use mjolnir_units::BLOCK_SIZE;

use crate::clock::Timer;
use crate::load::{self, Load};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{MIB, blocks, in_memory, roomy};

pub const ROWS: &[Row] = &[Row {
    name: "record-cpu",
    needs: &[],
    lines: &[
        Line {
            name: "record-cpu",
            what: "processor time that recording a 4 KiB random read adds, the thread that writes \
                   the recording included",
            unit: "µs",
            target: Target::None,
        },
        Line {
            name: "record-cpu-off",
            what: "what being able to record adds while nothing is recorded",
            unit: "µs",
            target: Target::None,
        },
        Line {
            name: "record-bytes",
            what: "bytes of the recording for each request",
            unit: "B",
            target: Target::None,
        },
    ],
    run: cost,
}];

fn cost(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(16 * MIB, 256 * MIB, 256 * MIB);
    let count = bench.size(1_000, 1_000_000, 4_000_000);
    let device = RamDevice::of_zones((2 * blocks(span) / 8192) as u32 + 24, 8192).touched();
    let (mut on, mut off, mut bytes) = (Samples::new(), Samples::new(), Samples::new());
    let mut note = String::new();
    for round in 0..bench.rounds as u64 {
        mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
            let store = in_memory(&device, &runtime, roomy()).await?;
            let volume = store.create_volume("v", span).await?;
            load::run(&store, volume.id, Load::fill(span)).await?;
            let recorder = Recorder::new(runtime.clone());
            let recorded = Recorded::new(store.clone(), recorder.clone(), volume.id);
            let load = Load { depth: 1, ..Load::random_reads(span, count, round) };
            // Reads of what is in memory: the fastest that a store does, and most alike.
            load::plain(&store, volume.id, load, bytes::Bytes::new()).await?;
            let each = |took: crate::clock::Took| took.process_s * 1e6 / count as f64;

            let timer = Timer::start();
            load::plain(&store, volume.id, load, bytes::Bytes::new()).await?;
            let plain = each(timer.took());

            let timer = Timer::start();
            load::plain(&recorded, volume.id, load, bytes::Bytes::new()).await?;
            let able = each(timer.took());

            let file = bench.place.path().join("r.mjtrace");
            let timer = Timer::start();
            recorder.start(&file, true).await?;
            load::plain(&recorded, volume.id, load, bytes::Bytes::new()).await?;
            let recording = recorder.stop().await?;
            let recording_cost = each(timer.took());
            anyhow::ensure!(recording.requests == count, "{} recorded", recording.requests);
            on.push(recording_cost - plain);
            off.push(able - plain);
            bytes.push(recording.bytes as f64 / count as f64);
            note = format!("{recording_cost:.3} µs for all against {plain:.3} µs (last round)");
            std::fs::remove_file(&file)?;
            Ok(())
        })?;
    }
    let block = crate::rows::size_text(BLOCK_SIZE);
    report.line("record-cpu", &on, &note);
    report.line("record-cpu-off", &off, &format!("reads of {block} from memory, one at a time"));
    report.line("record-bytes", &bytes, "");
    Ok(())
}
