//! Atomic vectors at their edges: targets that vanish, nothing to write, crashes
//! and clients that go away half way.

use bytes::Bytes;
use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::Verb;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, ErrorKind, Op, Store};
use mjolnir_units::TreeId;

use crate::support::{BLOCK, Held, dropped_after, fresh, open, payload, put, run, tag_of, turns};

#[test]
fn odd_vectors_are_refused_or_do_nothing() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let a = engine.create_volume("a", 8 * BLOCK).await.unwrap();
        let empty = Op::Write { to: a.id, offset: 0, data: Bytes::new() };
        engine.atomic(vec![empty.clone()], Durability::Durable).await.unwrap();
        engine.atomic(vec![], Durability::Durable).await.unwrap();
        let full = Op::Write { to: a.id, offset: BLOCK, data: payload(7, 1) };
        engine.atomic(vec![empty, full.clone()], Durability::Durable).await.unwrap();
        assert_eq!(tag_of(&engine, a.id, 1).await, 7);
        let nobody =
            Op::Move { from: TreeId(0), from_offset: 0, to: a.id, to_offset: 0, length: BLOCK };
        for ops in [vec![nobody.clone()], vec![nobody, full]] {
            let refused = engine.atomic(ops, Durability::Buffered).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NotFound);
        }
    });
}

#[test]
fn what_was_staged_for_a_vector_that_never_came_is_given_back() {
    run(async |runtime| {
        let device = Held::new(MemoryDevice::of_zones(32, 64));
        let options = OpenOptions { dirty_bytes_max: 4 * BLOCK, ..OpenOptions::default() };
        let engine = fresh(|| device.clone(), &runtime, options).await;
        let a = engine.create_volume("a", 64 * BLOCK).await.unwrap();
        put(&engine, a.id, 0, 3).await.unwrap();
        let staged = |report: mjolnir_store::report::CheckReport| report.targets - 1;
        // The client goes away while its payload waits for the device.
        device.hold(Verb::Append);
        let first = Op::Write { to: a.id, offset: 0, data: payload(7, 32) };
        let second = Op::Write { to: a.id, offset: 32 * BLOCK, data: payload(8, 32) };
        let vector = vec![first, second];
        assert!(!dropped_after(50, engine.atomic(vector.clone(), Durability::Buffered)).await);
        device.release(Verb::Append);
        turns(200).await;
        assert_eq!(staged(engine.check().await.unwrap()), 0);
    });
}

#[test]
fn what_was_staged_when_the_power_went_away_is_given_back() {
    let mut cut_between = 0;
    for turn in 0..40 {
        run(async |runtime| {
            let device = Held::new(MemoryDevice::of_zones(32, 64));
            let options = OpenOptions { dirty_bytes_max: 4 * BLOCK, ..OpenOptions::default() };
            let engine = fresh(|| device.clone(), &runtime, options).await;
            let a = engine.create_volume("a", 1024 * BLOCK).await.unwrap();
            let write =
                |n: u64| Op::Write { to: a.id, offset: n * 32 * BLOCK, data: payload(n + 1, 32) };
            let vector = engine.atomic((0..20).map(write).collect(), Durability::Durable);
            let flushes = async {
                loop {
                    engine.flush().await.unwrap();
                    turns(1).await;
                }
            };
            let work = futures_lite::future::or(async { vector.await.is_ok() }, flushes);
            let done = dropped_after(turn * 3, work).await;
            device.inner.cut_power();
            let found = device.inner.crash(turn as u64);
            let engine = open(found, runtime.clone(), OpenOptions::default()).await.unwrap();
            cut_between += u32::from(!done && engine.stats().replayed_records > 1);
            let report = engine.check().await.unwrap();
            assert_eq!((report.targets, report.problems), (1, Vec::new()), "turn {turn}");
            let first = tag_of(&engine, a.id, 0).await;
            for n in 1..20 {
                let expected = if first == 0 { 0 } else { n + 1 };
                assert_eq!(tag_of(&engine, a.id, n * 32).await, expected, "turn {turn}");
            }
            assert!(!done || first == 1, "turn {turn}");
        });
    }
    assert!(cut_between > 0, "no cut fell into a vector");
}
