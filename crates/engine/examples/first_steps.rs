//! The engine as a library: a store in memory, a volume, a snapshot, a clone, and what differs.
//!
//! A real store takes `mjolnir_backends::FileDevice` instead of `MemoryDevice`; nothing else
//! changes. Run it with `cargo run -p mjolnir-engine --example first_steps`.

use bytes::Bytes;
use mjolnir_device::MemoryDevice;
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_store::{Chunk, Durability, Error, Store};

fn main() -> Result<(), Error> {
    mjolnir_host::run(async |runtime| {
        // 64 segments of 1 MiB.
        let device = MemoryDevice::of_zones(64, 256);
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await?;
        let store = Engine::open(device, runtime, OpenOptions::default()).await?;

        let volume = store.create_volume("data", 1 << 40).await?; // thin: takes no space
        store.write(volume.id, 0, Bytes::from("before"), Durability::Durable).await?;
        let snapshot = store.create_snapshot("data", "monday").await?;
        store.write(volume.id, 0, Bytes::from("after!"), Durability::Buffered).await?;
        let copy = store.clone_volume("data@monday", "copy").await?;

        for target in [&volume, &snapshot, &copy] {
            let chunks = store.read(target.id, 0, 6).await?;
            let [Chunk::Data(bytes)] = chunks.as_slice() else { panic!("one chunk") };
            println!("{:12} {:?}", target.name, std::str::from_utf8(bytes).unwrap_or("?"));
        }
        for extent in store.diff("data@monday", "data", 0, 10).await?.extents {
            println!("changed since monday: {} bytes at {}", extent.length, extent.offset);
        }
        store.close().await
    })
}
