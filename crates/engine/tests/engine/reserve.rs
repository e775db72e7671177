//! A checkpoint always finds room: neither a map that grows faster than the data nor a full store
//! makes a store fail, and what was acknowledged survives a power cut.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{ErrorKind, Store};

use crate::support::{BLOCK, Random, fresh, open, put, run, soon, tag_of};

#[test]
fn snapshots_after_every_few_writes_fill_a_store_without_making_it_fail() {
    for (seed, zones, zone_blocks, writes) in [(1, 32, 32, 1), (2, 48, 64, 1), (3, 40, 128, 7)] {
        run(async |runtime| {
            let device = MemoryDevice::of_zones(zones, zone_blocks);
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let blocks = u64::from(zones) * zone_blocks / 3;
            let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
            let mut versions = vec![0; blocks as usize];
            let mut random = Random(seed);
            let mut snapshots = 0;
            let error = 'full: loop {
                for _ in 0..writes {
                    let bits = random.bits();
                    let (lba, tag) = ((bits >> 33) % blocks, bits >> 40);
                    match soon("a write", put(&engine, volume.id, lba, tag)).await {
                        Ok(()) => versions[lba as usize] = tag,
                        Err(error) => break 'full error,
                    }
                }
                let name = format!("s{snapshots}");
                match soon("a snapshot", engine.create_snapshot("v", &name)).await {
                    Ok(_) => snapshots += 1,
                    Err(error) => break 'full error,
                }
            };
            assert_eq!(error.kind, ErrorKind::NoSpace, "seed {seed}: {error}");
            assert_eq!(engine.stats().failed, None, "seed {seed}");
            soon("a checkpoint", engine.checkpoint()).await.unwrap();
            engine.flush().await.unwrap();
            drop(engine);
            let found = device.crash(seed);
            let engine = open(found, runtime.clone(), OpenOptions::default());
            let engine = soon("opening", engine).await.unwrap();
            for (lba, tag) in versions.iter().enumerate() {
                assert_eq!(tag_of(&engine, volume.id, lba as u64).await, *tag, "seed {seed}");
            }
            assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
            soon("closing", engine.close()).await.unwrap();
        });
    }
}
