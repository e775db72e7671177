//! What one client asks for holds up nobody, and holds no more memory than it is counted for.

use bytes::Bytes;
use futures_lite::future::poll_once;
use mjolnir_device::MemoryDevice;
use mjolnir_engine::OpenOptions;
use mjolnir_store::{Durability, Store};

use crate::support::{BLOCK, fresh, put, run, soon, turns};

/// Block status, what a listing shows as mapped, and a cache request go through as many mappings as there
/// are, all of them in memory.
#[test]
fn walks_of_a_large_map_let_others_have_their_turn() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        const BLOCKS: u64 = 16 * 1024;
        let volume = engine.create_volume("v", BLOCKS * BLOCK).await.unwrap().id;
        for lba in (0..BLOCKS).step_by(2) {
            soon("a write", put(&engine, volume, lba, lba)).await.unwrap();
        }
        let length = BLOCKS * BLOCK;
        let all = engine.extents(volume, 0, length, usize::MAX).await.unwrap();
        assert_eq!(all.len() as u64, BLOCKS, "each block is an extent");
        assert!(poll_once(engine.extents(volume, 0, length, usize::MAX)).await.is_none());
        assert!(poll_once(engine.cache(volume, 0, length)).await.is_none());
        assert!(poll_once(engine.mapped("v")).await.is_none());
        assert_eq!(engine.mapped("v").await.unwrap(), length / 2);
        soon("caching", engine.cache(volume, 0, length)).await.unwrap();
        soon("closing", engine.close()).await.unwrap();
    });
}

/// A client that does not fetch its replies would else hold all of the write that it read a byte of,
/// while it is counted for a byte.
#[test]
fn what_is_read_of_a_write_does_not_hold_the_write() {
    run(async |runtime| {
        let device = MemoryDevice::of_zones(32, 1024);
        let engine = fresh(|| device.clone(), &runtime, OpenOptions::default()).await;
        let volume = engine.create_volume("v", 1024 * BLOCK).await.unwrap().id;
        let data = Bytes::from(vec![7; 300 * BLOCK as usize]);
        engine.write(volume, 0, data.clone(), Durability::Buffered).await.unwrap();
        let mut replies = Vec::new();
        for lba in [0, 100, 299] {
            replies.push(engine.read(volume, lba * BLOCK + 5, 1).await.unwrap());
        }
        assert!(!data.is_unique(), "the store has it on its way to the medium");
        engine.flush().await.unwrap();
        turns(100).await;
        assert!(data.is_unique(), "a reply holds it");
        soon("closing", engine.close()).await.unwrap();
    });
}
