//! Processor time for a 4 KiB random write through the Store, checksum included, on a device in
//! memory. Run it with `cargo run --release -p mjolnir-engine --example write_cost`.

use mjolnir_device::{AlignedBuf, MemoryDevice, Runtime};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_store::{Durability, Error, Store};

fn main() -> Result<(), Error> {
    mjolnir_host::run(async |runtime| {
        let device = MemoryDevice::of_zones(160, 8192);
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await?;
        let store = Engine::open(device, runtime.clone(), OpenOptions::default()).await?;
        let blocks = 262_144u64;
        let volume = store.create_volume("v", blocks * 4096).await?;
        let payload = AlignedBuf::zeroed(4096).freeze();
        for round in 0..3 {
            let before = runtime.cpu_time();
            let count = 262_144u64;
            let mut x = 1 + round;
            for _ in 0..count {
                x = u64::wrapping_mul(x, 6364136223846793005).wrapping_add(1442695040888963407);
                let offset = (x >> 33) % blocks * 4096;
                store.write(volume.id, offset, payload.clone(), Durability::Buffered).await?;
            }
            store.flush().await?;
            let spent = runtime.cpu_time() - before;
            println!("{:.2} µs a write", spent.as_secs_f64() * 1e6 / count as f64);
        }
        let stats = store.stats();
        println!(
            "map: {:.2} bytes a block; write amplification {:.3}",
            stats.map_bytes as f64 / blocks as f64,
            stats.write_amplification
        );
        store.close().await
    })
}
