//! One zone in memory: its appended blocks since each reset.

use std::collections::BTreeMap;

use bytes::Bytes;
use mjolnir_units::BLOCK_BYTES;

use super::MemoryOptions;

/// The appends of a zone since its last durable reset, in generations that resets divide.
///
/// Invariants: there is always a generation; within one, writes are in address order and do not
/// overlap; only the first generation has durable writes (where resets leave stale bytes, the
/// first two).
pub(super) struct Zone {
    pub generations: Vec<Generation>,
    next_number: u64,
}

#[derive(Default)]
pub(super) struct Generation {
    pub number: u64,
    pub writes: Vec<Write>,
}

#[derive(Clone)]
pub(super) struct Write {
    /// In blocks from the start of the zone.
    pub offset: u64,
    pub data: Bytes,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    InFlight,
    Volatile,
    Durable,
}

impl Default for Zone {
    fn default() -> Self {
        Zone::holding(Vec::new())
    }
}

impl Write {
    pub fn blocks(&self) -> u64 {
        (self.data.len() / BLOCK_BYTES) as u64
    }

    fn block(&self, index: u64) -> &[u8] {
        let start = index as usize * BLOCK_BYTES;
        &self.data[start..start + BLOCK_BYTES]
    }
}

impl Generation {
    /// The bytes of a block that a read may see.
    fn visible(&self, offset: u64) -> Option<&[u8]> {
        let after = self.writes.partition_point(|write| write.offset <= offset);
        let write = &self.writes[after.checked_sub(1)?];
        let index = offset - write.offset;
        (write.fate != Fate::InFlight && index < write.blocks()).then(|| write.block(index))
    }
}

impl Zone {
    /// A zone with one generation of those writes.
    pub fn holding(writes: Vec<Write>) -> Self {
        Zone { generations: vec![Generation { number: 0, writes }], next_number: 1 }
    }

    /// The number of the present generation.
    pub fn generation(&self) -> u64 {
        self.last().number
    }

    fn last(&self) -> &Generation {
        self.generations.last().expect("there is always a generation")
    }

    /// Adds an append in flight; returns where [`complete`](Zone::complete) finds it.
    pub fn append(&mut self, offset: u64, data: Bytes) -> (u64, usize) {
        let generation = self.generations.last_mut().expect("there is always a generation");
        let end = generation.writes.last().map_or(0, |write| write.offset + write.blocks());
        assert!(offset >= end, "appends overlap");
        generation.writes.push(Write { offset, data, fate: Fate::InFlight });
        (generation.number, generation.writes.len() - 1)
    }

    /// Makes an append again that failed: its blocks may hold anything by now.
    pub fn append_again(&mut self, offset: u64, data: Bytes) -> (u64, usize) {
        let generation = self.generations.last_mut().expect("there is always a generation");
        let index = generation.writes.partition_point(|write| write.offset < offset);
        let write = &mut generation.writes[index];
        assert_eq!((write.offset, write.data.len()), (offset, data.len()), "it is another append");
        *write = Write { offset, data, fate: Fate::InFlight };
        (generation.number, index)
    }

    /// The write, unless a durable reset took its generation.
    fn write(&mut self, generation: u64, index: usize) -> Option<&mut Write> {
        let generation = self.generations.iter_mut().find(|other| other.number == generation)?;
        Some(&mut generation.writes[index])
    }

    pub fn complete(&mut self, generation: u64, index: usize) {
        if let Some(write) = self.write(generation, index) {
            write.fate = Fate::Volatile;
        }
    }

    pub fn harden(&mut self, generation: u64, index: usize) {
        if let Some(write) = self.write(generation, index) {
            write.fate = Fate::Durable;
        }
    }

    /// Begins a generation; returns its number.
    pub fn reset(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.generations.push(Generation { number, writes: Vec::new() });
        number
    }

    /// The reset that began `generation` is durable: what came before is lost for good.
    pub fn harden_reset(&mut self, generation: u64, options: MemoryOptions) {
        let Some(at) = self.generations.iter().position(|other| other.number == generation) else {
            return;
        };
        let before: Vec<Generation> = self.generations.drain(..at).collect();
        if options.stale_after_reset && at > 0 {
            // The bytes stay where they are; they become the durable past of the generation.
            let number = before[at - 1].number;
            let mut writes = overlay(&before, |_, write| write.fate != Fate::InFlight);
            writes.iter_mut().for_each(|write| write.fate = Fate::Durable);
            self.generations.insert(0, Generation { number, writes });
        }
    }

    /// The seal made the whole generation durable, with the reset before it.
    pub fn harden_sealed(&mut self, generation: u64, options: MemoryOptions) {
        self.harden_reset(generation, options);
        if let Some(sealed) = self.generations.iter_mut().find(|other| other.number == generation) {
            sealed.writes.iter_mut().for_each(|write| {
                if write.fate == Fate::Volatile {
                    write.fate = Fate::Durable;
                }
            });
        }
    }

    /// Fills `buffer` with the blocks from `offset` on.
    pub fn read(&self, offset: u64, buffer: &mut [u8], options: MemoryOptions) {
        for (index, into) in buffer.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let past = if options.stale_after_reset { self.generations.len() } else { 1 };
            let found = self.generations.iter().rev().take(past);
            match found.filter_map(|found| found.visible(offset + index as u64)).next() {
                Some(block) => into.copy_from_slice(block),
                None => into.fill(0),
            }
        }
    }
}

/// What is on the medium when of all these generations, oldest first, exactly the blocks that
/// `keep` (called once for each write, in order) admits got there: later ones hide earlier ones.
pub(super) fn overlay(
    generations: &[Generation],
    mut keep: impl FnMut(usize, &Write) -> bool,
) -> Vec<Write> {
    overlay_blocks(generations, |generation, write| {
        let keep = keep(generation, write);
        move |_| keep
    })
}

/// As [`overlay`], but what `choose` returns for a write decides block by block.
pub(super) fn overlay_blocks<C: FnMut(u64) -> bool>(
    generations: &[Generation],
    mut choose: impl FnMut(usize, &Write) -> C,
) -> Vec<Write> {
    let mut cells = BTreeMap::new();
    for (g, generation) in generations.iter().enumerate() {
        for (w, write) in generation.writes.iter().enumerate() {
            let mut keep = choose(g, write);
            for index in 0..write.blocks() {
                if keep(index) {
                    cells.insert(write.offset + index, (g, w));
                }
            }
        }
    }
    // Join neighbours that are neighbours in one write, so that its memory is shared.
    let mut writes: Vec<Write> = Vec::new();
    let mut last = None;
    for (offset, (g, w)) in cells {
        let write = &generations[g].writes[w];
        let start = (offset - write.offset) as usize * BLOCK_BYTES;
        match writes.last_mut() {
            Some(run) if last == Some((g, w)) && run.offset + run.blocks() == offset => {
                let from = (run.offset - write.offset) as usize * BLOCK_BYTES;
                run.data = write.data.slice(from..start + BLOCK_BYTES);
            }
            _ => writes.push(Write {
                offset,
                data: write.data.slice(start..start + BLOCK_BYTES),
                fate: write.fate,
            }),
        }
        last = Some((g, w));
    }
    writes
}
