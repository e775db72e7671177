//! Snapshots of several volumes are taken at one instant: no write comes between them, and a crash leaves
//! all of them or none.

use std::cell::Cell;

use futures_util::future::join;
use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::Verb;
use mjolnir_engine::{OpenOptions, SNAPSHOTS_AT_ONCE_MAX};
use mjolnir_store::{ErrorKind, Store};

use crate::support::{BLOCK, Engine, Held, dropped_after, fresh, open, put, run, tag_of, turns};

fn both(name: &str) -> Vec<(String, String)> {
    ["data", "log"].iter().map(|volume| (volume.to_string(), name.to_owned())).collect()
}

/// What the first block of a snapshot holds.
async fn held(engine: &Engine, name: &str) -> u64 {
    tag_of(engine, engine.find(name).unwrap().id, 0).await
}

#[test]
fn no_write_comes_between_them_and_a_crash_leaves_all_or_none() {
    let (mut taken, mut none) = (0, 0);
    for seed in 0..60 {
        run(async |runtime| {
            let device = Held::new(MemoryDevice::of_zones(32, 64));
            let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let data = engine.create_volume("data", 16 * BLOCK).await.unwrap().id;
            let log = engine.create_volume("log", 16 * BLOCK).await.unwrap().id;
            // The log is always written first, so that it is as far as the data, or one further.
            let ended = Cell::new(false);
            let writes = async {
                for number in 1.. {
                    put(&engine, log, 0, number).await.unwrap();
                    turns(1).await;
                    put(&engine, data, 0, number).await.unwrap();
                    if ended.get() {
                        break;
                    }
                }
            };
            let snapshots = async {
                turns(20).await;
                if seed % 4 > 0 {
                    // The power fails before any flush ends: what is on the medium is chance.
                    device.strand(Verb::Flush);
                }
                dropped_after(seed as usize, engine.create_snapshots(&both("s"))).await;
                ended.set(true);
            };
            join(writes, snapshots).await;
            drop(engine);
            let engine =
                open(device.inner.crash(seed), runtime, OpenOptions::default()).await.unwrap();
            match (engine.find("data@s").is_ok(), engine.find("log@s").is_ok()) {
                (true, true) => {
                    let (data, log) = (held(&engine, "data@s").await, held(&engine, "log@s").await);
                    assert!(log == data || log == data + 1, "seed {seed}: {log} and {data}");
                    taken += 1;
                }
                (false, false) => none += 1,
                of => panic!("seed {seed}: there are {of:?}"),
            }
            assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
            engine.close().await.unwrap();
        });
    }
    assert!(taken > 5 && none > 5, "{taken} were taken, {none} were not");
}

#[test]
fn one_that_cannot_be_taken_keeps_the_others_from_being() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        for volume in ["data", "log"] {
            engine.create_volume(volume, 16 * BLOCK).await.unwrap();
        }
        let kind = async |snapshots: &[(String, String)]| {
            engine.create_snapshots(snapshots).await.unwrap_err().kind
        };
        let pair = |of: &str, name: &str| (of.to_owned(), name.to_owned());
        engine.create_snapshot("log", "old").await.unwrap();
        assert_eq!(kind(&both("old")).await, ErrorKind::Exists);
        let unknown = [pair("data", "s"), pair("nosuch", "s")];
        assert_eq!(kind(&unknown).await, ErrorKind::NotFound);
        let twice = [pair("data", "s"), pair("data", "s")];
        assert_eq!(kind(&twice).await, ErrorKind::Invalid);
        assert_eq!(kind(&[pair("data", "s"), pair("log", "a b")]).await, ErrorKind::Invalid);
        assert_eq!(kind(&[]).await, ErrorKind::Invalid);
        let many = |count: usize| -> Vec<_> {
            let long = "n".repeat(120);
            (0..count).map(|number| pair("data", &format!("{long}{number}"))).collect()
        };
        assert_eq!(kind(&many(SNAPSHOTS_AT_ONCE_MAX + 1)).await, ErrorKind::Invalid);
        assert_eq!(engine.stats().snapshots, 1);
        // Of one volume, too, with names as long as they may be.
        let taken = engine.create_snapshots(&many(SNAPSHOTS_AT_ONCE_MAX)).await.unwrap();
        assert_eq!(taken.len(), SNAPSHOTS_AT_ONCE_MAX);
        assert!(taken.iter().all(|target| target.read_only && target.name.starts_with("data@n")));
        engine.close().await.unwrap();
    });
}
