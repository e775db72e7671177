//! `qemu-io` writes, zeroes and discards at random, and verifies patterns as it goes.

use std::fmt::Write;

use crate::real_support::chance::Chance;
use crate::real_support::store::TestStore;
use crate::real_support::tools;

const SEED: u64 = 4;
const SECTOR: u64 = 512;
/// Of the volume of 8 MiB.
const SECTORS: u64 = (8 << 20) / SECTOR;
const BLOCK_SECTORS: u64 = 4096 / SECTOR;

/// Random commands for qemu-io, and the byte that each sector is full of in the end.
fn commands(chance: &mut Chance, model: &mut [u8], count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let from = chance.below(SECTORS);
        let longest = if chance.percent(10) { 2048 } else { 64 };
        let length = 1 + chance.below(longest.min(SECTORS - from));
        let (at, bytes) = (from * SECTOR, length * SECTOR);
        let part = from as usize..(from + length) as usize;
        let fua = if chance.percent(10) { "-f " } else { "" };
        match chance.below(100) {
            0..45 => {
                let byte = 1 + chance.below(255) as u8;
                writeln!(text, "write {fua}-P {byte} {at} {bytes}").unwrap();
                model[part].fill(byte);
            }
            45..55 => {
                let unmap = if chance.percent(50) { "-u " } else { "" };
                writeln!(text, "write {fua}{unmap}-z {at} {bytes}").unwrap();
                model[part].fill(0);
            }
            55..62 => {
                // Of whole blocks, which are all that a discard is sure to give back.
                let from = from.next_multiple_of(BLOCK_SECTORS).min(SECTORS - BLOCK_SECTORS);
                let length = length.next_multiple_of(BLOCK_SECTORS).min(SECTORS - from);
                writeln!(text, "discard {} {}", from * SECTOR, length * SECTOR).unwrap();
                model[from as usize..(from + length) as usize].fill(0);
            }
            62..66 => text += "flush\n",
            _ => verify(&mut text, model, from, from + length),
        }
    }
    verify(&mut text, model, 0, SECTORS);
    text
}

/// Adds reads that verify those sectors, one for each run of equal ones.
fn verify(text: &mut String, model: &[u8], from: u64, end: u64) {
    let part = &model[from as usize..end as usize];
    let mut at = from;
    for run in part.chunk_by(|a, b| a == b) {
        let (offset, bytes) = (at * SECTOR, run.len() as u64 * SECTOR);
        writeln!(text, "read -P {} {offset} {bytes}", run[0]).unwrap();
        at += run.len() as u64;
    }
}

/// Runs commands of qemu-io; fails if a pattern is not found.
fn qemu_io(store: &TestStore, export: &str, options: &[&str], commands: &str) {
    std::fs::write(store.path("commands"), commands).unwrap();
    let mut command = tools::command("qemu-io");
    command.args(["-f", "raw"]).args(options).arg(store.uri(export));
    command.stdin(std::fs::File::open(store.path("commands")).unwrap());
    let said = tools::run(&mut command);
    let wrong = |line: &&str| line.contains("failed") || line.contains("rror");
    let wrong: Vec<&str> = said.out.lines().chain(said.err.lines()).filter(wrong).collect();
    assert_eq!((said.code, &wrong[..]), (Some(0), &[][..]), "seed {SEED}: {}", said.err);
    let reads = |text: &str| text.lines().filter(|line| line.contains("read ")).count();
    assert_eq!(reads(&said.out), reads(commands), "seed {SEED}: not every read was done");
}

#[test]
fn random_patterns_are_found_again() {
    if !tools::present("random_patterns_are_found_again", &["qemu-io"]) {
        return;
    }
    println!("seed {SEED}");
    let store = TestStore::new("64M", "8M");
    let mut server = store.serve();
    let mut chance = Chance::new(SEED);
    let mut model = vec![0; SECTORS as usize];
    let mut snapshots: Vec<String> = Vec::new();
    for round in 0..4 {
        let script = commands(&mut chance, &mut model, 800);
        qemu_io(&store, "v", &["-d", "unmap"], &format!("{script}flush\n"));
        store.ok(&format!("snapshot create s.mj v@s{round}"));
        let mut whole = String::new();
        verify(&mut whole, &model, 0, SECTORS);
        snapshots.push(whole);
        // In turn an end in order and a crash.
        if round % 2 == 0 {
            server.stop()
        } else {
            server.kill()
        }
        server = store.serve();
        qemu_io(&store, "v", &["-r"], &snapshots[round]);
    }
    for (round, whole) in snapshots.iter().enumerate() {
        qemu_io(&store, &format!("v@s{round}"), &["-r"], whole);
    }
    server.stop();
    store.check();
}
