//! Replaying a corpus on stable, shared by the tests of every crate that has one: the files as
//! they are, then mutations of them from a fixed seed, each held to its memory.

#![allow(dead_code)] // Each test that includes this uses a part of it.

#[path = "held.rs"]
pub mod held;
#[path = "seeds.rs"]
pub mod seeds;

use std::collections::BTreeMap;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// The files of a corpus, by name.
///
/// # Panics
///
/// If there are none.
pub fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = seeds::folder(target);
    let failed = |why: std::io::Error| -> ! { panic!("{}: {why}", folder.display()) };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|why| failed(why));
    let files: BTreeMap<String, Vec<u8>> = entries
        .map(|entry| {
            let entry = entry.unwrap_or_else(|why| failed(why));
            let bytes = std::fs::read(entry.path()).unwrap_or_else(|why| failed(why));
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Feeds every file of the corpus to `endure`, then `mutations` mutations of them drawn from
/// `seed`. What is held at once beyond `allowed(length)` bytes is too much.
pub fn replay(
    target: &str,
    seed: u64,
    mutations: u64,
    allowed: impl Fn(usize) -> usize,
    endure: impl Fn(&[u8]),
) {
    let files: Vec<(String, Vec<u8>)> = corpus(target).into_iter().collect();
    let judge = |what: &str, bytes: &[u8]| {
        // Named before it fails, whichever way it does.
        let told = Told(what);
        let peak = held::peak(|| endure(bytes));
        let most = allowed(bytes.len());
        assert!(peak <= most, "{peak} bytes were held for {}, {most} are allowed", bytes.len());
        std::mem::forget(told);
    };
    for (name, bytes) in &files {
        judge(name, bytes);
    }
    let mut chance = Pcg32::seed_from_u64(seed);
    for number in 0..mutations {
        let pick = |chance: &mut Pcg32| chance.next_u32() as usize % files.len();
        let (name, bytes) = &files[pick(&mut chance)];
        let other = &files[pick(&mut chance)].1;
        let mut bytes = bytes.clone();
        for _ in 0..1 + chance.next_u32() % 4 {
            mutate(&mut bytes, other, &mut chance);
        }
        judge(&format!("mutation {number} of seed {seed}, of {name}"), &bytes);
    }
}

/// Says what was being fed, if that panics.
struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        println!("while decoding {}", self.0);
    }
}

/// Changes one thing: bits, bytes, a number (most are little-endian), or the length.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Pcg32) {
    let mut draw = |below: usize| chance.next_u32() as usize % below.max(1);
    let length = bytes.len();
    // Structures begin with what is worth changing most.
    let reach = if draw(2) == 0 { length.min(128) } else { length };
    let at = draw(reach + 1).min(length);
    match draw(6) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << draw(8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = draw(256) as u8),
        2 => {
            let number = [0, 1, u64::MAX, 1 << 31, 1 << 63, draw(70_000) as u64][draw(6)];
            let width = [1, 2, 4, 8][draw(4)];
            let room = bytes.iter_mut().skip(at).take(width);
            room.zip(number.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        }
        3 => {
            let count = draw(40);
            bytes.drain(at..length.min(at + count));
        }
        4 => {
            let piece = bytes[at..length.min(at + draw(40))].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let end = length.min(at + draw(64));
            let from = draw(other.len());
            let source = other[from..].iter();
            bytes[at..end].iter_mut().zip(source).for_each(|(place, byte)| *place = *byte);
        }
    }
}
