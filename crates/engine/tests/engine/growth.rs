//! A growth that was cut short is finished when it is asked for again, which tells all that was added; asked
//! for once more there is nothing to add.

use mjolnir_device::filter::Verb;
use mjolnir_device::{Device, MemoryDevice};
use mjolnir_engine::OpenOptions;
use mjolnir_store::ErrorKind;
use mjolnir_store::report::Growth;

use crate::support::{Held, dropped_after, fresh, open, run};

const ZONE: u64 = 64 * 4096;
const GROWN: u64 = 50 * ZONE;

/// Cut short with one verb of the device held, and asked for again in the same server.
#[test]
fn who_gave_up_and_asks_again_has_it_done() {
    for verb in [Verb::Grow, Verb::Append, Verb::Flush, Verb::WriteRoot] {
        for turns in [0, 1, 2, 50] {
            run(async |runtime| {
                let device = Held::new(MemoryDevice::of_zones(32, 64));
                let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
                device.hold(verb);
                assert!(!dropped_after(turns, engine.grow(GROWN)).await, "{verb:?} is held");
                device.release(verb);
                let growth = engine.grow(GROWN).await.unwrap();
                assert_eq!(growth, Growth { bytes: GROWN, added: 18 * ZONE }, "{verb:?} {turns}");
                assert_eq!(engine.stats().space.total_bytes, GROWN);
                let again = engine.grow(GROWN).await.unwrap();
                assert_eq!(again, Growth { bytes: GROWN, added: 0 }, "{verb:?} {turns}");
                let less = engine.grow(GROWN - 1).await.unwrap_err();
                assert_eq!(less.kind, ErrorKind::Invalid);
                assert!(less.message.contains("does not shrink"), "{less}");
                engine.close().await.unwrap();
            });
        }
    }
}

/// The device had grown, and no checkpoint told of it: the next opening takes what is new, and who asks
/// again hears of that.
#[test]
fn what_a_crash_cut_short_is_told_by_the_next_one() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 64);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        drop(engine);
        device.grow(GROWN).await.unwrap();
        let engine = open(device.crash(1), runtime.clone(), OpenOptions::default()).await.unwrap();
        assert_eq!(engine.grow(GROWN).await.unwrap().added, 18 * ZONE);
        assert_eq!(engine.grow(GROWN + ZONE).await.unwrap().added, ZONE);
        engine.close().await.unwrap();
    });
}
