//! Transactions of a coordinator: through crashes, beside clients, and what they hold meanwhile.

use mjolnir_device::{AnyDevice, MemoryDevice, MemoryWarmLog, WarmLog};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{
    COMMITTED_MAX, Change, Durability, ErrorKind, Member, Op, PREPARED_MAX, Store, TransactionId,
    TransactionState,
};
use mjolnir_units::TreeId;

use crate::support::{BLOCK, Engine, Random, Tick, fresh, open, payload, put, run, tag_of};

const X: TransactionId = TransactionId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
const Y: TransactionId = TransactionId(7);

fn write(to: TreeId, lba: u64, tag: u64) -> Change {
    Change::Bytes(Op::Write { to, offset: lba * BLOCK, data: payload(tag, 1) })
}

fn create(name: &str) -> Change {
    Change::CreateVolume { name: name.into(), bytes: 8 * BLOCK }
}

fn snapshot(volume: &str, name: &str) -> Change {
    Change::CreateSnapshot { volume: volume.into(), name: name.into() }
}

fn delete(name: &str) -> Change {
    Change::DeleteVolume { name: name.into() }
}

async fn crashed(device: &mut MemoryDevice, runtime: &Tick, engine: Engine) -> Engine {
    drop(engine);
    device.cut_power();
    *device = device.crash(1);
    open(device.clone(), runtime.clone(), OpenOptions::default()).await.unwrap()
}

async fn names(engine: &Engine) -> Vec<String> {
    engine.targets().into_iter().map(|target| target.name).collect()
}

async fn assert_sound(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().problems, Vec::<String>::new());
}

#[test]
fn what_became_of_a_transaction_is_known_through_crashes_until_it_is_forgotten() {
    run(async |runtime| {
        for with_checkpoints in [false, true] {
            let mut device = MemoryDevice::of_zones(48, 64);
            let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let v = engine.create_volume("v", 8 * BLOCK).await.unwrap().id;
            put(&engine, v, 0, 1).await.unwrap();
            assert_eq!(engine.transaction(X), TransactionState::Unknown);
            engine.prepare(X, vec![write(v, 0, 5), snapshot("v", "s")]).await.unwrap();
            engine.prepare(Y, vec![write(v, 1, 6)]).await.unwrap();
            if with_checkpoints {
                engine.checkpoint().await.unwrap();
            }
            engine = crashed(&mut device, &runtime, engine).await;
            assert_eq!([X, Y].map(|id| engine.transaction(id)), [TransactionState::Prepared; 2]);
            assert_eq!(tag_of(&engine, v, 0).await, 1, "it is not in force");
            let told = engine.transactions();
            assert_eq!(told.iter().map(|of| of.id).collect::<Vec<_>>(), [X, Y]);
            assert_eq!(told[0].changes, ["write v:0+4096", "create snapshot v@s"]);
            assert_eq!(told[0].staged_bytes, BLOCK);
            engine.commit(X).await.unwrap();
            engine.abort(Y).await.unwrap();
            if with_checkpoints {
                engine.checkpoint().await.unwrap();
            }
            engine = crashed(&mut device, &runtime, engine).await;
            assert_eq!(engine.transaction(X), TransactionState::Committed);
            assert_eq!(engine.transaction(Y), TransactionState::Unknown);
            let s = engine.find("v@s").unwrap().id;
            assert_eq!([tag_of(&engine, v, 0).await, tag_of(&engine, s, 0).await], [5, 5]);
            assert_eq!(tag_of(&engine, v, 1).await, 0);
            // Repeated, both do nothing.
            engine.commit(X).await.unwrap();
            engine.abort(Y).await.unwrap();
            assert_eq!(engine.commit(Y).await.unwrap_err().kind, ErrorKind::NotFound);
            assert_eq!(engine.abort(X).await.unwrap_err().kind, ErrorKind::Invalid);
            assert_eq!(engine.prepare(X, vec![]).await.unwrap_err().kind, ErrorKind::Exists);
            engine.forget(X).await.unwrap();
            engine.flush().await.unwrap();
            engine = crashed(&mut device, &runtime, engine).await;
            assert_eq!(engine.transaction(X), TransactionState::Unknown);
            engine.prepare(X, vec![]).await.unwrap();
            assert_eq!(engine.forget(X).await.unwrap_err().kind, ErrorKind::Busy);
            engine.commit(X).await.unwrap();
            assert_sound(&engine).await;
            engine.close().await.unwrap();
        }
    });
}

#[test]
fn targets_and_names_stay_as_they_are_until_the_decision() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(48, 64);
        let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 8 * BLOCK).await.unwrap().id;
        let w = engine.create_volume("w", 8 * BLOCK).await.unwrap().id;
        engine.create_snapshot("v", "old").await.unwrap();
        let restore = Change::RestoreSnapshot { volume: "v".into(), name: "old".into() };
        engine
            .prepare(X, vec![write(w, 0, 5), snapshot("v", "s"), create("n"), restore])
            .await
            .unwrap();
        for round in 0..2 {
            let busy = |what: &str, outcome: Result<(), mjolnir_store::Error>| {
                let error = outcome.expect_err(what);
                assert_eq!(error.kind, ErrorKind::Busy, "{round}: {what}: {error}");
                assert!(error.message.contains(&X.to_string()), "{what}: {error}");
            };
            busy("delete", engine.delete_volume("w", true).await);
            busy("delete snapshot", engine.delete_snapshot("v", "old").await);
            busy("resize", engine.resize_volume("w", 4 * BLOCK, true).await.map(drop));
            busy("grow", engine.resize_volume("w", 16 * BLOCK, true).await.map(drop));
            busy("restore", engine.restore_snapshot("v", "old").await.map(drop));
            busy("rename", engine.rename_volume("v", "u").await.map(drop));
            busy("create", engine.create_volume("n", BLOCK).await.map(drop));
            busy("clone", engine.clone_volume("w", "n").await.map(drop));
            busy("snapshot", engine.create_snapshot("v", "s").await.map(drop));
            let both = [("v".to_owned(), "s".to_owned()), ("w".to_owned(), "t".to_owned())];
            busy("snapshots", engine.create_snapshots(&both).await.map(drop));
            busy("another's name", engine.prepare(Y, vec![create("n")]).await);
            busy("another's target", engine.prepare(Y, vec![write(v, 0, 9)]).await);
            let grow = Change::ResizeVolume { name: "w".into(), bytes: 9 * BLOCK, shrink: false };
            busy("another's size", engine.prepare(Y, vec![grow]).await);
            // Clients go on, and so does what does not depend on it.
            put(&engine, w, 1, 20 + round).await.unwrap();
            engine.create_snapshot("w", &format!("r{round}")).await.unwrap();
            engine.prepare(Y, vec![write(w, 2, 7)]).await.unwrap();
            engine.abort(Y).await.unwrap();
            engine = crashed(&mut device, &runtime, engine).await;
        }
        engine.commit(X).await.unwrap();
        assert_eq!([tag_of(&engine, w, 0).await, tag_of(&engine, w, 1).await], [5, 21]);
        assert_eq!(names(&engine).await, ["n", "v", "v@old", "v@s", "w", "w@r0", "w@r1"]);
        engine.rename_volume("v", "u").await.unwrap();
        engine.delete_volume("w", true).await.unwrap();
        assert_sound(&engine).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn changes_are_made_in_order_and_together() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(48, 64);
        let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 8 * BLOCK).await.unwrap().id;
        let gone = engine.create_volume("gone", 8 * BLOCK).await.unwrap().id;
        engine.create_snapshot("gone", "s").await.unwrap();
        put(&engine, v, 0, 1).await.unwrap();
        put(&engine, gone, 3, 8).await.unwrap();
        let changes = vec![
            snapshot("v", "before"),
            write(v, 0, 2),
            Change::Bytes(Op::Clone {
                from: gone,
                from_offset: 3 * BLOCK,
                to: v,
                to_offset: BLOCK,
                length: BLOCK,
            }),
            snapshot("v", "after"),
            Change::CloneVolume { source: "v".into(), new: "copy".into() },
            Change::ResizeVolume { name: "v".into(), bytes: 4 * BLOCK, shrink: true },
            create("new"),
            Change::DeleteSnapshot { volume: "gone".into(), name: "s".into() },
            delete("gone"),
        ];
        engine.prepare(X, changes).await.unwrap();
        // What clients do before the commit is under it.
        put(&engine, v, 5, 3).await.unwrap();
        put(&engine, gone, 3, 9).await.unwrap();
        engine.commit(X).await.unwrap();
        for _ in 0..2 {
            assert_eq!(
                names(&engine).await,
                ["copy", "new", "v", "v@after", "v@before"],
                "deleted and made"
            );
            let tags = async |name: &str, lbas: &[u64]| {
                let id = engine.find(name).unwrap().id;
                let mut tags = Vec::new();
                for lba in lbas {
                    tags.push(tag_of(&engine, id, *lba).await);
                }
                tags
            };
            assert_eq!(tags("v@before", &[0, 1, 5]).await, [1, 0, 3]);
            assert_eq!(tags("v@after", &[0, 1, 5]).await, [2, 9, 3]);
            assert_eq!(tags("copy", &[0, 1, 5]).await, [2, 9, 3]);
            assert_eq!(tags("v", &[0, 1]).await, [2, 9]);
            assert_eq!(engine.find("v").unwrap().size, 4 * BLOCK);
            assert_sound(&engine).await;
            engine = crashed(&mut device, &runtime, engine).await;
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn what_could_not_be_committed_is_not_prepared() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(48, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 8 * BLOCK).await.unwrap().id;
        engine.create_snapshot("v", "s").await.unwrap();
        let rename =
            |name: &str, new: &str| Change::RenameVolume { name: name.into(), new: new.into() };
        let resize = |bytes| Change::ResizeVolume { name: "v".into(), bytes, shrink: true };
        let cases = [
            (vec![write(v, 8, 1)], ErrorKind::Invalid, "passes the end of v"),
            (vec![write(TreeId(99), 0, 1)], ErrorKind::NotFound, "was deleted"),
            (vec![create("v")], ErrorKind::Exists, "is taken"),
            (vec![create("a"), create("a")], ErrorKind::Invalid, "twice"),
            (vec![create("a b")], ErrorKind::Invalid, "cannot be a name"),
            (vec![delete("v")], ErrorKind::Busy, "has snapshots"),
            (vec![delete("nobody")], ErrorKind::NotFound, "no volume named"),
            (vec![rename("v", "a"), write(v, 0, 1)], ErrorKind::Invalid, "after it deletes"),
            (vec![rename("v", "a"), snapshot("v", "t")], ErrorKind::Invalid, "after it deletes"),
            (vec![resize(BLOCK + 512)], ErrorKind::Unsupported, "resize it by itself"),
            (vec![resize(1)], ErrorKind::Unsupported, "resize it by itself"),
            (vec![resize(0)], ErrorKind::Invalid, "cannot have 0 bytes"),
            (
                (0..60).map(|n| create(&format!("{n:0100}"))).collect(),
                ErrorKind::Invalid,
                "do not fit",
            ),
        ];
        for (changes, kind, what) in cases {
            let error = engine.prepare(X, changes.clone()).await.expect_err(what);
            assert!(error.kind == kind && error.message.contains(what), "{changes:?}: {error:?}");
            assert_eq!(engine.transaction(X), TransactionState::Unknown);
        }
        assert_eq!(names(&engine).await, ["v", "v@s"]);
        engine.checkpoint().await.unwrap();
        assert_sound(&engine).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_store_keeps_a_bounded_number_of_transactions() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(96, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 128 * BLOCK).await.unwrap().id;
        let id = |number: usize| TransactionId(1000 + number as u128);
        for number in 0..PREPARED_MAX {
            engine.prepare(id(number), vec![write(v, number as u64, 1)]).await.unwrap();
        }
        let error = engine.prepare(X, vec![]).await.unwrap_err();
        assert!(error.kind == ErrorKind::Busy && error.message.contains("are prepared"), "{error}");
        engine.checkpoint().await.unwrap();
        let mut committed = 0;
        for number in 0.. {
            if number >= PREPARED_MAX {
                match engine.prepare(id(number), vec![]).await {
                    Ok(()) => {}
                    Err(error) => {
                        assert!(error.message.contains("remembered as committed"), "{error}");
                        break;
                    }
                }
            }
            engine.commit(id(number)).await.unwrap();
            committed += 1;
        }
        assert_eq!(committed, COMMITTED_MAX);
        engine.forget(id(0)).await.unwrap();
        engine.prepare(X, vec![]).await.unwrap();
        engine.checkpoint().await.unwrap();
        assert_sound(&engine).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_full_store_commits_and_aborts() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(24, 64);
        let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 4096 * BLOCK).await.unwrap().id;
        engine.prepare(X, vec![write(v, 0, 5), snapshot("v", "s")]).await.unwrap();
        engine.prepare(Y, vec![write(v, 1, 6)]).await.unwrap();
        let full = async {
            for lba in 2.. {
                if let Err(error) = put(&engine, v, lba, 3).await {
                    return error;
                }
            }
            unreachable!("it is not endless")
        };
        assert_eq!(full.await.kind, ErrorKind::NoSpace);
        engine.abort(Y).await.unwrap();
        engine.commit(X).await.unwrap();
        engine = crashed(&mut device, &runtime, engine).await;
        assert_eq!([tag_of(&engine, v, 0).await, tag_of(&engine, v, 1).await], [5, 0]);
        assert!(engine.find("v@s").is_ok());
        engine.close().await.unwrap();
    });
}

/// Several transactions, clients between their steps, and the power that fails at any point of it.
#[test]
fn whatever_a_power_cut_interrupts_each_transaction_is_in_force_wholly_or_not_at_all() {
    run(async |runtime| {
        // More by hand: MJOLNIR_TRIES=10000 cargo test -p mjolnir-engine --test engine transactions
        let tries = std::env::var("MJOLNIR_TRIES").map_or(60, |text| text.parse().unwrap());
        for seed in 0..tries {
            let mut draw = Random(seed);
            let mut device = MemoryDevice::of_zones(48, 64);
            let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
            let v = engine.create_volume("v", 64 * BLOCK).await.unwrap().id;
            let (mut done, mut next) = (Vec::<(u128, bool)>::new(), 1);
            for _ in 0..6 {
                let id = TransactionId(next);
                next += 1;
                let lba = 2 * (id.0 as u64 % 32);
                let name = format!("t{}", id.0);
                let changes = vec![
                    write(v, lba, id.0 as u64),
                    snapshot("v", &name),
                    write(v, lba + 1, id.0 as u64),
                ];
                let (turns, with_checkpoint, decision) =
                    (draw.below(60) as usize, draw.below(4) == 0, draw.below(4));
                let steps = async {
                    engine.prepare(id, changes).await.unwrap();
                    if with_checkpoint {
                        engine.checkpoint().await.unwrap();
                    }
                    match decision {
                        0 => engine.abort(id).await.unwrap(),
                        1 => {}
                        _ => engine.commit(id).await.unwrap(),
                    }
                };
                let ended = crate::support::dropped_after(turns, steps).await;
                let before = engine.transaction(id);
                engine = crashed(&mut device, &runtime, engine).await;
                let after = engine.transaction(id);
                assert!(!ended || before == after, "{seed}: {before:?} became {after:?}");
                match after {
                    TransactionState::Prepared if draw.below(2) == 0 => {
                        engine.commit(id).await.unwrap();
                        done.push((id.0, true));
                    }
                    TransactionState::Prepared => {
                        engine.abort(id).await.unwrap();
                        done.push((id.0, false));
                    }
                    state => done.push((id.0, state == TransactionState::Committed)),
                }
                for (id, committed) in &done {
                    let lba = 2 * (*id as u64 % 32);
                    let expected = if *committed { *id as u64 } else { 0 };
                    let found = [tag_of(&engine, v, lba).await, tag_of(&engine, v, lba + 1).await];
                    assert_eq!(found, [expected; 2], "seed {seed}, transaction {id}");
                    let snapshot = engine.find(&format!("v@t{id}"));
                    assert_eq!(snapshot.is_ok(), *committed, "seed {seed}, transaction {id}");
                    if let Ok(snapshot) = snapshot {
                        let found = tag_of(&engine, snapshot.id, lba + 1).await;
                        assert_eq!(found, 0, "the snapshot is older than the second write");
                    }
                }
                assert_sound(&engine).await;
            }
            engine.close().await.unwrap();
        }
    });
}

#[test]
fn clients_do_not_reach_what_waits_with_a_transaction() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 8 * BLOCK).await.unwrap().id;
        engine.prepare(X, vec![write(v, 0, 5)]).await.unwrap();
        for staged in (v.0 + 1..v.0 + 4).map(TreeId) {
            assert_eq!(put(&engine, staged, 0, 99).await.unwrap_err().kind, ErrorKind::NotFound);
            let trimmed = engine.trim(staged, 0, BLOCK, Durability::Buffered).await;
            assert_eq!(trimmed.unwrap_err().kind, ErrorKind::NotFound);
            let (from_offset, to_offset, length) = (0, BLOCK, BLOCK);
            let moved = Op::Move { from: staged, from_offset, to: v, to_offset, length };
            let moved = engine.atomic(vec![moved], Durability::Buffered).await;
            assert_eq!(moved.unwrap_err().kind, ErrorKind::NotFound);
        }
        engine.commit(X).await.unwrap();
        assert_eq!([tag_of(&engine, v, 0).await, tag_of(&engine, v, 1).await], [5, 0]);
        engine.close().await.unwrap();
    });
}

/// As many changes as a transaction can have, scattered over a map of many leaves, and little room.
#[test]
fn large_commits_on_a_full_store_of_small_segments_are_not_refused() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(96, 64);
        let mut engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let v = engine.create_volume("v", 100_000 * BLOCK).await.unwrap().id;
        let map = engine.create_volume("map", (1 << 22) * BLOCK).await.unwrap().id;
        put(&engine, v, 0, 1).await.unwrap();
        put(&engine, v, 1, 2).await.unwrap();
        // Many leaves, by clones that take no space but the map's.
        let clone = |from: u64, to: u64| {
            let (from_offset, to_offset) = (from * BLOCK, to * BLOCK);
            Op::Clone { from: v, from_offset, to: map, to_offset, length: BLOCK }
        };
        for vector in 0..1000 {
            let ops = (1..=100).map(|n| clone(0, 4 * (100 * vector + n))).collect();
            engine.atomic(ops, Durability::Buffered).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        let (mut spot, mut prepared) = (1, Vec::new());
        for number in 0..PREPARED_MAX as u128 {
            let changes = (0..100).map(|_| {
                spot = (spot + 2 * 7919) % 400_000;
                Change::Bytes(clone(1, spot))
            });
            let id = TransactionId(100 + number);
            engine.prepare(id, changes.collect()).await.unwrap();
            prepared.push(id);
        }
        for lba in 2.. {
            if let Err(error) = put(&engine, v, lba, 3).await {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                break;
            }
        }
        for (index, id) in prepared.iter().enumerate() {
            let outcome = engine.commit(*id).await;
            outcome.unwrap_or_else(|error| panic!("commit {index}: {error}"));
        }
        engine = crashed(&mut device, &runtime, engine).await;
        assert_sound(&engine).await;
        for id in prepared {
            assert_eq!(engine.transaction(id), TransactionState::Committed);
        }
        engine.close().await.unwrap();
    });
}

/// Records as a damaged or forged log may have them, behind the creation of volume 1.
async fn opened_with(runtime: &Tick, records: &[Vec<u8>]) -> Result<(), mjolnir_store::Error> {
    let device = MemoryDevice::of_zones(48, 64);
    crate::support::format(device.clone(), runtime).await;
    let warm = MemoryWarmLog::default();
    let open = async |device: MemoryDevice, warm: &MemoryWarmLog| {
        let warm: Box<dyn WarmLog> = Box::new(warm.clone());
        let (device, options) = (AnyDevice::new(device), OpenOptions::default());
        Engine::open_warm(device, runtime.clone(), options, Some(warm)).await
    };
    let engine = open(device.clone(), &warm).await.unwrap();
    assert_eq!(engine.create_volume("v", 8 * BLOCK).await.unwrap().id, TreeId(1));
    let mut left = warm.crash();
    drop(engine);
    device.cut_power();
    for (number, record) in (2..).zip(records) {
        assert!(left.note(number, record, &[], 0));
    }
    let engine = open(device.crash(1), &left).await?;
    assert_sound(&engine).await;
    Ok(())
}

#[test]
fn a_transaction_that_makes_what_exists_is_damage() {
    let make =
        |tree: u32| [&[16][..], &tree.to_le_bytes(), &4096_u64.to_le_bytes(), b"\x01x"].concat();
    let stage = || [&[8][..], &2_u32.to_le_bytes(), &1_u64.to_le_bytes()].concat();
    let prepare = |changes: &[Vec<u8>]| {
        let head = [&[18][..], &1_u128.to_le_bytes(), &2_u32.to_le_bytes()].concat();
        [&head[..], &[changes.len() as u8], &changes.concat()].concat()
    };
    let commit = || [&[6][..], &2_u32.to_le_bytes()].concat();
    run(async |runtime| {
        opened_with(&runtime, &[stage(), prepare(&[make(3)]), commit()]).await.unwrap();
        opened_with(&runtime, &[stage(), prepare(&[make(u32::MAX)])]).await.unwrap();
        for made in [&[make(1)][..], &[make(3), make(3)], &[make(u32::MAX - 1)]] {
            let error = opened_with(&runtime, &[stage(), prepare(made), commit()]).await;
            let error = error.expect_err("it makes what cannot be");
            assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
        }
    });
}
