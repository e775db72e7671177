//! Clients that write as fast as they may, on a full store and a device of a fixed rate, are served
//! evenly, whatever reclaim is at.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::join_all;
use mjolnir_device::Runtime;
use mjolnir_sim::stage::put;
use mjolnir_sim::{Setting, Stage, Subject};
use mjolnir_store::Durability;
use mjolnir_units::{BLOCK_SIZE, Instant};
use mjolnir_vtime::Chance;

const CLIENTS: usize = 32;
const ZONES: u32 = 192;
const ZONE_BLOCKS: u64 = 512;
const RATE: u64 = 200 << 20;

/// The times between two completed writes, once a store that is 70 % full is overwritten at random.
fn gaps() -> Vec<Duration> {
    let mut setting = Setting::new(3);
    (setting.zones, setting.zone_blocks) = (ZONES, ZONE_BLOCKS);
    setting.delays.bytes_per_second = Some(RATE);
    setting.options.paranoid = false;
    setting.options.dirty_bytes = 4 << 20;
    let mut stage = Stage::new(setting);
    let engine = stage.open().expect("a new store opens");
    let runtime = stage.runtime().clone();
    let span = u64::from(ZONES) * ZONE_BLOCKS * 7 / 10;
    let (begun, ends) = (Cell::new(0), RefCell::new(Vec::<Instant>::new()));
    stage.play(async {
        let volume =
            Subject::create_volume(&engine, "v", span * BLOCK_SIZE).await.expect("volume").id;
        let client = async |number: usize| {
            let mut chance = Chance::new(number as u64);
            loop {
                let count = begun.replace(begun.get() + 1);
                if count == 3 * span {
                    begun.set(count);
                    break;
                }
                let block = if count < span { count } else { chance.below(span) };
                put(&engine, volume, block, count, Durability::Buffered).await.expect("a write");
                ends.borrow_mut().push(runtime.now());
                runtime.sleep(Duration::ZERO).await; // Others get their turn.
            }
        };
        join_all((0..CLIENTS).map(client)).await;
    });
    let ends = ends.into_inner();
    let steady = &ends[ends.len() / 2..];
    steady.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

#[test]
fn clients_go_on_while_reclaim_copies_nothing() {
    let gaps = gaps();
    let total: Duration = gaps.iter().sum();
    let long: Duration = gaps.iter().filter(|gap| **gap > Duration::from_millis(10)).sum();
    assert!(long < total / 100, "{long:?} of {total:?} in gaps of more than 10 ms");
}
