//! What blocks hold: every block written has bytes that no other has, and that name their write.

use std::collections::BTreeMap;

use mjolnir_units::BLOCK_BYTES;
use mjolnir_vtime::digest;

/// The content of a block, by digest; 0 if all bytes are zero (a hole, or zeroes).
pub type Value = u64;

const SECTOR: usize = 512;

/// Which bytes each [`Value`] stands for.
#[derive(Default)]
pub struct Contents {
    sources: BTreeMap<Value, Source>,
}

#[derive(Clone)]
enum Source {
    Pattern(u64),
    /// Of several writes that each covered a part.
    Mixed(Box<[u8]>),
}

impl Contents {
    /// The value of a block that is all `pattern`; write `op`'s block number `index` is
    /// `Contents::seed(op, index)`.
    pub fn pattern(&mut self, seed: u64) -> Value {
        let value = value_of(&pattern_block(seed));
        self.sources.insert(value, Source::Pattern(seed));
        value
    }

    /// The pattern of block `index` of write `op`.
    pub fn seed(op: u64, index: u64) -> u64 {
        assert!(index < 1 << 20, "a write of more than 4 GiB");
        (op << 20) | index
    }

    /// The bytes of the block that `value` names.
    pub fn bytes(&self, value: Value) -> Vec<u8> {
        match self.sources.get(&value) {
            Some(Source::Pattern(seed)) => pattern_block(*seed),
            Some(Source::Mixed(bytes)) => bytes.to_vec(),
            None => {
                assert_eq!(value, 0, "the value of no content");
                vec![0; BLOCK_BYTES]
            }
        }
    }

    /// The value of a block that held `old` and had `bytes` written to it at `at`.
    pub fn overlay(&mut self, old: Value, at: usize, bytes: &[u8]) -> Value {
        let mut block = self.bytes(old);
        block[at..at + bytes.len()].copy_from_slice(bytes);
        let value = value_of(&block);
        if value != 0 {
            self.sources.entry(value).or_insert(Source::Mixed(block.into()));
        }
        value
    }

    /// What a value is, for people.
    pub fn describe(&self, value: Value) -> String {
        match self.sources.get(&value) {
            _ if value == 0 => "zeroes".into(),
            Some(Source::Pattern(seed)) => {
                format!("block {} of op {}", seed & 0xf_ffff, seed >> 20)
            }
            Some(Source::Mixed(bytes)) => describe_bytes(bytes),
            None => format!("content {value:016x} that nobody wrote"),
        }
    }
}

/// The value of a block of bytes (the last of a volume may be short, and counts as if zeroes
/// followed).
pub(crate) fn value_of(block: &[u8]) -> Value {
    if block.iter().all(|&byte| byte == 0) {
        return 0;
    }
    if block.len() < BLOCK_BYTES {
        let mut whole = block.to_vec();
        whole.resize(BLOCK_BYTES, 0);
        return digest(&whole).max(1);
    }
    digest(block).max(1)
}

/// A block whose every sector begins with the seed, and goes on with words that only that seed
/// and place have.
pub(crate) fn pattern_block(seed: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    for index in 0..(BLOCK_BYTES / 8) as u64 {
        let word = match index % (SECTOR as u64 / 8) {
            0 => seed,
            _ => (seed ^ index << 50).wrapping_mul(0xd134_2543_de82_ef95).rotate_left(17),
        };
        block.extend_from_slice(&word.to_le_bytes());
    }
    block
}

/// Whose bytes each sector of a block seems to hold.
pub(crate) fn describe_bytes(block: &[u8]) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for (index, sector) in block.chunks(SECTOR).enumerate() {
        let seed = u64::from_le_bytes(sector[..8].try_into().expect("a sector has eight bytes"));
        let whole = &pattern_block(seed)[index * SECTOR..][..sector.len()] == sector;
        let what = match (sector.iter().all(|&byte| byte == 0), whole) {
            (true, _) => "zeroes".to_owned(),
            (_, true) => format!("op {} block {}", seed >> 20, seed & 0xf_ffff),
            _ => "a mixture".to_owned(),
        };
        match runs.last_mut() {
            Some((last, count)) if *last == what => *count += 1,
            _ => runs.push((what, 1)),
        }
    }
    let runs: Vec<String> =
        runs.iter().map(|(what, count)| format!("{count} sectors of {what}")).collect();
    format!("[{}]", runs.join(", "))
}
