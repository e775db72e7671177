//! A store in memory: what was written is read back, across overwrites, reclaim and reopening.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use async_executor::LocalExecutor;
use bytes::Bytes;
use mjolnir_device::{AlignedBuf, MemoryDevice, Runtime};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_store::{Chunk, Durability, Store};
use mjolnir_units::Instant;

/// A world whose clock moves one microsecond each time it is asked.
#[derive(Clone)]
struct Tick {
    executor: Rc<LocalExecutor<'static>>,
    now: Rc<Cell<u64>>,
}

impl Runtime for Tick {
    fn now(&self) -> Instant {
        self.now.set(self.now.get() + 1000);
        Instant(self.now.get())
    }
    fn sleep(&self, _duration: Duration) -> impl Future<Output = ()> + 'static {
        async {
            for _ in 0..3 {
                futures_lite::future::yield_now().await;
            }
        }
    }
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.executor.spawn(task).detach();
    }
    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + 'static {
        async move { job() }
    }
    fn parallelism(&self) -> usize {
        1
    }
    fn random(&self) -> u64 {
        4
    }
    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }
}

fn run<T>(main: impl AsyncFnOnce(Tick) -> T) -> T {
    let executor = Rc::new(LocalExecutor::new());
    let runtime = Tick { executor: executor.clone(), now: Rc::new(Cell::new(0)) };
    futures_lite::future::block_on(executor.run(main(runtime)))
}

fn payload(tag: u64, blocks: usize) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(blocks * 4096);
    for (index, word) in buffer.as_mut().chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(tag * 1_000_003 + index as u64 / 512).to_le_bytes());
    }
    buffer.freeze()
}

fn flat(chunks: Vec<Chunk>) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Data(bytes) => out.extend_from_slice(&bytes),
            Chunk::Zeroes(length) => out.resize(out.len() + length as usize, 0),
        }
    }
    out
}

#[test]
fn overwrites_reclaim_and_reopening_keep_the_newest_bytes() {
    run(async |runtime| {
        let mut device = MemoryDevice::of_zones(32, 128);
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await.unwrap();
        let options = OpenOptions { paranoid: true, ..OpenOptions::default() };
        let mut versions = vec![0u64; 1500];
        for round in 0..3u64 {
            let engine =
                Engine::open(device.clone(), runtime.clone(), options.clone()).await.unwrap();
            let volume = if round == 0 {
                engine.create_volume("v", 1500 * 4096).await.unwrap()
            } else {
                engine.find("v").unwrap()
            };
            let mut x = round + 1;
            for step in 0..6000u64 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let lba = (x >> 33) % 1500;
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
            println!("{:#?}", stats);
            assert!(stats.segments_reclaimed > 0);
            engine.close().await.unwrap();
            device = device.reopen();
        }
    });
}
