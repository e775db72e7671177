//! Tests of losses by a power cut: random histories against a model that has, for each block, every
//! content that the contract permits.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_lite::future::{block_on, poll_once};
use mjolnir_units::BLOCK_BYTES;
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use super::*;
use crate::chance::{below, one_in};

const ZONES: u32 = 3;
const ZONE_BLOCKS: u64 = 6;

/// A block whose every byte tells `tag`; tag 0 is a block never written.
fn block(tag: u8) -> Vec<u8> {
    vec![tag; BLOCK_BYTES]
}

fn tag_at(device: &MemoryDevice, pba: u64) -> u8 {
    let buffer = block_on(device.read(Pba(pba), AlignedBuf::zeroed(BLOCK_BYTES))).unwrap();
    let tag = buffer.as_ref()[0];
    assert!(buffer.as_ref().iter().all(|&byte| byte == tag), "block {pba} is torn");
    tag
}

/// Drives one random history; returns the device and, for each block, the tags that may be found
/// after a power cut.
fn random_history(seed: u64, options: MemoryOptions) -> (MemoryDevice, Vec<BTreeSet<u8>>) {
    let mut chance = Pcg32::seed_from_u64(seed);
    let info = MemoryDevice::of_zones(ZONES, ZONE_BLOCKS).info();
    let device = MemoryDevice::with_options(info, options);
    let mut allowed = vec![BTreeSet::from([0]); (u64::from(ZONES) * ZONE_BLOCKS) as usize];
    // What the block holds now, and whether the change that put it there has completed.
    let mut now = vec![(0u8, true); allowed.len()];
    let mut pointers: Vec<Option<u64>> = vec![None; ZONES as usize];
    let mut tag = 0;
    for _ in 0..below(&mut chance, 40) {
        let zone = below(&mut chance, u64::from(ZONES));
        let blocks = zone * ZONE_BLOCKS..(zone + 1) * ZONE_BLOCKS;
        match below(&mut chance, 8) {
            0 => {
                block_on(device.reset(ZoneId(zone as u32))).unwrap();
                pointers[zone as usize] = Some(0);
                if !options.stale_after_reset {
                    for at in blocks {
                        allowed[at as usize].insert(0);
                        now[at as usize] = (0, true);
                    }
                }
            }
            1 => {
                block_on(device.flush()).unwrap();
                for (allowed, now) in allowed.iter_mut().zip(&now) {
                    if now.1 {
                        *allowed = BTreeSet::from([now.0]);
                    }
                }
            }
            _ => {
                let Some(pointer) = pointers[zone as usize] else { continue };
                let count = (1 + below(&mut chance, 3)).min(ZONE_BLOCKS - pointer);
                if count == 0 {
                    continue;
                }
                let at = blocks.start + pointer;
                let mut data = Vec::new();
                let completes = !one_in(&mut chance, 5);
                for pba in at..at + count {
                    tag += 1;
                    data.push(Bytes::from(block(tag)));
                    allowed[pba as usize].insert(tag);
                    // Otherwise it hangs in flight for ever, and no flush covers it.
                    now[pba as usize] = (tag, completes);
                }
                let append = device.append(Pba(at), data);
                if completes {
                    assert_eq!(block_on(append), Ok(Pba(at)));
                }
                pointers[zone as usize] = Some(pointer + count);
            }
        }
    }
    (device, allowed)
}

#[test]
fn a_power_cut_leaves_only_what_the_contract_allows() {
    let (mut outcomes, mut possible) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..600 {
        let options =
            MemoryOptions { stale_after_reset: seed % 2 == 1, ..MemoryOptions::default() };
        let (device, allowed) = random_history(seed / 3, options);
        let found = device.crash(seed);
        assert_eq!(block_on(device.flush()).unwrap_err().kind, ErrorKind::Gone);
        for (pba, allowed) in allowed.iter().enumerate() {
            let tag = tag_at(&found, pba as u64);
            assert!(
                allowed.contains(&tag),
                "seed {seed}: block {pba} holds {tag}, allowed were {allowed:?}"
            );
            if allowed.len() > 1 {
                outcomes.insert((seed / 3, seed % 2, pba, tag));
                possible.extend(allowed.iter().map(|tag| (seed / 3, seed % 2, pba, *tag)));
            }
        }
        // What is found is durable: a second cut takes nothing.
        let again = found.crash(seed + 1);
        for (pba, allowed) in allowed.iter().enumerate() {
            assert!(allowed.contains(&tag_at(&again, pba as u64)), "seed {seed}");
        }
    }
    // The device is to use its freedom, not only to stay within it.
    assert!(outcomes.len() * 3 > possible.len(), "{} of {}", outcomes.len(), possible.len());
}

#[test]
fn the_same_seed_gives_the_same_wreck() {
    for seed in 0..20 {
        let wreck = |_| {
            let (device, allowed) = random_history(seed, MemoryOptions::default());
            let found = device.crash(seed);
            (0..allowed.len() as u64).map(|pba| tag_at(&found, pba)).collect::<Vec<_>>()
        };
        assert_eq!(wreck(1), wreck(2), "seed {seed}");
    }
}

/// An append of four blocks, whose power is cut before any flush: over many seeds every subset
/// of them is found.
#[test]
fn an_append_is_torn_between_blocks_in_every_way() {
    let mut subsets = BTreeSet::new();
    for seed in 0..400 {
        let device = MemoryDevice::of_zones(1, 4);
        block_on(device.reset(ZoneId(0))).unwrap();
        block_on(device.append(Pba(0), vec![Bytes::from(block(1).repeat(4))])).unwrap();
        let found = device.crash(seed);
        subsets.insert((0..4).map(|pba| tag_at(&found, pba)).collect::<Vec<_>>());
    }
    assert_eq!(subsets.len(), 16);
}

/// A flush covers the appends that completed before it was called, not those that complete while
/// it runs.
#[test]
fn a_flush_does_not_cover_what_completes_after_its_call() {
    let mut lost = 0;
    for seed in 0..50 {
        let device = MemoryDevice::of_zones(1, 4);
        block_on(device.reset(ZoneId(0))).unwrap();
        block_on(device.append(Pba(0), vec![Bytes::from(block(1))])).unwrap();
        let second = device.append(Pba(1), vec![Bytes::from(block(2))]);
        let flush = device.flush();
        block_on(second).unwrap();
        block_on(flush).unwrap();
        let found = device.crash(seed);
        assert_eq!(tag_at(&found, 0), 1, "seed {seed}");
        lost += u32::from(tag_at(&found, 1) == 0);
    }
    assert!(lost > 0, "the second append was never lost");
}

#[test]
fn a_root_in_flight_is_found_or_not_and_a_complete_one_always_is() {
    let mut found_roots = BTreeSet::new();
    for seed in 0..50 {
        let device = MemoryDevice::of_zones(1, 4);
        block_on(device.write_root(Bytes::from_static(b"old"))).unwrap();
        let _in_flight = device.write_root(Bytes::from_static(b"new"));
        found_roots.insert(block_on(device.crash(seed).read_root()).unwrap().unwrap());
    }
    assert_eq!(found_roots.len(), 2);
    assert!(found_roots.contains("old".as_bytes()) && found_roots.contains("new".as_bytes()));
}

#[test]
fn roots_that_complete_out_of_order_leave_the_last_one_called() {
    let device = MemoryDevice::of_zones(1, 4);
    let first = device.write_root(Bytes::from_static(b"first"));
    let second = device.write_root(Bytes::from_static(b"second"));
    block_on(second).unwrap();
    block_on(first).unwrap();
    assert_eq!(block_on(device.read_root()).unwrap().unwrap(), "second".as_bytes());
    assert_eq!(block_on(device.crash(1).read_root()).unwrap().unwrap(), "second".as_bytes());
}

#[test]
fn an_append_in_flight_is_not_read_and_fails_when_the_power_goes() {
    let device = MemoryDevice::of_zones(1, 4);
    block_on(device.reset(ZoneId(0))).unwrap();
    let mut append = pin!(device.append(Pba(0), vec![Bytes::from(block(1))]));
    assert_eq!(tag_at(&device, 0), 0);
    device.cut_power();
    let outcome = block_on(poll_once(&mut append)).expect("it does not wait for ever");
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Gone);
}

#[test]
fn the_end_of_the_program_loses_nothing_and_makes_nothing_durable() {
    let mut lost = 0;
    for seed in 0..50 {
        let device = MemoryDevice::of_zones(1, 4);
        block_on(device.reset(ZoneId(0))).unwrap();
        block_on(device.append(Pba(0), vec![Bytes::from(block(1))])).unwrap();
        let next = device.reopen();
        assert_eq!(tag_at(&next, 0), 1);
        lost += u32::from(tag_at(&next.crash(seed), 0) == 0);
    }
    assert!(lost > 0);
}

/// Where a zone is one object, a flush does nothing for an open zone and the seal does it all.
#[test]
fn where_sealing_is_durable_only_the_seal_counts() {
    let mut info = MemoryDevice::of_zones(1, 4).info();
    info.sealing = Sealing::Durable;
    let mut lost = 0;
    for seed in 0..50 {
        for sealed in [false, true] {
            let device = MemoryDevice::new(info.clone());
            block_on(device.reset(ZoneId(0))).unwrap();
            block_on(device.append(Pba(0), vec![Bytes::from(block(1))])).unwrap();
            block_on(device.flush()).unwrap();
            if sealed {
                block_on(device.seal(ZoneId(0))).unwrap();
            }
            let kept = tag_at(&device.crash(seed), 0) == 1;
            assert!(kept || !sealed, "seed {seed}: a sealed block was lost");
            lost += u32::from(!kept);
        }
    }
    assert!(lost > 0);
}
