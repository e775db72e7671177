//! The content of a device after a power cut, and after the end of the program alone.

use std::collections::VecDeque;

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, ZoneId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::zone::{Fate, Write, Zone, overlay_blocks};
use super::{Root, State, What};
use crate::chance::{below, one_in};
use crate::zones::ZoneTable;

/// The state found after power failed in `before`.
pub(super) fn after_cut(before: State, seed: u64) -> State {
    let mut chance = Pcg32::seed_from_u64(seed);
    // From "everything was written" to "nothing was": each cut has a mood of its own.
    let kept_of_four = below(&mut chance, 5);
    let stale = before.options.stale_after_reset;
    let zones = before.zones.into_iter();
    let zones = zones.map(|zone| cut_zone(zone, stale, kept_of_four, &mut chance)).collect();
    let mut found = before.root.durable;
    let choices = before.root.in_flight.len() as u64 + 1;
    if let Some(choice) = below(&mut chance, choices).checked_sub(1) {
        found = before.root.in_flight.into_values().nth(choice as usize);
    }
    State {
        table: ZoneTable::new(before.table.info().clone()),
        zones,
        unflushed: VecDeque::new(),
        completions: 0,
        root: Root { durable: found, ..Root::default() },
        options: before.options,
        gone: false,
    }
}

fn cut_zone(zone: Zone, stale: bool, kept_of_four: u64, chance: &mut Pcg32) -> Zone {
    // The last reset that happened; the ones after it did not, but blocks written after them may
    // be there all the same. Where resets remove nothing, it is as if none had happened.
    let last = below(chance, zone.generations.len() as u64) as usize;
    let last = if stale { 0 } else { last };
    let mut writes = overlay_blocks(&zone.generations[last..], |_, write: &Write| {
        let durable = write.fate == Fate::Durable;
        let torn = one_in(chance, 2);
        let all = below(chance, 4) < kept_of_four;
        let mut blocks = Pcg32::seed_from_u64(chance.next_u64());
        move |_| durable || if torn { below(&mut blocks, 4) < kept_of_four } else { all }
    });
    writes.iter_mut().for_each(|write| {
        write.fate = Fate::Durable;
        // Do not hold the memory of a long append for the sake of the one block left of it.
        if write.data.len() == BLOCK_BYTES {
            write.data = Bytes::copy_from_slice(&write.data);
        }
    });
    Zone::holding(writes)
}

/// The state that the next process finds when this one ended with power on.
pub(super) fn after_exit(mut before: State) -> State {
    before.table = ZoneTable::new(before.table.info().clone());
    before.gone = false;
    for number in 0..before.zones.len() {
        let id = ZoneId(number as u32);
        // Resets again, as it does no harm: in flight or not, the next flush makes them durable.
        let mut ended: Vec<(u64, What)> = before.zones[number].generations[1..]
            .iter()
            .map(|generation| (generation.number, What::Reset))
            .collect();
        for generation in &mut before.zones[number].generations {
            for (index, write) in generation.writes.iter_mut().enumerate() {
                if write.fate == Fate::InFlight {
                    write.fate = Fate::Volatile;
                    ended.push((generation.number, What::Append(index)));
                }
            }
        }
        for (generation, what) in ended {
            before.complete(id, generation, what);
        }
    }
    if let Some((_, root)) = before.root.in_flight.pop_last() {
        before.root.durable = Some(root);
    }
    before.root.in_flight.clear();
    before
}
