//! A store is filled to its last block, by one client or several, with and without a power cut.
//!
//! It says that it is full, loses nothing, stays readable, takes trims and deletions, and what they
//! give back can be written again.

use mjolnir_sim::stage::{StageEngine, get, put};
use mjolnir_sim::{Setting, Stage, Subject};
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::{BLOCK_SIZE, TreeId};

fn full_stage(seed: u64) -> (Stage, StageEngine) {
    let mut setting = Setting::new(seed);
    (setting.zones, setting.zone_blocks) = [(24, 64), (32, 64), (24, 128)][seed as usize % 3];
    setting.options.streams = [1, 2][seed as usize % 2];
    let mut stage = Stage::new(setting);
    let engine = stage.open().expect("a new store opens");
    (stage, engine)
}

/// Writes block after block, from `first` on, until there is no space; returns the first that was
/// not written.
async fn fill(store: &StageEngine, volume: TreeId, first: u64, how: Durability) -> u64 {
    for block in first.. {
        if let Err(error) = put(store, volume, block, block + 1, how).await {
            assert_eq!(error.kind, ErrorKind::NoSpace, "block {block}: {error}");
            return block;
        }
    }
    unreachable!("the store is finite")
}

async fn all_there(store: &StageEngine, volume: TreeId, from: u64, to: u64) {
    for block in from..to {
        assert_eq!(get(store, volume, block).await.expect("a read"), block + 1, "block {block}");
    }
}

#[test]
fn a_full_store_keeps_everything_through_a_power_cut_and_gives_space_back() {
    for seed in 0..6 {
        let (mut stage, engine) = full_stage(seed);
        let (volume, full) = stage.play(async {
            let volume = Subject::create_volume(&engine, "v", 1 << 30).await.expect("volume").id;
            let full = fill(&engine, volume, 0, Durability::Durable).await;
            all_there(&engine, volume, 0, full).await;
            (volume, full)
        });
        let capacity = stage.disk().memory().clone();
        let blocks = mjolnir_device::Device::info(&capacity).blocks();
        assert!(full * 2 > blocks, "seed {seed}: only {full} of {blocks} blocks could be filled");
        // Full as it is, the power goes, twice.
        for _ in 0..2 {
            stage.power_off();
            let engine = stage.open().expect("a full store recovers");
            stage.play(all_there(&engine, volume, 0, full));
        }
        stage.power_off();
        let engine = stage.open().expect("a full store recovers");
        stage.play(async {
            let half = full / 2;
            let trim = engine.trim(volume, 0, half * BLOCK_SIZE, Durability::Durable);
            trim.await.expect("a full store takes a trim");
            let reached = fill(&engine, volume, full, Durability::Buffered).await;
            assert!(
                reached - full > half / 2,
                "seed {seed}: of {half} trimmed blocks only {} could be written",
                reached - full
            );
            all_there(&engine, volume, half, reached).await;
            Subject::check(&engine).await.expect("check");
        });
    }
}

/// Snapshots hold what their volume overwrites, until the store is full of them. Deleting them
/// gives all of it back.
#[test]
fn deleting_the_snapshots_that_fill_a_store_gives_the_space_back() {
    for seed in 0..6 {
        let (mut stage, engine) = full_stage(seed);
        let blocks = 100;
        let snapshots = stage.play(async {
            let created = Subject::create_volume(&engine, "v", blocks * BLOCK_SIZE).await;
            let volume = created.expect("volume").id;
            let mut snapshots = 0;
            'full: loop {
                for block in 0..blocks {
                    let tag = snapshots * 1000 + block + 1;
                    match put(&engine, volume, block, tag, Durability::Buffered).await {
                        Ok(()) => {}
                        Err(error) => {
                            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                            break 'full;
                        }
                    }
                }
                match Subject::create_snapshot(&engine, "v", &format!("s{snapshots}")).await {
                    Ok(_) => snapshots += 1,
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                        break;
                    }
                }
            }
            snapshots
        });
        assert!(snapshots > 5, "seed {seed}: full after {snapshots} snapshots");
        stage.power_off();
        let engine = stage.open().expect("a full store recovers");
        stage.play(async {
            for snapshot in 0..snapshots {
                let id = engine.find(&format!("v@s{snapshot}")).expect("it was durable").id;
                for block in 0..blocks {
                    let found = get(&engine, id, block).await.expect("a read");
                    assert_eq!(found, snapshot * 1000 + block + 1, "seed {seed}");
                }
            }
            for snapshot in 0..snapshots {
                let name = format!("s{snapshot}");
                let deleted = Subject::delete_snapshot(&engine, "v", &name);
                deleted.await.expect("a full store takes a deletion");
            }
            let created = Subject::create_volume(&engine, "w", 1 << 30).await;
            let volume = created.expect("there is room again").id;
            let again = fill(&engine, volume, 0, Durability::Buffered).await;
            assert!(
                again * 10 > snapshots * blocks * 8,
                "seed {seed}: {} blocks of snapshots were deleted, and {again} could be written",
                snapshots * blocks
            );
            all_there(&engine, volume, 0, again).await;
        });
    }
}

/// The power goes at some moment while the store fills and is relieved, over and over.
#[test]
fn power_cuts_around_the_last_block_lose_nothing_that_was_promised() {
    for seed in 0..12 {
        let (mut stage, mut engine) = full_stage(seed);
        let volume = stage.play(Subject::create_volume(&engine, "v", 1 << 30)).expect("volume").id;
        let mut kept = stage.play(fill(&engine, volume, 0, Durability::Durable));
        for round in 0..5 {
            stage.disk().cut_after(1 + seed * 3 + round * 17);
            let relief = 1 + (seed + round) % 20;
            stage.play_until_dark(async {
                let from = kept - relief;
                let length = relief * BLOCK_SIZE;
                let trim = engine.trim(volume, from * BLOCK_SIZE, length, Durability::Durable);
                trim.await.expect("a full store takes a trim");
                // Some of it can be written again; a block behind the last one is none of ours.
                for block in from..kept {
                    let how = Durability::Durable;
                    if put(&engine, volume, block, block + 1, how).await.is_err() {
                        break;
                    }
                }
            });
            stage.power_off();
            engine = stage.open().expect("it recovers");
            let sure = kept - relief;
            stage.play(async {
                all_there(&engine, volume, 0, sure).await;
                for block in sure..kept {
                    let found = get(&engine, volume, block).await.expect("a read");
                    assert!(found == 0 || found == block + 1, "seed {seed}: {found}");
                }
                Subject::check(&engine).await.expect("check");
            });
            // Whatever the outcome, the rest is filled up again for the next round.
            kept = stage.play(async {
                let mut reached = sure;
                while put(&engine, volume, reached, reached + 1, Durability::Durable).await.is_ok()
                {
                    reached += 1;
                }
                reached.max(sure)
            });
            assert!(kept > 25, "seed {seed}: the store shrinks: {kept} blocks left");
        }
    }
}
