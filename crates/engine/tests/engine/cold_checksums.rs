//! Where checksums have no room in memory, a read takes those that it needs out of a footer, and what
//! a part of a damaged footer says is not believed.

use futures_util::future::join_all;
use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::{Call, Damage, Delay, DelayOptions, Fault, FaultControl, Log, Record};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{BLOCK, Engine, Random, Tick, fresh, open, payload, run, tag_of};

const ZONE_BLOCKS: u64 = 16_384;
const GROUP: u64 = 64;

type Cold = Engine;

/// Blocks of the footer of a full segment: four bytes for each of its blocks, and some more.
fn footer_blocks(zone_blocks: u64) -> u64 {
    zone_blocks / 1024 + 1
}

/// Blocks of the volume that lie in the first two segments, headers besides. The last one has no footer yet.
fn full(zone_blocks: u64) -> u64 {
    2 * zone_blocks * 15 / 16
}

fn is_in_footer(at: u64) -> bool {
    at % ZONE_BLOCKS >= ZONE_BLOCKS - footer_blocks(ZONE_BLOCKS)
}

/// A store with a volume of three and a half segments, of which each group of blocks has its own tag,
/// opened with so much room for checksums. Reads take time, so that several are under way.
async fn cold(runtime: &Tick, zone_blocks: u64, room: u64) -> (Cold, TreeId, Log, FaultControl) {
    let memory = MemoryDevice::of_zones(16, zone_blocks);
    let engine = fresh(|| memory.clone(), runtime, OpenOptions::default()).await;
    let blocks = 7 * zone_blocks / 2;
    let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap().id;
    for at in (0..blocks).step_by(GROUP as usize) {
        let data = payload(1 + at, GROUP as usize);
        engine.write(volume, at * BLOCK, data, Durability::Buffered).await.unwrap();
    }
    engine.close().await.unwrap();
    let slow = DelayOptions { bytes_per_second: Some(1 << 30), ..DelayOptions::default() };
    let faulty = Fault::new(Delay::new(memory.reopen(), runtime.clone(), slow));
    let control = faulty.control();
    let device = Record::new(faulty);
    let log = device.log();
    let options = OpenOptions { checksum_bytes_max: room, ..OpenOptions::default() };
    (open(device, runtime.clone(), options).await.unwrap(), volume, log, control)
}

/// The places that were read since this was last asked, with their lengths.
fn reads(log: &Log) -> Vec<(u64, u64)> {
    let calls = log.calls();
    log.take();
    let reads = calls.into_iter().filter_map(|call| match call {
        Call::Read { from, blocks } => Some((from.0, blocks)),
        _ => None,
    });
    reads.collect()
}

/// Reads a block and checks it. Returns the places that were read for it, with their lengths.
async fn read(engine: &Cold, volume: TreeId, log: &Log, lba: u64) -> Vec<(u64, u64)> {
    log.take();
    assert_eq!(tag_of(engine, volume, lba).await, 1 + lba / GROUP * GROUP, "block {lba}");
    reads(log)
}

/// So many reads of random blocks of full segments: how many blocks each has read.
async fn blocks_read(
    engine: &Cold,
    volume: TreeId,
    log: &Log,
    zone_blocks: u64,
    count: u64,
) -> Vec<u64> {
    let mut random = Random(7);
    let mut blocks = Vec::new();
    for _ in 0..count {
        let lba = random.below(full(zone_blocks));
        let reads = read(engine, volume, log, lba).await;
        blocks.push(reads.iter().map(|(_, blocks)| blocks).sum::<u64>());
    }
    blocks
}

#[test]
fn a_read_takes_a_part_of_a_footer() {
    for zone_blocks in [ZONE_BLOCKS, 2048] {
        run(async |runtime| {
            let (engine, volume, log, _) = cold(&runtime, zone_blocks, 0).await;
            // The first find out that there is no room, and bring the map.
            blocks_read(&engine, volume, &log, zone_blocks, 500).await;
            let blocks = blocks_read(&engine, volume, &log, zone_blocks, 500).await;
            assert!(blocks.iter().all(|blocks| *blocks == 2), "{zone_blocks}: {blocks:?}");
            // Of many blocks at once, too, one of the footer has all or nearly.
            log.take();
            engine.read(volume, 0, GROUP * BLOCK).await.unwrap();
            let read: u64 = reads(&log).iter().map(|(_, blocks)| blocks).sum();
            assert!((GROUP + 1..=GROUP + 4).contains(&read), "{read} blocks");
            engine.close().await.unwrap();
        });
    }
}

#[test]
fn checksums_that_there_is_room_for_are_loaded_and_of_others_those_that_are_missed_often() {
    run(async |runtime| {
        let (engine, volume, log, _) = cold(&runtime, ZONE_BLOCKS, 1 << 20).await;
        let blocks = blocks_read(&engine, volume, &log, ZONE_BLOCKS, 100).await;
        assert!(blocks.iter().filter(|blocks| **blocks > 1).count() <= 3, "{blocks:?}");
        engine.close().await.unwrap();

        let (engine, volume, log, _) = cold(&runtime, ZONE_BLOCKS, 4 * ZONE_BLOCKS).await;
        let blocks = blocks_read(&engine, volume, &log, ZONE_BLOCKS, 1_000).await;
        let of_all = |blocks: &&u64| **blocks > footer_blocks(ZONE_BLOCKS);
        let (whole, none) =
            (blocks.iter().filter(of_all).count(), blocks.iter().filter(|b| **b == 1));
        // There is room for one of some three segments: about a third of the reads needs no more.
        assert!((10..=40).contains(&whole), "{whole} footers were read");
        assert!(none.count() > 200);
        engine.close().await.unwrap();
    });
}

#[test]
fn checksums_on_their_way_count_as_loaded() {
    run(async |runtime| {
        // Those of two full segments have room, beside those of the rest.
        let room = 11 * ZONE_BLOCKS;
        let (engine, volume, log, _) = cold(&runtime, ZONE_BLOCKS, room).await;
        read(&engine, volume, &log, ZONE_BLOCKS / 2).await;
        let reads_of_two = [1, 2].map(|segment| {
            let lba = segment * ZONE_BLOCKS + ZONE_BLOCKS / 2;
            tag_of(&engine, volume, lba)
        });
        join_all(reads_of_two).await;
        let footers = reads(&log).into_iter().filter(|(at, _)| is_in_footer(*at));
        let mut blocks: Vec<u64> = footers.map(|(_, blocks)| blocks).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [1, footer_blocks(ZONE_BLOCKS)]);
        engine.close().await.unwrap();
    });
}

#[test]
fn a_damaged_footer_is_not_believed_and_damaged_data_is_told() {
    run(async |runtime| {
        let (engine, volume, log, control) = cold(&runtime, ZONE_BLOCKS, 0).await;
        let mut random = Random(3);
        let mut places = Vec::new();
        read(&engine, volume, &log, 0).await;
        for _ in 0..50 {
            let lba = random.below(full(ZONE_BLOCKS));
            let reads = read(&engine, volume, &log, lba).await;
            let place = |footer: bool| reads.iter().find(|(at, _)| is_in_footer(*at) == footer);
            let (data, part) = (place(false).unwrap(), place(true).unwrap());
            assert_eq!((data.1, part.1), (1, 1));
            places.push((lba, Pba(data.0), Pba(part.0)));
        }
        for (lba, data, part) in places {
            // The very bits of its checksum: what a part says is compared, and then not believed.
            let before = engine.stats();
            let byte = (24 + 4 * (data.0 % ZONE_BLOCKS)) % BLOCK;
            for (damage, footers, unread) in
                [(Damage::Flipped(8 * byte as u32 + 3), 1, 0), (Damage::Unreadable, 1, 2)]
            {
                control.damage(part, damage);
                let reads = read(&engine, volume, &log, lba).await;
                assert!(reads.contains(&(part.0, 1)) && reads.len() > 3, "{reads:?}");
                // The footer itself, though nobody was told anything wrong.
                let stats = engine.stats();
                assert_eq!(stats.checksum_errors, before.checksum_errors + footers);
                assert_eq!(stats.read_errors, before.read_errors + unread);
            }
            control.repair(part);
            control.damage(data, Damage::Flipped(77));
            let error = engine.read(volume, lba * BLOCK, BLOCK).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
            assert!(error.message.contains(&data.to_string()), "{error}");
            assert_eq!(engine.stats().checksum_errors, before.checksum_errors + 2);
            control.repair(data);
        }
        engine.close().await.unwrap();
    });
}
