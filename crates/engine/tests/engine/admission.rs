//! Writes that wait to be accepted: they end in order, all of them, whatever becomes of the first one.

use std::pin::{Pin, pin};

use futures_lite::future::poll_once;
use futures_util::future::join_all;
use mjolnir_device::filter::{Fault, Verb};
use mjolnir_device::{ErrorKind as DeviceErrorKind, MemoryDevice};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Error, ErrorKind, Store};
use mjolnir_units::TreeId;

use crate::support::{BLOCK, Engine, Held, Tick, fresh, put, run, soon, tag_of, turns};

type Writer<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

type Device = Held<Fault<MemoryDevice>>;

const WAITING: u64 = 6;

/// A store of which writes wait, since the device completes none, the first of which may fail: with how
/// many blocks were accepted.
async fn stuck(runtime: &Tick, fails: bool) -> (Device, Engine, TreeId, u64) {
    let device = Held::new(Fault::new(MemoryDevice::of_zones(32, 64)));
    let options = OpenOptions { dirty_bytes_max: 4 * BLOCK, ..OpenOptions::default() };
    let engine = fresh(|| device.clone(), runtime, options).await;
    let volume = engine.create_volume("v", 1000 * BLOCK).await.unwrap();
    engine.flush().await.unwrap();
    if fails {
        device.inner.control().fail(Verb::Append, 1, DeviceErrorKind::Invalid, false);
    }
    device.hold(Verb::Append);
    for accepted in 0.. {
        // Its future is dropped where it waits: whoever is first in line may leave.
        if poll_once(put(&engine, volume.id, accepted, accepted + 1)).await.is_none() {
            return (device, engine, volume.id, accepted);
        }
    }
    unreachable!()
}

/// Writes that wait, in this order, all to the same block.
async fn writers(engine: &Engine, tree: TreeId, lba: u64) -> Vec<Writer<'_>> {
    let mut writers: Vec<Writer<'_>> = Vec::new();
    for tag in 0..WAITING {
        writers.push(Box::pin(async move { put(engine, tree, lba, 100 + tag).await }));
        assert!(poll_once(writers.last_mut().unwrap()).await.is_none(), "{tag} does not wait");
    }
    turns(100).await;
    writers
}

#[test]
fn writes_that_wait_end_in_order_whoever_leaves() {
    for leaves in [None, Some(0), Some(2), Some(WAITING as usize - 1)] {
        run(async |runtime| {
            let (device, engine, tree, lba) = stuck(&runtime, false).await;
            let mut waiting = writers(&engine, tree, lba).await;
            if let Some(leaves) = leaves {
                drop(waiting.remove(leaves));
            }
            device.release(Verb::Append);
            let written = soon("all writes", join_all(waiting)).await;
            assert!(written.iter().all(Result::is_ok), "{written:?}");
            let last = if leaves == Some(WAITING as usize - 1) { WAITING - 2 } else { WAITING - 1 };
            assert_eq!(tag_of(&engine, tree, lba).await, 100 + last, "the last one came last");
            for lba in 0..lba {
                assert_eq!(tag_of(&engine, tree, lba).await, lba + 1);
            }
            // Nobody is thought to wait any more.
            for step in 0..100 {
                soon("a write", put(&engine, tree, step, step + 1)).await.unwrap();
            }
            soon("closing", engine.close()).await.unwrap();
        });
    }
}

#[test]
fn writes_that_wait_are_told_that_the_device_failed() {
    run(async |runtime| {
        let (device, engine, tree, lba) = stuck(&runtime, true).await;
        let waiting = writers(&engine, tree, lba).await;
        device.release(Verb::Append);
        for written in soon("all writes", join_all(waiting)).await {
            let message = written.unwrap_err().message;
            assert!(message.contains("takes no more changes"), "{message}");
        }
        assert!(soon("closing", engine.close()).await.is_err());
    });
}

#[test]
fn writes_that_wait_are_told_that_the_store_closes() {
    run(async |runtime| {
        let (device, engine, tree, lba) = stuck(&runtime, false).await;
        let waiting = writers(&engine, tree, lba).await;
        let mut closing = Box::pin(engine.close());
        assert!(poll_once(&mut closing).await.is_none());
        for written in soon("all writes", join_all(waiting)).await {
            assert_eq!(written.unwrap_err().kind, ErrorKind::Closed);
        }
        device.release(Verb::Append);
        soon("closing", closing).await.unwrap();
    });
}

const UNFLUSHED_MAX: u64 = 64 * BLOCK;

/// A store that bounds narrowly what no flush covers.
async fn bounded(runtime: &Tick) -> (Device, Engine, TreeId) {
    let device = Held::new(Fault::new(MemoryDevice::of_zones(32, 64)));
    let options = OpenOptions { unflushed_bytes_max: UNFLUSHED_MAX, ..OpenOptions::default() };
    let engine = fresh(|| device.clone(), runtime, options).await;
    let volume = engine.create_volume("v", 1000 * BLOCK).await.unwrap();
    engine.flush().await.unwrap();
    (device, engine, volume.id)
}

/// Whether a write is accepted before long.
async fn is_accepted(engine: &Engine, volume: TreeId, lba: u64) -> bool {
    let mut write = pin!(put(engine, volume, lba, lba + 1));
    if poll_once(&mut write).await.is_none() {
        turns(100).await;
        return poll_once(&mut write).await.is_some();
    }
    true
}

/// Whoever asks for flushes and leaves before they end: what no flush covers is bounded all the same.
#[test]
fn flushes_that_nobody_waits_for_count_as_none() {
    run(async |runtime| {
        let (device, engine, volume) = bounded(&runtime).await;
        device.hold(Verb::Flush);
        let mut accepted = 0;
        'writes: while accepted < 3 * UNFLUSHED_MAX / BLOCK {
            for _ in 0..4 {
                if !is_accepted(&engine, volume, accepted).await {
                    break 'writes;
                }
                accepted += 1;
            }
            let mut flush = Box::pin(engine.flush());
            for _ in 0..20 {
                assert!(poll_once(&mut flush).await.is_none(), "the device holds it");
                turns(1).await;
            }
        }
        let bytes = accepted * BLOCK;
        assert!(bytes <= UNFLUSHED_MAX, "{bytes} were accepted that no flush covers");
        device.release(Verb::Flush);
        soon("a flush", engine.flush()).await.unwrap();
        soon("closing", engine.close()).await.unwrap();
    });
}

/// A store that failed flushes no more, however much there is to flush.
#[test]
fn a_failed_flush_is_not_tried_again() {
    run(async |runtime| {
        let (device, engine, volume) = bounded(&runtime).await;
        device.inner.control().fail(Verb::Flush, 1, DeviceErrorKind::Io, false);
        for lba in 0..UNFLUSHED_MAX / BLOCK / 4 {
            let _ = soon("a write", put(&engine, volume, lba, lba + 1)).await;
            turns(2).await;
        }
        turns(100).await;
        assert!(engine.stats().failed.is_some());
        let _ = soon("closing", engine.close()).await;
    });
}

/// What came while a flush lagged is flushed, too, though clients do nothing any more.
#[test]
fn a_flush_that_lagged_is_followed_by_another() {
    run(async |runtime| {
        let (device, engine, volume) = bounded(&runtime).await;
        let before = engine.stats().device_flushes;
        device.hold(Verb::Flush);
        for lba in 0..UNFLUSHED_MAX / BLOCK / 4 {
            soon("a write", put(&engine, volume, lba, lba + 1)).await.unwrap();
            turns(2).await;
        }
        turns(1000).await;
        assert_eq!(engine.stats().device_flushes, before);
        device.release(Verb::Flush);
        turns(1000).await;
        assert_eq!(engine.stats().device_flushes, before + 2);
        soon("closing", engine.close()).await.unwrap();
    });
}

/// However long the device's flush takes: what it does not cover is bounded.
#[test]
fn writes_wait_for_a_flush_that_lags_behind() {
    run(async |runtime| {
        let (device, engine, volume) = bounded(&runtime).await;
        let flushes = async |count: u64| {
            for _ in 0..1000 {
                if engine.stats().device_flushes >= count {
                    return;
                }
                turns(1).await;
            }
            panic!("{} flushes", engine.stats().device_flushes);
        };
        // Nobody asks for a flush: the engine does, in good time.
        let before = engine.stats().device_flushes;
        for lba in 0..UNFLUSHED_MAX / BLOCK / 8 {
            soon("a write", put(&engine, volume, lba, lba + 1)).await.unwrap();
        }
        flushes(before + 1).await;
        device.hold(Verb::Flush);
        let mut accepted = 0;
        while accepted < 2 * UNFLUSHED_MAX / BLOCK && is_accepted(&engine, volume, accepted).await {
            accepted += 1;
            turns(1).await;
        }
        let bound = UNFLUSHED_MAX / 8 + UNFLUSHED_MAX / 2;
        let bytes = accepted * BLOCK;
        assert!(bytes <= bound + 2 * BLOCK, "{bytes} were accepted that no flush covers");
        assert!(bytes >= bound / 2, "{bytes}: writes waited too early");
        let waiting = writers(&engine, volume, accepted).await;
        device.release(Verb::Flush);
        let written = soon("all writes", join_all(waiting)).await;
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        assert_eq!(tag_of(&engine, volume, accepted).await, 100 + WAITING - 1);
        soon("closing", engine.close()).await.unwrap();
    });
}

/// Who deletes a volume with its snapshots waits now and then. The volume may have another name by then.
#[test]
fn a_volume_that_is_renamed_while_it_is_to_be_deleted_keeps_its_snapshots() {
    run(async |runtime| {
        let device = Held::new(MemoryDevice::of_zones(64, 2048));
        let options = OpenOptions { memory_bytes: 1 << 16, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let volume = engine.create_volume("v", (1 << 20) * BLOCK).await.unwrap().id;
        for name in ["a", "b", "c"] {
            engine.create_snapshot("v", name).await.unwrap();
        }
        device.hold(Verb::WriteRoot);
        for step in 0.. {
            // More of the map than memory has room for before a checkpoint ends.
            let mut write = pin!(put(&engine, volume, step * 40_503 % (1 << 20), step));
            turns(1).await;
            if poll_once(&mut write).await.is_none() {
                turns(1_000).await;
                if poll_once(&mut write).await.is_none() {
                    break;
                }
            }
        }
        let mut rename = pin!(engine.rename_volume("v", "w"));
        assert!(poll_once(&mut rename).await.is_none());
        let mut delete = pin!(engine.delete_volume("v", true));
        assert!(poll_once(&mut delete).await.is_none());
        device.release(Verb::WriteRoot);
        soon("renaming", rename).await.unwrap();
        assert_eq!(soon("deleting", delete).await.unwrap_err().kind, ErrorKind::NotFound);
        for name in ["w@a", "w@b", "w@c"] {
            engine.find(name).unwrap();
        }
        soon("closing", engine.close()).await.unwrap();
    });
}
