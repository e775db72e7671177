//! Blocks that cannot be read, bits that flip, and writes that fail.
//!
//! A read returns what was written, or an error with an address; never anything else. What is not
//! hit is not affected, and nothing that was promised is lost.

use mjolnir_device::filter::{Damage, Verb};
use mjolnir_device::{AlignedBuf, Device, ErrorKind as DeviceError};
use mjolnir_engine::{Engine, OpenOptions};
use mjolnir_sim::stage::{StageEngine, get, put, tag_of};
use mjolnir_sim::{Setting, Stage, Subject};
use mjolnir_store::{Durability, ErrorKind, Store};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, TreeId};

const BLOCKS: u64 = 200;

/// A store with one volume of tagged blocks, block `b` holding tag `b + 1`, all of it durable, and
/// said to be so by what was logged after it. (Damage to what was logged last of all looks like a
/// write that a power cut tore, and cannot be told from it.)
fn written(seed: u64) -> (Stage, StageEngine, TreeId) {
    let mut stage = Stage::new(Setting::new(seed));
    let engine = stage.open().expect("a new store opens");
    let volume = stage.play(async {
        let created = Subject::create_volume(&engine, "v", BLOCKS * BLOCK_SIZE).await;
        let volume = created.expect("volume").id;
        for block in 0..BLOCKS {
            put(&engine, volume, block, block + 1, Durability::Buffered).await.expect("write");
        }
        engine.flush().await.expect("flush");
        put(&engine, volume, 0, 1, Durability::Durable).await.expect("write");
        volume
    });
    (stage, engine, volume)
}

/// Where the disk holds the block with that tag.
fn place_of(stage: &Stage, tag: u64) -> Pba {
    let disk = stage.disk().clone();
    let blocks = disk.info().blocks();
    stage.play(async move {
        for at in 0..blocks {
            let read = disk.read(Pba(at), AlignedBuf::zeroed(BLOCK_BYTES)).await.expect("a read");
            if tag_of(read.as_ref()) == Ok(tag) {
                return Pba(at);
            }
        }
        panic!("tag {tag} is nowhere on the disk")
    })
}

#[test]
fn a_damaged_block_is_an_error_with_its_address_and_its_neighbours_are_fine() {
    for damage in [Damage::Unreadable, Damage::Flipped(0), Damage::Flipped(32767)] {
        let (mut stage, engine, volume) = written(1);
        let victim = 77;
        let at = place_of(&stage, victim + 1);
        stage.disk().faults().damage(at, damage);
        stage.play(async {
            for block in 0..BLOCKS {
                match get(&engine, volume, block).await {
                    Ok(tag) => {
                        assert_eq!(tag, block + 1);
                        assert_ne!(block, victim, "{damage:?} was not noticed");
                    }
                    Err(error) => {
                        assert_eq!(block, victim, "{error}");
                        assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
                        assert!(error.message.contains(&at.0.to_string()), "no address: {error}");
                    }
                }
            }
            // A scrub finds it and says whose bytes are hit.
            let report = StageEngine::scrub(&engine, |_| {}).await.expect("the scrub runs");
            assert_eq!(report.losses.len(), 1, "{report:?}");
            assert_eq!(report.losses[0].offset, victim * BLOCK_SIZE, "{report:?}");
            // Overwriting it heals the volume; half a block of it cannot be kept.
            let half = engine.write(
                volume,
                victim * BLOCK_SIZE,
                vec![1; 512].into(),
                Durability::Buffered,
            );
            assert_eq!(half.await.unwrap_err().kind, ErrorKind::Damaged);
            put(&engine, volume, victim, 9999, Durability::Durable).await.expect("write");
            assert_eq!(get(&engine, volume, victim).await, Ok(9999));
        });
        // The program ends and begins again: still nothing else is hit.
        stage.power_off();
        let engine = stage.open().expect("it recovers");
        stage.play(async {
            assert_eq!(get(&engine, volume, victim).await, Ok(9999));
            assert_eq!(get(&engine, volume, victim + 1).await, Ok(victim + 2));
        });
    }
}

/// Every block of the disk is damaged, one at a time, and the store opened after a power cut: it
/// opens and returns what was promised or an error, or it does not open and says why. It never
/// returns anything else, not even what was there before.
///
/// What a check and a scrub say is lost is all that is lost, whether or not the store opens. One
/// that does not opens again once the loss is accepted, and then holds what the check said.
#[test]
fn whatever_block_is_damaged_nothing_wrong_is_ever_returned() {
    let (mut refused, mut salvaged) = (0, 0);
    let used: Vec<u64> = {
        let (stage, _, _) = written(2);
        let disk = stage.disk().clone();
        let blocks = disk.info().blocks();
        stage.play(async move {
            let mut used = Vec::new();
            for at in 0..blocks {
                let read = disk.read(Pba(at), AlignedBuf::zeroed(BLOCK_BYTES)).await.expect("read");
                if read.as_ref().iter().any(|&byte| byte != 0) {
                    used.push(at);
                }
            }
            used
        })
    };
    for (index, at) in used.iter().enumerate() {
        for damage in [Damage::Unreadable, Damage::Flipped((index as u32 * 37) % 32768)] {
            let what = format!("{damage:?} at {at}");
            let (mut stage, engine, volume) = written(2);
            drop(engine);
            stage.power_off();
            stage.power_on().faults().damage(Pba(*at), damage);
            let found = stage.play(look(&stage, &what, volume, true));
            stage.program_ends();
            stage.power_on().faults().damage(Pba(*at), damage);
            let engine = match stage.play(stage.recovery()) {
                Ok(engine) => engine,
                Err(error) => {
                    assert!(
                        matches!(error.kind, ErrorKind::Damaged | ErrorKind::Io),
                        "{what}: {error}"
                    );
                    refused += 1;
                    assert!(error.message.contains("`mjolnir salvage`"), "{what}: {error}");
                    stage.program_ends();
                    stage.power_on().faults().damage(Pba(*at), damage);
                    let accepted = stage.play(look(&stage, &what, volume, false));
                    assert_eq!(accepted, found, "{what}: it is as the check said");
                    stage.program_ends();
                    stage.power_on().faults().damage(Pba(*at), damage);
                    let engine = stage.play(stage.recovery());
                    let engine = engine.unwrap_or_else(|why| panic!("{what}, salvaged: {why}"));
                    assert_eq!(stage.play(contents(&engine, volume)), found, "{what}, salvaged");
                    salvaged += 1;
                    continue;
                }
            };
            let held = stage.play(contents(&engine, volume));
            assert_eq!(found, held, "{what}: it is as the check said");
            for (block, tag) in held.iter().enumerate() {
                assert!(tag.is_none_or(|tag| tag == block as u64 + 1), "{what}, block {block}");
            }
            let lost = held.iter().filter(|tag| tag.is_none()).count();
            assert!(lost as u64 <= BLOCKS / 2, "{what}: {lost} blocks cannot be read");
        }
    }
    println!(
        "{} blocks were damaged, each in two ways; {refused} times it did not open, and {salvaged} \
         times it did after the loss was accepted",
        used.len()
    );
    assert_eq!(refused, salvaged);
}

/// What each block holds: a tag, or none if it cannot be read.
async fn contents(engine: &StageEngine, volume: TreeId) -> Vec<Option<u64>> {
    let mut held = Vec::new();
    for block in 0..BLOCKS {
        held.push(match get(engine, volume, block).await {
            Ok(tag) => Some(tag),
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::Damaged | ErrorKind::NotFound), "{error}");
                None
            }
        });
    }
    held
}

/// Opens a store in spite of its damage, for reading only or to accept the loss; holds what the
/// reports say is lost against what is. Returns what each block holds.
fn look(
    stage: &Stage,
    what: &str,
    volume: TreeId,
    read_only: bool,
) -> impl Future<Output = Vec<Option<u64>>> + use<> {
    let (disk, runtime, what) = (stage.disk().clone(), stage.runtime().clone(), what.to_owned());
    async move {
        let options = OpenOptions { read_only, salvage: true, ..OpenOptions::default() };
        let engine = Engine::open(disk, runtime, options).await;
        let engine = engine.unwrap_or_else(|why| panic!("{what}: {why}"));
        let check = Engine::check(&engine).await.expect("the check runs");
        let scrub = StageEngine::scrub(&engine, |_| {}).await.expect("the scrub runs");
        let log = check.log.clone().unwrap_or_default();
        let reported = |offset: u64| {
            [&check.losses, &scrub.losses, &log.ranges]
                .into_iter()
                .flatten()
                .any(|loss| (loss.offset..loss.offset + loss.length).contains(&offset))
        };
        let held = contents(&engine, volume).await;
        let mut unknown = 0;
        for (block, tag) in (0..).zip(&held) {
            let offset = block * BLOCK_SIZE;
            if *tag != Some(block + 1) && !reported(offset) {
                assert!(!log.missing.is_empty() || log.unknown_bytes > 0, "{what}, block {block}");
                unknown += BLOCK_SIZE;
            }
        }
        assert!(unknown <= log.unknown_bytes, "{what}: {unknown} bytes are lost, {log:?}");
        if held.iter().zip(1..).any(|(tag, right)| *tag != Some(right)) {
            let said = !check.problems.is_empty() || !scrub.damage.is_empty();
            assert!(said, "{what}: something is lost, and nobody says so");
        }
        if !read_only {
            engine.close().await.expect("it closes");
        }
        held
    }
}

/// The disk refuses one append, flush, seal, reset or root write. Nothing that was promised is
/// lost, whether or not the request took effect, and the store works again once it is reopened.
#[test]
fn a_write_that_fails_loses_nothing_that_was_promised() {
    for verb in [Verb::Append, Verb::Flush, Verb::Seal, Verb::Reset, Verb::WriteRoot] {
        for (nth, landed) in [(1, false), (1, true), (3, false), (3, true), (9, true)] {
            for kind in [DeviceError::Io, DeviceError::NoSpace] {
                let (mut stage, engine, volume) = written(nth);
                stage.disk().faults().fail(verb, nth, kind, landed);
                let mut promised = vec![0; BLOCKS as usize];
                let mut asked = vec![0; BLOCKS as usize];
                let refused = stage.play(async {
                    for round in 1..2000u64 {
                        let block = round * 31 % BLOCKS;
                        let tag = 1000 + round;
                        asked[block as usize] = tag;
                        match put(&engine, volume, block, tag, Durability::Durable).await {
                            Ok(()) => promised[block as usize] = tag,
                            Err(error) => return Some((block, error)),
                        }
                    }
                    None
                });
                let what = format!("{verb:?} number {nth}, {kind:?}, landed {landed}");
                stage.play(async {
                    if let Some((hit, error)) = &refused {
                        assert!(
                            matches!(error.kind, ErrorKind::Io | ErrorKind::NoSpace),
                            "{what}: {error}"
                        );
                        // Reads go on.
                        for block in 0..BLOCKS {
                            let tag = get(&engine, volume, block).await.expect("reads go on");
                            let expected = promised[block as usize].max(block + 1);
                            let fits =
                                tag == expected || (block == *hit && tag == asked[block as usize]);
                            assert!(fits, "{what}: block {block} holds {tag}, not {expected}");
                        }
                    }
                });
                drop(engine);
                stage.power_off();
                let engine = stage.open().expect("it recovers once the disk is well");
                stage.play(async {
                    for block in 0..BLOCKS {
                        let tag = get(&engine, volume, block).await.expect("a read");
                        let expected = promised[block as usize].max(block + 1);
                        let fits = tag == expected || tag == asked[block as usize];
                        assert!(fits, "{what}: block {block} holds {tag}, not {expected}");
                    }
                    put(&engine, volume, 0, 7, Durability::Durable).await.expect("it works again");
                    Subject::check(&engine).await.expect("check");
                });
            }
        }
    }
}
