//! A store that is full to its last block takes what frees space: trims, zeroes, deletions, restores and
//! smaller sizes, and names while there is room for such; and it is a store like any other afterwards.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Error, ErrorKind, Op, Store, ZeroMode};
use mjolnir_units::TreeId;

use crate::support::{BLOCK, Engine, Tick, flat, fresh, open, payload, put, run, soon, tag_of};

/// Sizes of a store, in segments and blocks in each.
const SIZES: [(u32, u64); 3] = [(40, 64), (48, 32), (32, 256)];

struct Full {
    device: MemoryDevice,
    engine: Engine,
    volume: TreeId,
    /// Blocks that were written. Each was 1 when the snapshot `early` was taken, if it is one of the first
    /// `early` ones, and is 2 now, as the snapshot `late` has it.
    blocks: u64,
    early: u64,
}

impl Full {
    /// A volume is written in part, gets a snapshot, and is written until the store refuses. A second snapshot
    /// of all of that is the last thing that it takes.
    async fn new(runtime: &Tick, size: (u32, u64)) -> Self {
        Full::placed(runtime, size, OpenOptions::default().placement).await
    }

    async fn placed(runtime: &Tick, (zones, zone_blocks): (u32, u64), placement: String) -> Self {
        let options = OpenOptions { placement, ..OpenOptions::default() };
        let device = MemoryDevice::of_zones(zones, zone_blocks);
        let engine = fresh(|| device.clone(), runtime, options).await;
        let size = u64::from(zones) * zone_blocks;
        let volume = engine.create_volume("v", size * BLOCK).await.unwrap().id;
        let early = size / 8;
        for lba in 0..early {
            put(&engine, volume, lba, 1).await.unwrap();
        }
        engine.create_snapshot("v", "early").await.unwrap();
        let mut blocks = 0;
        while blocks < size / 3 {
            put(&engine, volume, blocks, 2).await.unwrap();
            blocks += 1;
        }
        engine.create_snapshot("v", "late").await.unwrap();
        let full = loop {
            if let Err(error) = soon("a write", put(&engine, volume, blocks, 2)).await {
                break error;
            }
            blocks += 1;
        };
        assert_eq!(full.kind, ErrorKind::NoSpace, "{full}");
        Full { device, engine, volume, blocks, early }
    }

    async fn zero(&self, offset: u64, length: u64) -> Result<(), Error> {
        let zero = self.engine.write_zeroes(
            self.volume,
            offset,
            length,
            ZeroMode::Unmap,
            Durability::Durable,
        );
        soon("zeroing", zero).await
    }

    /// Overwrites what there is, so many times over.
    async fn write_all(&self, volume: TreeId, blocks: u64, tag: u64) {
        for round in 0..3 {
            for lba in 0..blocks {
                let write = put(&self.engine, volume, lba, tag + round);
                soon("a write", write)
                    .await
                    .unwrap_or_else(|why| panic!("{lba} of {blocks}: {why}"));
            }
        }
        assert_eq!(tag_of(&self.engine, volume, blocks - 1).await, tag + 2);
    }

    /// All is well, and still is after a crash.
    async fn end(self, runtime: &Tick, seed: u64) {
        assert_eq!(self.engine.stats().failed, None);
        self.engine.flush().await.unwrap();
        drop(self.engine);
        let opening = open(self.device.crash(seed), runtime.clone(), OpenOptions::default());
        let engine = soon("opening", opening).await.unwrap();
        assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
        soon("closing", engine.close()).await.unwrap();
    }
}

#[test]
fn a_restore_of_a_full_store_makes_room() {
    for size in SIZES {
        run(async |runtime| {
            let full = Full::new(&runtime, size).await;
            soon("a restore", full.engine.restore_snapshot("v", "early")).await.unwrap();
            soon("a deletion", full.engine.delete_snapshot("v", "late")).await.unwrap();
            assert_eq!(tag_of(&full.engine, full.volume, full.early - 1).await, 1);
            assert_eq!(tag_of(&full.engine, full.volume, full.early).await, 0);
            full.write_all(full.volume, full.early, 10).await;
            full.end(&runtime, 1).await;
        });
    }
}

#[test]
fn a_restore_to_the_only_snapshot_of_a_full_store_makes_room() {
    for size in SIZES {
        run(async |runtime| {
            let full = Full::new(&runtime, size).await;
            soon("a restore", full.engine.restore_snapshot("v", "late")).await.unwrap();
            full.write_all(full.volume, 16, 10).await;
            full.end(&runtime, 2).await;
        });
    }
}

#[test]
fn a_smaller_size_of_a_volume_on_a_full_store_makes_room() {
    for size in SIZES {
        run(async |runtime| {
            let full = Full::new(&runtime, size).await;
            let shrink = full.engine.resize_volume("v", full.early * BLOCK, true);
            soon("shrinking", shrink).await.unwrap();
            soon("a deletion", full.engine.delete_snapshot("v", "late")).await.unwrap();
            full.write_all(full.volume, full.early, 10).await;
            full.end(&runtime, 3).await;
        });
    }
}

/// At odd edges in holes and in data that snapshots share, so that nothing is won by it; wherever a policy
/// wants what is left of a block.
#[test]
fn zeroes_at_any_alignment_are_accepted_by_a_full_store() {
    let plain = SIZES.map(|size| (size, OpenOptions::default().placement));
    let placed = ["apart", "dac", "sepbit", "interval"].map(|policy| ((64, 64), policy.to_owned()));
    for (size, placement) in plain.into_iter().chain(placed) {
        run(async |runtime| {
            let full = Full::placed(&runtime, size, placement.clone()).await;
            for round in 0..4 {
                // A hole, past all that was written.
                full.zero((full.blocks + 3) * BLOCK + 100, 2 * BLOCK).await.unwrap();
                let at = (1 + 4 * round) * BLOCK;
                full.zero(at + 100, 50).await.unwrap();
                full.zero(at + BLOCK + 700, BLOCK).await.unwrap();
                let read = flat(full.engine.read(full.volume, at, 3 * BLOCK).await.unwrap());
                let mut written = [payload(2, 1), payload(2, 1), payload(2, 1)].concat();
                written[100..150].fill(0);
                written[4796..8892].fill(0);
                assert!(read == written, "round {round} of {placement}");
            }
            full.end(&runtime, 4).await;
        });
    }
}

/// Each takes a block for good, since snapshots hold the old one: in the end there is no room even for this.
#[test]
fn parts_of_blocks_do_not_take_the_last_of_what_trims_need() {
    for size in SIZES {
        run(async |runtime| {
            let full = Full::new(&runtime, size).await;
            let (mut zeroed, mut refused) = (0, None);
            for lba in 0..size.0 as u64 * size.1 / 3 {
                match full.zero(lba * BLOCK + 1, 1).await {
                    Ok(()) => zeroed += 1,
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            let error = refused.expect("there is room for everything on a full store");
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            assert!(zeroed > 4, "only {zeroed} were accepted");
            // What frees space goes on.
            let engine = &full.engine;
            for lba in 0..200 {
                let trim = engine.trim(full.volume, lba * BLOCK, BLOCK, Durability::Durable);
                soon("a trim", trim).await.unwrap_or_else(|why| panic!("{lba}: {why}"));
            }
            full.zero(200 * BLOCK, 7 * BLOCK).await.unwrap();
            let trims = (0..50).map(|number| Op::Trim {
                of: full.volume,
                offset: (210 + 2 * number) * BLOCK,
                length: BLOCK,
            });
            let vector = engine.atomic(trims.collect(), Durability::Durable);
            soon("a vector", vector).await.unwrap();
            soon("a restore", engine.restore_snapshot("v", "early")).await.unwrap();
            soon("a deletion", engine.delete_snapshot("v", "late")).await.unwrap();
            full.write_all(full.volume, full.early, 10).await;
            full.end(&runtime, 5).await;
        });
    }
}

#[test]
fn names_are_changed_on_a_full_store_and_take_nothing_that_trims_need() {
    for size in SIZES {
        run(async |runtime| {
            let full = Full::new(&runtime, size).await;
            let (engine, mut name) = (&full.engine, "v".to_owned());
            let mut renamed = 0;
            for number in 0..1000 {
                // Longer and longer, as far as that goes.
                let new = format!("{number}{}", "n".repeat(number.min(100)));
                match soon("renaming", engine.rename_volume(&name, &new)).await {
                    Ok(_) => (name, renamed) = (new, renamed + 1),
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                        break;
                    }
                }
                // So does a volume grow, of which nothing is freed.
                let _ = soon(
                    "growing",
                    engine.resize_volume(&name, (10_000 + number as u64) * BLOCK, false),
                )
                .await;
            }
            assert!(renamed > 4, "only {renamed} were accepted");
            soon("a restore", engine.restore_snapshot(&name, "early")).await.unwrap();
            soon("a deletion", engine.delete_snapshot(&name, "late")).await.unwrap();
            full.write_all(full.volume, full.early, 10).await;
            full.end(&runtime, 6).await;
        });
    }
}
