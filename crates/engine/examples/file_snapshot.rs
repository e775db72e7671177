//! File snapshots (ANViL, FAST'15): a snapshot of one file among many, by cloning the range of the
//! volume where it lies. A clone of any length costs the same, and takes no space until one of the
//! two is overwritten.
//!
//! Run it with `cargo run -p mjolnir-engine --example file_snapshot`.

use bytes::Bytes;
use mjolnir_device::MemoryDevice;
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_store::{Chunk, Durability, Error, Op, Store};

const BLOCK: u64 = 4096;

fn main() -> Result<(), Error> {
    mjolnir_host::run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 256);
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await?;
        let store = Engine::open(device, runtime, OpenOptions::default()).await?;
        let volume = store.create_volume("fs", 1 << 40).await?;

        // A file whose extents lie at two places, as a file system's allocator left them.
        let extents = [(0u64, 64 * BLOCK), (500 * BLOCK, 32 * BLOCK)];
        for (offset, length) in extents {
            let data = Bytes::from(vec![b'1'; length as usize]);
            store.write(volume.id, offset, data, Durability::Buffered).await?;
        }

        // Its snapshot lies elsewhere in the same volume: both extents in one atomic vector.
        let snapshot = 1u64 << 30;
        let clones = extents.iter().map(|(offset, length)| Op::Clone {
            from: volume.id,
            from_offset: *offset,
            to: volume.id,
            to_offset: snapshot + offset,
            length: *length,
        });
        store.atomic(clones.collect(), Durability::Durable).await?;

        // The file changes; its snapshot does not.
        let change = Bytes::from(vec![b'2'; BLOCK as usize]);
        store.write(volume.id, 3 * BLOCK, change, Durability::Buffered).await?;
        for (what, base) in [("file", 0), ("snapshot", snapshot)] {
            let chunks = store.read(volume.id, base + 3 * BLOCK, 1).await?;
            let [Chunk::Data(byte)] = chunks.as_slice() else { panic!("one chunk") };
            println!("{what}: block 3 starts with {:?}", byte[0] as char);
        }
        store.close().await
    })
}
