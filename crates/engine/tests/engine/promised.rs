//! One damaged bit, some time after a flush, then the end of the program or of the power: whatever the flush
//! covered is there, or it is an error; nothing is old again without a word.

use std::time::Duration;

use mjolnir_device::filter::{Damage, Fault};
use mjolnir_device::{AlignedBuf, Device, MemoryDevice, Runtime};
use mjolnir_engine::OpenOptions;
use mjolnir_store::{ErrorKind, Store};
use mjolnir_units::{Pba, TreeId};

use crate::support::{BLOCK, Engine, Random, Tick, flat, fresh, open, payload, put, run, turns};

const ZONES: u32 = 40;
const ZONE: u64 = 64;
const BLOCKS: u64 = 300;

/// Writes and flushes at random, then a flush and quiet. Returns what was put to each block.
async fn busy_then_quiet(engine: &Engine, volume: TreeId, draw: &mut Random) -> Vec<u64> {
    let mut tags = vec![0; BLOCKS as usize];
    for tag in 1..20 + draw.below(200) {
        let lba = draw.below(BLOCKS);
        put(engine, volume, lba, tag).await.unwrap();
        tags[lba as usize] = tag;
        match draw.below(12) {
            0 => engine.flush().await.unwrap(),
            1 => turns(draw.below(40) as usize).await,
            _ => {}
        }
    }
    engine.flush().await.unwrap();
    tags
}

/// Blocks that are not all zeroes.
async fn used_blocks(memory: &MemoryDevice) -> Vec<Pba> {
    let mut used = Vec::new();
    for at in (0..u64::from(ZONES) * ZONE).map(Pba) {
        let block = memory.read(at, AlignedBuf::zeroed(BLOCK as usize)).await.unwrap();
        if block.as_ref().iter().any(|byte| *byte != 0) {
            used.push(at);
        }
    }
    used
}

async fn rest(runtime: &Tick) {
    runtime.sleep(Duration::from_millis(1200)).await;
}

/// How a damaged store was found.
#[derive(Default)]
struct Found {
    whole: u32,
    refused: u32,
    named: u32,
}

impl Found {
    async fn look(&mut self, device: Fault<MemoryDevice>, runtime: &Tick, tags: &[u64], seed: u64) {
        let engine = match open(device, runtime.clone(), OpenOptions::default()).await {
            Ok(engine) => engine,
            Err(error) => {
                assert!(matches!(error.kind, ErrorKind::Damaged | ErrorKind::Format), "{error}");
                self.refused += 1;
                return;
            }
        };
        let volume = engine.find("v").unwrap().id;
        let mut lost = 0;
        for (lba, tag) in (0..).zip(tags) {
            match engine.read(volume, lba * BLOCK, BLOCK).await {
                Ok(chunks) => {
                    let bytes = flat(chunks);
                    let right = match tag {
                        0 => bytes.iter().all(|byte| *byte == 0),
                        tag => bytes == payload(*tag, 1)[..],
                    };
                    assert!(right, "seed {seed}: block {lba} is old again without a word");
                }
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Damaged, "{error}");
                    lost += 1;
                }
            }
        }
        if lost > 0 {
            // What a later group calls durable is not read in recovery, as all older data is not.
            let report = engine.check().await.unwrap();
            let checked = !report.problems.is_empty();
            let scrubbed = !engine.scrub(&|_| {}).await.unwrap().losses.is_empty();
            assert!(scrubbed, "seed {seed}: a scrub finds nothing");
            assert_eq!(
                report.recovery.damaged.len(),
                if checked { lost } else { 0 },
                "seed {seed}"
            );
            self.named += u32::from(checked);
        } else {
            self.whole += 1;
        }
        engine.close().await.unwrap();
    }
}

/// A damaged block of data that lies in the map's image, a header that is found twice and so on change
/// nothing; what matters is that all three ways occur.
#[test]
fn nothing_that_a_flush_covered_reverts_without_a_word() {
    // More by hand: MJOLNIR_TRIES=10000 cargo test -p mjolnir-engine --test engine promised
    let tries = std::env::var("MJOLNIR_TRIES").map_or(150, |text| text.parse().unwrap());
    let mut found = Found::default();
    for seed in 0..tries {
        run(async |runtime| {
            let mut draw = Random(seed);
            draw.bits();
            let memory = MemoryDevice::of_zones(ZONES, ZONE);
            let engine = fresh(|| memory.clone(), &runtime, OpenOptions::default()).await;
            let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
            let tags = busy_then_quiet(&engine, volume, &mut draw).await;
            rest(&runtime).await;
            let memory = match draw.below(2) {
                0 => memory.reopen(),
                _ => memory.crash(seed),
            };
            let device = Fault::new(memory);
            // Where something lies, and often where headers say most.
            let used = used_blocks(device.inner()).await;
            let at = used[draw.below(used.len() as u64) as usize];
            let bits = if draw.below(2) == 0 { 8 * 200 } else { 8 * BLOCK };
            device.control().damage(at, Damage::Flipped(draw.below(bits) as u32));
            found.look(device, &runtime, &tags, seed).await;
        });
    }
    let Found { whole, refused, named } = found;
    println!("{tries} tries: {whole} whole, {refused} refused, {named} with damaged blocks named");
    assert!(whole > 0 && refused > 0 && named > 0, "{whole} {refused} {named}");
}

#[test]
fn the_root_is_written_once_for_a_pause() {
    run(async |runtime| {
        let memory = MemoryDevice::of_zones(ZONES, ZONE);
        let engine = fresh(|| memory.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        rest(&runtime).await;
        let (before, begun) = (engine.stats().promises, runtime.now());
        for tag in 1..300 {
            put(&engine, volume, tag % BLOCKS, tag).await.unwrap();
            engine.flush().await.unwrap();
        }
        let seconds = (runtime.now() - begun).as_secs();
        let busy = engine.stats().promises - before;
        assert!(busy <= seconds + 1, "{busy} in {seconds} s in which each write is flushed");
        rest(&runtime).await;
        rest(&runtime).await;
        let quiet = engine.stats().promises;
        put(&engine, volume, 1, 1).await.unwrap();
        rest(&runtime).await;
        assert_eq!(engine.stats().promises, quiet, "nothing more was promised");
        engine.flush().await.unwrap();
        rest(&runtime).await;
        rest(&runtime).await;
        assert_eq!(engine.stats().promises, quiet + 1);
        engine.close().await.unwrap();
    });
}

#[test]
fn what_no_flush_covered_and_is_left_out_is_told() {
    let mut told = 0;
    for seed in 0..20 {
        run(async |runtime| {
            let memory = MemoryDevice::of_zones(ZONES, ZONE);
            let engine = fresh(|| memory.clone(), &runtime, OpenOptions::default()).await;
            let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
            for lba in 0..40 {
                put(&engine, volume, lba, 1).await.unwrap();
                turns(200).await; // Long enough for a group of its own.
            }
            // Blocks that no flush covered are kept or lost each for itself.
            let engine = open(memory.crash(seed), runtime.clone(), OpenOptions::default());
            let engine = engine.await.unwrap();
            let (recovery, report) = (engine.recovery(), engine.check().await.unwrap());
            assert_eq!(report.problems, Vec::<String>::new(), "it is no damage");
            assert_eq!(report.recovery, recovery);
            if let Some(dropped) = &recovery.dropped {
                assert!(dropped.dropped_records > 0);
                assert!(dropped.ranges.iter().all(|range| range.target == "v"), "{dropped:?}");
                assert!(recovery.dropped_lines(3)[0].contains("no flush had covered"));
                told += 1;
            }
        });
    }
    assert!(told > 5, "{told}");
}
