//! The power goes at every point of a story, and in the middle of recoveries.
//!
//! The story is short enough that it can be cut at each of its requests to the disk, one after
//! another, with several outcomes of each cut.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mjolnir_sim::stage::{StageEngine, get, put};
use mjolnir_sim::{Setting, Stage, Subject};
use mjolnir_store::{Durability, Op, Store};
use mjolnir_units::{BLOCK_SIZE, TreeId};

const BLOCKS: u64 = 96;

/// What the story's teller was promised. One client, so that order is known: of its changes some
/// first ones survive, and at least those that were promised.
#[derive(Clone, Default)]
struct Diary {
    /// Each change: block and tag, all of them at once.
    changes: Vec<Vec<(u64, u64)>>,
    /// The first so many changes are durable.
    durable: usize,
    snapshot: bool,
}

impl Diary {
    /// The volume after the first `count` changes.
    fn after(&self, count: usize) -> BTreeMap<u64, u64> {
        self.changes[..count].iter().flatten().copied().collect()
    }
}

/// Writes, overwrites, trims, moves, a vector, a snapshot, reclaim and a checkpoint; flushes here
/// and there.
async fn story(engine: StageEngine, diary: Rc<RefCell<Diary>>) {
    let volume = engine.find("v").expect("made before the story").id;
    let mut tag = 1;
    let change = |blocks: Vec<(u64, u64)>| diary.borrow_mut().changes.push(blocks);
    let promised = || {
        let mut diary = diary.borrow_mut();
        diary.durable = diary.changes.len();
    };
    for round in 0..9 {
        for step in 0..12 {
            let block = (step * 7 + round * 3) % BLOCKS;
            change(vec![(block, tag)]);
            let durable = step == 5;
            let how = if durable { Durability::Durable } else { Durability::Buffered };
            put(&engine, volume, block, tag, how).await.expect("nothing fails but the power");
            if durable {
                promised();
            }
            tag += 1;
        }
        let cleared = 20 * (round % 4);
        change((0..10).map(|block| (block + cleared, 0)).collect());
        let (offset, length) = (cleared * BLOCK_SIZE, 10 * BLOCK_SIZE);
        engine.trim(volume, offset, length, Durability::Buffered).await.expect("trim");

        // A vector: two blocks written and one cleared, or none of it.
        change(vec![(90, tag), (91, tag + 1), (7, 0)]);
        let write = |block: u64, tag| Op::Write {
            to: volume,
            offset: block * BLOCK_SIZE,
            data: mjolnir_sim::stage::tagged(tag),
        };
        let trim = Op::Trim { of: volume, offset: 7 * BLOCK_SIZE, length: BLOCK_SIZE };
        let vector = vec![write(90, tag), write(91, tag + 1), trim];
        engine.atomic(vector, Durability::Buffered).await.expect("vector");
        tag += 2;

        match round {
            0 | 4 | 7 => {
                engine.flush().await.expect("flush");
                promised();
            }
            1 => {
                engine.create_snapshot("v", "s").await.expect("snapshot");
                diary.borrow_mut().snapshot = true;
                promised();
            }
            2 | 6 => Subject::checkpoint(&engine).await.expect("checkpoint"),
            _ => Subject::collect(&engine).await.expect("reclaim"),
        }
    }
}

/// The state must be what some first changes give, those promised among them.
async fn judge(engine: &StageEngine, diary: &Diary, when: &str) {
    let volume = engine.find("v").expect("the volume was durable").id;
    let found = contents(engine, volume).await;
    let fits =
        (diary.durable..=diary.changes.len()).rev().any(|count| diary.after_is(count, &found));
    assert!(
        fits,
        "{when}: found {found:?}, promised were {} of {:?}",
        diary.durable, diary.changes
    );
    assert!(!diary.snapshot || engine.find("v@s").is_ok(), "{when}: the snapshot is gone");
    engine
        .check()
        .await
        .map(|report| assert!(report.problems.is_empty(), "{when}: {report:?}"))
        .expect("check");
}

impl Diary {
    fn after_is(&self, count: usize, found: &BTreeMap<u64, u64>) -> bool {
        let mut expected = self.after(count);
        expected.retain(|_, tag| *tag != 0);
        expected == *found
    }
}

async fn contents(engine: &StageEngine, volume: TreeId) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for block in 0..BLOCKS {
        match get(engine, volume, block).await.expect("what recovery found can be read") {
            0 => {}
            tag => drop(found.insert(block, tag)),
        }
    }
    found
}

/// A stage with a volume, and the store closed.
fn stage(seed: u64, streams: u8) -> Stage {
    let mut setting = Setting::new(seed);
    setting.options.streams = streams;
    let mut stage = Stage::new(setting);
    let engine = stage.open().expect("a new store opens");
    stage.play(async {
        Subject::create_volume(&engine, "v", BLOCKS * BLOCK_SIZE).await.expect("volume");
        Subject::close(&engine).await.expect("close");
    });
    stage.power_off();
    stage
}

#[test]
fn whatever_request_the_power_goes_at_what_was_promised_is_there_and_nothing_is_torn() {
    for outcome in 0..3 {
        for cut in 1.. {
            let mut stage = stage(outcome, 1);
            let engine = stage.open().expect("opens");
            let diary = Rc::new(RefCell::new(Diary::default()));
            stage.disk().cut_after(cut);
            let ended = stage.play_until_dark(story(engine, diary.clone()));
            stage.power_off();
            let engine = stage.open().expect("it recovers");
            let when = format!("outcome {outcome}, cut at request {cut}");
            stage.play(judge(&engine, &diary.borrow(), &when));
            if ended.is_some() {
                assert!(cut > 50, "the story is long enough to be cut");
                break;
            }
        }
    }
}

/// The second cut comes at every request of the recovery from the first, and a third one in the
/// recovery from that. Each recovery begins where the last left off, and none loses what the first
/// would have found.
#[test]
fn a_recovery_that_is_cut_by_another_power_cut_can_be_repeated() {
    for first in [30, 60, 75] {
        for second in 1.. {
            let mut stage = stage(first + second, 1);
            let engine = stage.open().expect("opens");
            let diary = Rc::new(RefCell::new(Diary::default()));
            stage.disk().cut_after(first);
            assert!(stage.play_until_dark(story(engine, diary.clone())).is_none());
            stage.power_off();
            let mut cut = false;
            for at in [second, second / 2 + 1] {
                stage.power_on().cut_after(at);
                cut |= stage.play_until_dark(stage.recovery()).is_none();
                stage.power_off();
            }
            let engine = stage.open().expect("it recovers");
            let when = format!("cut at request {first}, recovery at {second}");
            stage.play(judge(&engine, &diary.borrow(), &when));
            let found = stage.play(contents(&engine, engine.find("v").expect("there").id));
            // What was found once is durable: at once, without a flush.
            stage.power_off();
            let engine = stage.open().expect("it recovers again");
            let again = stage.play(contents(&engine, engine.find("v").expect("there").id));
            assert_eq!(found, again, "{when}");
            if !cut {
                break;
            }
        }
    }
}

/// Two clients write to segments of their own. One flushes all the time, and its flushes are
/// acknowledged while the other's appends are on their way and get torn.
#[test]
fn acknowledged_flushes_on_one_segment_hold_while_another_is_torn() {
    let mut torn = 0;
    for seed in 0..60 {
        let mut stage = stage(seed, 4);
        let engine = stage.open().expect("opens");
        // Neighbours share a stream; a volume further on has another.
        let far = stage.play(async {
            let far = Subject::create_volume(&engine, "far", BLOCKS * BLOCK_SIZE).await;
            far.expect("volume").id
        });
        let near = engine.find("v").expect("there").id;
        let acknowledged = Rc::new(RefCell::new((0, 0)));
        stage.disk().cut_after(10 + seed);
        let flushing = async {
            for tag in 1.. {
                put(&engine, near, tag % BLOCKS, tag, Durability::Durable).await.expect("write");
                acknowledged.borrow_mut().0 = tag;
            }
        };
        let streaming = async {
            for tag in 1.. {
                let from = (tag - 1) * 8 % BLOCKS;
                let bytes: Vec<u8> =
                    (0..8).flat_map(|_| mjolnir_sim::stage::tagged(tag).to_vec()).collect();
                let offset = from * BLOCK_SIZE;
                engine.write(far, offset, bytes.into(), Durability::Buffered).await.expect("write");
                acknowledged.borrow_mut().1 = tag;
            }
        };
        stage.play_until_dark(futures_lite::future::zip(flushing, streaming));
        stage.power_off();
        let engine = stage.open().expect("it recovers");
        let (flushed, streamed) = *acknowledged.borrow();
        stage.play(async {
            for tag in flushed.saturating_sub(BLOCKS - 1).max(1)..=flushed {
                let found = get(&engine, near, tag % BLOCKS).await.expect("read");
                assert!(found >= tag, "seed {seed}: flushed write {tag} is lost, found {found}");
            }
            let mut newest = 0;
            for block in 0..BLOCKS {
                newest = newest.max(get(&engine, far, block).await.expect("read"));
            }
            torn += u64::from(newest < streamed);
        });
    }
    assert!(torn > 0, "no stream lost anything: the cuts came at no interesting time");
}
