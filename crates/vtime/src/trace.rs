//! What happened, as a hash that proves repetition and a tail that explains a failure.

use std::collections::VecDeque;

use mjolnir_units::Instant;

const TAIL: usize = 60;

/// Every event of a run, hashed; the last few, kept.
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    tail: VecDeque<Event>,
    /// Print events as they happen.
    pub loud: bool,
}

struct Event {
    at: Instant,
    what: &'static str,
    words: [u64; 3],
}

impl Trace {
    pub fn new(loud: bool) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, events: 0, tail: VecDeque::new(), loud }
    }

    pub fn add(&mut self, at: Instant, what: &'static str, words: [u64; 3]) {
        self.mix(at.0);
        what.bytes().for_each(|byte| self.mix(u64::from(byte)));
        words.iter().for_each(|&word| self.mix(word));
        self.events += 1;
        let event = Event { at, what, words };
        if self.loud {
            println!("{}", event.line());
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(event);
    }

    /// Adds to the hash what would only clutter the tail.
    pub fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn tail(&self) -> Vec<String> {
        self.tail.iter().map(Event::line).collect()
    }
}

impl Event {
    fn line(&self) -> String {
        let [a, b, c] = self.words;
        format!("{:>14} ns  {:<12} {a} {b} {c}", self.at.0, self.what)
    }
}

/// A 64-bit digest of bytes; equal digests are taken for equal bytes by all that use it.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hash = 0x51_7c_c1_b7_27_22_0a_95 ^ bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    for &byte in words.remainder() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    hash ^ (hash >> 32)
}
