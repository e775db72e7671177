//! Single-write journaling (ANViL, FAST'15): a file system's journal writes each block twice, once
//! to the journal and once in place. With remapping it is written once: commit moves the journal's
//! blocks into place with one atomic vector, which writes no data at all.
//!
//! Run it with `cargo run -p mjolnir-engine --example single_write_journal`.

use bytes::Bytes;
use mjolnir_device::MemoryDevice;
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_store::{Durability, Error, Op, Store};

const BLOCK: u64 = 4096;
/// Where the journal lies in the volume, out of the way of the data.
const JOURNAL: u64 = 1 << 30;

fn main() -> Result<(), Error> {
    mjolnir_host::run(async |runtime| {
        let device = MemoryDevice::of_zones(64, 256);
        Engine::format(device.clone(), runtime.clone(), FormatOptions::default()).await?;
        let store = Engine::open(device, runtime, OpenOptions::default()).await?;
        let volume = store.create_volume("fs", 2 << 30).await?;

        // A transaction of the file system: three scattered blocks that must change together.
        let homes = [7u64, 1000, 52_000];
        for (slot, home) in homes.iter().enumerate() {
            let data = Bytes::from(vec![*home as u8; BLOCK as usize]);
            let at = JOURNAL + slot as u64 * BLOCK;
            store.write(volume.id, at, data, Durability::Buffered).await?;
        }
        let written = store.stats().accepted_write_bytes;

        // Commit: journal blocks move to their homes, all or none, and the journal is empty again.
        let moves = homes.iter().enumerate().map(|(slot, home)| Op::Move {
            from: volume.id,
            from_offset: JOURNAL + slot as u64 * BLOCK,
            to: volume.id,
            to_offset: home * BLOCK,
            length: BLOCK,
        });
        store.atomic(moves.collect(), Durability::Durable).await?;

        assert_eq!(store.stats().accepted_write_bytes, written, "commit wrote no data");
        for home in homes {
            let chunks = store.read(volume.id, home * BLOCK, 1).await?;
            assert_eq!(
                chunks[..],
                [mjolnir_store::Chunk::Data(Bytes::from(vec![home as u8]).into())]
            );
        }
        println!("committed {} blocks; each was written once ({written} bytes)", homes.len());
        store.close().await
    })
}
