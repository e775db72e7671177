//! A client puts what looks like a group header into its data, for the very place where that comes
//! to lie, with everything right but the store's uuid, which no door tells. After a power cut that
//! takes the real header of its group, recovery finds the forged ones where it looks for the next.

use std::time::Duration;

use mjolnir_device::{AlignedBuf, Device};
use mjolnir_engine::OpenOptions;
use mjolnir_sim::stage::{StageEngine, put};
use mjolnir_sim::{Setting, Stage, Subject};
use mjolnir_store::{Durability, Error, ErrorKind, Store};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, TreeId};

const BLOCKS: u64 = 24;
const ZONE_BLOCKS: u64 = 64;

/// `docs/internals/format.md`, with a claim that ever so much was durable.
fn header(uuid: [u8; 16], at: Pba, incarnation: u64, epoch: u64) -> Vec<u8> {
    let mut bytes = b"MGRP\x01\0\0\0".to_vec();
    bytes.extend(uuid);
    bytes.extend(((at.0 / ZONE_BLOCKS) as u32).to_le_bytes());
    bytes.extend(((at.0 % ZONE_BLOCKS) as u32).to_le_bytes());
    bytes.extend(incarnation.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.extend((u64::MAX / 2).to_le_bytes());
    bytes.resize(BLOCK_BYTES - 4, 0);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// A store with an empty volume; the same for each call with the same seed.
fn begun(seed: u64) -> (Stage, StageEngine, TreeId) {
    let mut stage = Stage::new(Setting::new(seed));
    let engine = stage.open().expect("a new store opens");
    let volume = stage.play(async {
        let size = BLOCKS * BLOCK_SIZE;
        Subject::create_volume(&engine, "v", size).await.expect("volume").id
    });
    (stage, engine, volume)
}

async fn read(stage: &Stage, at: Pba) -> AlignedBuf {
    stage.disk().read(at, AlignedBuf::zeroed(BLOCK_BYTES)).await.expect("a read")
}

/// Where the blocks of the volume come to lie, and the incarnation and epoch there.
fn layout(seed: u64) -> (Vec<Pba>, u64, u64) {
    let (stage, engine, volume) = begun(seed);
    stage.play(async {
        for block in 0..BLOCKS {
            put(&engine, volume, block, block + 1, Durability::Buffered).await.expect("write");
        }
        engine.flush().await.expect("flush");
        let mut places = Vec::new();
        for block in 1..=BLOCKS {
            for at in (0..stage.disk().info().blocks()).map(Pba) {
                if read(&stage, at).await.as_ref()[..8] == block.to_le_bytes() {
                    places.push(at);
                    break;
                }
            }
        }
        assert_eq!(places.len() as u64, BLOCKS, "a tag is nowhere on the disk");
        let zone = Pba(places[0].0 / ZONE_BLOCKS * ZONE_BLOCKS);
        let first = read(&stage, zone).await;
        let number = |at: usize| u64::from_le_bytes(first.as_ref()[at..at + 8].try_into().unwrap());
        (places, number(28), number(36))
    })
}

/// Writes headers for `uuid` as data, cuts the power, and opens the store.
fn attack(seed: u64, uuid: [u8; 16]) -> Result<(), Error> {
    let (places, incarnation, epoch) = layout(seed);
    let (mut stage, engine, volume) = begun(seed);
    stage.play(async {
        for (block, at) in (0..).zip(&places) {
            let data = header(uuid, *at, incarnation, epoch);
            let written =
                engine.write(volume, block * BLOCK_SIZE, data.into(), Durability::Buffered);
            written.await.expect("write");
        }
    });
    // Sent, so on its way to the disk, and not flushed.
    stage.wait(OpenOptions::default().linger + Duration::from_millis(4));
    drop(engine);
    stage.power_off();
    stage.open().map(drop)
}

#[test]
fn a_client_cannot_keep_a_store_from_opening() {
    let mut bitten = 0;
    for seed in 0..24 {
        for guess in [[0; 16], *b"mjolnir on stagf"] {
            attack(seed, guess).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
        // Who knew the uuid could: so the attack is one.
        if let Err(error) = attack(seed, *b"mjolnir on stage") {
            assert_eq!(error.kind, ErrorKind::Damaged, "seed {seed}: {error}");
            bitten += 1;
        }
    }
    assert!(bitten > 0, "no power cut left a forged header where recovery looks for one");
}
