//! A store in memory: what was written is read back, across overwrites, reclaim and reopening.

use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Store};

use crate::support::{Random, flat, format, open, payload, run};

#[test]
fn overwrites_reclaim_and_reopening_keep_the_newest_bytes() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(32, 128);
        format(device.clone(), &runtime).await;
        let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
        let mut versions = vec![0u64; 1500];
        for round in 0..3u64 {
            let engine = open(device.clone(), runtime.clone(), options.clone()).await.unwrap();
            let volume = if round == 0 {
                engine.create_volume("v", 1500 * 4096).await.unwrap()
            } else {
                engine.find("v").unwrap()
            };
            let mut random = Random(round + 1);
            for step in 0..6000u64 {
                let lba = random.below(1500);
                let tag = round * 100_000 + step + 1;
                engine
                    .write(volume.id, lba * 4096, payload(tag, 1), Durability::Buffered)
                    .await
                    .unwrap();
                versions[lba as usize] = tag;
            }
            for (lba, tag) in versions.iter().enumerate() {
                let bytes = flat(engine.read(volume.id, lba as u64 * 4096, 4096).await.unwrap());
                let expected = if *tag == 0 { vec![0; 4096] } else { payload(*tag, 1).to_vec() };
                assert_eq!(bytes[..8], expected[..8], "lba {lba} in round {round}");
            }
            let report = engine.check().await.unwrap();
            assert_eq!(report.problems, Vec::<String>::new());
            let scrub = engine.scrub(|_| ()).await.unwrap();
            assert_eq!(scrub.damage, Vec::<String>::new());
            let stats = engine.stats();
            assert!(stats.segments_reclaimed > 0);
            engine.close().await.unwrap();
            device = device.reopen();
        }
    });
}
