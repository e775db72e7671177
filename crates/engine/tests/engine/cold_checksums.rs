//! Where checksums have no room in memory, a read takes those that it needs out of a footer, and what
//! a part of a damaged footer says is not believed.

use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::{Call, Damage, Fault, FaultControl, Log, Record};
use mjolnir_engine::{Engine, OpenOptions};
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{BLOCK, Random, Tick, fresh, payload, run, tag_of};

const ZONE_BLOCKS: u64 = 16_384;
/// Blocks of the footer of a full segment: four bytes for each of its blocks, and some more.
const FOOTER_BLOCKS: u64 = 17;
const GROUP: u64 = 64;
const BLOCKS: u64 = 5 * ZONE_BLOCKS / 2;

type Cold = Engine<Record<Fault<MemoryDevice>>, Tick>;

/// A store with a volume of which each group of blocks has its own tag, opened with no room for
/// checksums.
async fn cold(runtime: &Tick) -> (Cold, TreeId, Log, FaultControl) {
    let memory = MemoryDevice::of_zones(16, ZONE_BLOCKS);
    let engine = fresh(|| memory.clone(), runtime, OpenOptions::default()).await;
    let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
    for at in (0..BLOCKS).step_by(GROUP as usize) {
        let data = payload(1 + at, GROUP as usize);
        engine.write(volume, at * BLOCK, data, Durability::Buffered).await.unwrap();
    }
    engine.close().await.unwrap();
    let faulty = Fault::new(memory.reopen());
    let control = faulty.control();
    let device = Record::new(faulty);
    let log = device.log();
    let options = OpenOptions { checksum_bytes_max: 0, ..OpenOptions::default() };
    (Engine::open(device, runtime.clone(), options).await.unwrap(), volume, log, control)
}

/// Reads a block and checks it. Returns the places that were read for it, with their lengths.
async fn read(engine: &Cold, volume: TreeId, log: &Log, lba: u64) -> Vec<(u64, u64)> {
    log.take();
    assert_eq!(tag_of(engine, volume, lba).await, 1 + lba / GROUP * GROUP, "block {lba}");
    let calls = log.calls();
    calls
        .into_iter()
        .filter_map(|call| match call {
            Call::Read { from, blocks } => Some((from.0, blocks)),
            _ => None,
        })
        .collect()
}

fn is_in_footer(at: u64) -> bool {
    at % ZONE_BLOCKS >= ZONE_BLOCKS - FOOTER_BLOCKS
}

#[test]
fn a_read_takes_a_part_of_a_footer() {
    run(async |runtime| {
        let (engine, volume, log, _) = cold(&runtime).await;
        let mut random = Random(7);
        let mut blocks = Vec::new();
        for _ in 0..1_000 {
            let reads = read(&engine, volume, &log, random.below(2 * ZONE_BLOCKS - 100)).await;
            blocks.push(reads.iter().map(|(_, blocks)| blocks).sum::<u64>());
        }
        assert!(
            engine.stats().checksum_bytes < 4 * ZONE_BLOCKS,
            "those of a full segment have no room"
        );
        // A block and one of the footer; two of it now and then, and all of it for one read in 32.
        let mean = blocks.iter().sum::<u64>() as f64 / blocks.len() as f64;
        assert!((2.0..3.0).contains(&mean), "{mean} blocks a read");
        let of_two = blocks.iter().filter(|blocks| **blocks == 2).count();
        assert!(of_two > 900, "{of_two} reads of two blocks");
        // Many blocks at once are worth loading all.
        log.take();
        engine.read(volume, 0, 64 * BLOCK).await.unwrap();
        let whole = |call: &Call| matches!(call, Call::Read { blocks: FOOTER_BLOCKS, .. });
        assert!(log.calls().iter().any(whole), "{:?}", log.calls());
        engine.close().await.unwrap();
    });
}

#[test]
fn a_damaged_footer_is_not_believed_and_damaged_data_is_told() {
    for damage in [Damage::Flipped(9), Damage::Flipped(20_000), Damage::Unreadable] {
        run(async |runtime| {
            let (engine, volume, log, control) = cold(&runtime).await;
            let mut random = Random(3);
            let mut places = Vec::new();
            for _ in 0..50 {
                let lba = random.below(2 * ZONE_BLOCKS - 100);
                let reads = read(&engine, volume, &log, lba).await;
                let data = reads.into_iter().find(|(at, _)| !is_in_footer(*at)).unwrap();
                assert_eq!(data.1, 1);
                places.push((lba, Pba(data.0)));
            }
            for at in (0..16 * ZONE_BLOCKS).filter(|at| is_in_footer(*at)) {
                control.damage(Pba(at), damage);
            }
            for (lba, _) in &places {
                read(&engine, volume, &log, *lba).await;
            }
            assert_eq!(engine.stats().checksum_errors, 0);
            for (lba, at) in &places {
                control.damage(*at, Damage::Flipped(77));
                let error = engine.read(volume, lba * BLOCK, BLOCK).await.unwrap_err();
                assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
                assert!(error.message.contains(&at.to_string()), "{error}");
                control.repair(*at);
            }
            engine.close().await.unwrap();
        });
    }
}
