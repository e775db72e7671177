//! Processor time of the Store's data path, on a device in memory.

use anyhow::Result;
use mjolnir_host::HostRuntime;
use mjolnir_machine::RamDevice;
use mjolnir_store::Store;
use mjolnir_units::BLOCK_SIZE;

use crate::heap::Count;
use crate::load::{self, Load};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{MIB, blocks, in_memory, roomy};

pub const ROWS: &[Row] = &[Row {
    name: "store-cpu",
    needs: &[],
    lines: &[
        Line {
            name: "store-cpu-write",
            what: "processor time for a 4 KiB random write through the Store, checksum included, \
                   in-memory device",
            unit: "µs",
            target: Target::Most(4.0),
        },
        Line {
            name: "store-cpu-read",
            what: "processor time for a 4 KiB random read through the Store, checksum verified, \
                   in-memory device",
            unit: "µs",
            target: Target::None,
        },
        Line {
            name: "store-allocations-write",
            what: "allocations for a 4 KiB random write through the Store, map in its steady state",
            unit: "each",
            target: Target::None,
        },
        Line {
            name: "store-allocations-read",
            what: "allocations for a 4 KiB random read through the Store",
            unit: "each",
            target: Target::None,
        },
    ],
    run: cost,
}];

fn cost(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(16 * MIB, 1024 * MIB, 1024 * MIB);
    let count = blocks(span);
    let (mut writes, mut reads) = (Samples::new(), Samples::new());
    let (mut write_allocations, mut read_allocations) = (Samples::new(), Samples::new());
    // Room for all writes, so that nothing is reclaimed.
    let zones = (4 * count / 8192) as u32 + 24;
    let device = RamDevice::of_zones(zones, 8192).touched();
    for round in 0..bench.rounds as u64 {
        mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
            let store = in_memory(&device, &runtime, roomy()).await?;
            let volume = store.create_volume("v", span).await?;
            // The map is in its steady state, each block its own extent, before time is taken.
            load::run(&store, volume.id, Load::random_writes(span, count, round)).await?;
            store.flush().await?;
            let timer = crate::clock::Timer::start();
            let load = Load { depth: 1, ..Load::random_writes(span, count, round + 100) };
            let payload = load::payload(BLOCK_SIZE);
            load::plain(&store, volume.id, load, payload).await?;
            store.flush().await?;
            writes.push(timer.took().process_s * 1e6 / count as f64);
            let timer = crate::clock::Timer::start();
            let load = Load { write: false, ..load };
            load::plain(&store, volume.id, load, bytes::Bytes::new()).await?;
            reads.push(timer.took().process_s * 1e6 / count as f64);
            // Counted in passes of their own, since to count takes time.
            let few = Load { count: count / 4, ..load };
            let heap = Count::begin();
            load::plain(&store, volume.id, few, bytes::Bytes::new()).await?;
            read_allocations.push(heap.allocations() as f64 / few.count as f64);
            let payload = load::payload(BLOCK_SIZE);
            let heap = Count::begin();
            // So that each leaf is copied once more, as in a store that is used.
            store.checkpoint().await?;
            load::plain(&store, volume.id, Load { write: true, ..few }, payload).await?;
            write_allocations.push(heap.allocations() as f64 / few.count as f64);
            Ok(())
        })?;
    }
    report.line("store-cpu-write", &writes, "flush at the end included; depth 1, the process's");
    report.line("store-cpu-read", &reads, "");
    report.line(
        "store-allocations-write",
        &write_allocations,
        "groups and a checkpoint before it included",
    );
    report.line("store-allocations-read", &read_allocations, "");
    Ok(())
}
