//! What the victim policy is asked, and that it remembers.

use mjolnir_device::MemoryDevice;
use mjolnir_device::filter::{Call, Record};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, ReclaimOptions};

use crate::support::{BLOCK, put, run};

/// Between equals, chance decides anew each time: a policy that is made anew for each choice would
/// draw the same number again and again.
#[test]
fn a_policy_that_draws_goes_on_drawing() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(128, 64);
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await.unwrap();
        let reclaim = ReclaimOptions {
            policy: "random".into(),
            candidates_max: 1,
            start_utilization: 0.99,
            ..ReclaimOptions::default()
        };
        let options = OpenOptions { reclaim, ..OpenOptions::default() };
        let device = Record::new(device);
        let log = device.log();
        let engine = Engine::open(device, runtime, options).await.unwrap();
        let blocks = 2000;
        let volume = engine.create_volume("v", blocks * BLOCK).await.unwrap();
        for lba in (0..blocks).chain((0..blocks).step_by(2)) {
            put(&engine, volume.id, lba, lba).await.unwrap();
        }
        engine.checkpoint().await.unwrap();
        log.take();
        engine.collect().await.unwrap();
        // Before a victim is emptied, its summary is read: the first group's header first.
        let mut victims = Vec::new();
        for call in log.calls() {
            if let Call::Read { from, blocks: 1 } = call
                && from.0 % 64 == 1
                && !victims.contains(&(from.0 / 64))
            {
                victims.push(from.0 / 64);
            }
        }
        assert!(victims.len() > 20, "{victims:?}");
        let mut sorted = victims.clone();
        sorted.sort();
        let middle = sorted[sorted.len() / 2];
        let low = victims[..10].iter().filter(|zone| **zone < middle).count();
        assert!((1..10).contains(&low), "{low} of ten lie in the lower half: {victims:?}");
        engine.close().await.unwrap();
    });
}
