//! The `format` command.

use std::path::Path;

use mjolnir_engine::SEGMENTS_MIN;
use mjolnir_host::{HostRuntime, NewStore, create_store, default_segment_bytes, run as run_host};
use mjolnir_store::{Error, ErrorKind};
use serde_json::json;

use crate::arguments::FormatOptions;
use crate::door;
use crate::failure::Failure;
use crate::output;

/// Makes a store, and says what to do next.
pub fn run(options: &FormatOptions, json: bool) -> Result<(), Failure> {
    let store = &options.store;
    refuse_destruction(store, options.force)?;
    let new = NewStore {
        bytes: options.size,
        segment_bytes: options.segment_size,
        preallocate: options.preallocate,
        overwrite: options.force,
    };
    let shape = run_host(async |runtime: HostRuntime| {
        create_store(store, new, &runtime).await.map_err(|error| match error.kind {
            ErrorKind::Busy => door::busy(store, Some(&error)),
            // In the command line's words.
            kind => Error::new(
                kind,
                error.message.replace("ask to overwrite it", "destroy it with --force"),
            ),
        })
    })?;
    let bytes = shape.segments * shape.segment_bytes;
    if json {
        return output::print_json(&json!({
            "store": store.display().to_string(),
            "bytes": bytes,
            "segments": shape.segments,
            "segment_bytes": shape.segment_bytes,
            "zoned": shape.zoned,
        }));
    }
    let fits = volume_bytes(bytes, shape.segment_bytes);
    let size = match fits >> 30 {
        0..16 => format!("{}M", (fits >> 20).max(1)),
        gib => format!("{gib}G"),
    };
    let (mut socket, name) = (store.as_os_str().to_owned(), output::quoted(store));
    socket.push(".sock");
    let socket = output::quoted(Path::new(&socket));
    output::print(&format!(
        "made {}: {} in {} of {}{}\nnext:\n  \
         mjolnir volume create {name} v --size {size}\n  \
         mjolnir serve {name} --nbd unix:{socket}\n",
        store.display(),
        output::bytes(bytes),
        output::count(shape.segments, "segment"),
        output::bytes(shape.segment_bytes),
        if shape.zoned { ", the zones of a zoned device but for two" } else { "" },
    ))
}

/// The part of a store that a volume which is to be filled may have, and reclaim have room left.
/// Volumes are thin and may be larger.
const FILLED: (u64, u64) = (3, 4);
/// Segments that clients' data never fill: kept for reclaim and checkpoints, begun, and before the first one. In a
/// small store they are much of it; of the others a volume may have the part that follows.
const KEPT_SEGMENTS: u64 = 10;
const FILLED_BESIDES: (u64, u64) = (7, 8);
/// The least that a store is made of: what the engine takes, and what lies before it.
const SEGMENTS_LEAST: u64 = SEGMENTS_MIN as u64 + 1;

/// The largest volume that a store of so many bytes takes in whole.
fn volume_bytes(store: u64, segment: u64) -> u64 {
    let besides = store.saturating_sub(KEPT_SEGMENTS * segment);
    (store / FILLED.1 * FILLED.0).min(besides / FILLED_BESIDES.1 * FILLED_BESIDES.0)
}

/// Bytes of a store, with segments of the usual size, that takes in a volume of so many.
pub fn store_bytes(volume: u64) -> u64 {
    let mut store = volume.div_ceil(FILLED.0) * FILLED.1;
    loop {
        let segment = default_segment_bytes(store);
        let filled = volume.div_ceil(FILLED_BESIDES.0) * FILLED_BESIDES.1;
        let least = (filled + KEPT_SEGMENTS * segment).max(SEGMENTS_LEAST * segment);
        if least <= store {
            return store;
        }
        store = least; // Its segments may be larger, then.
    }
}

fn refuse_destruction(store: &Path, force: bool) -> Result<(), Error> {
    let name = store.display();
    if door::knock(store).is_ok_and(|server| server.is_some()) {
        return Err(Error::new(
            ErrorKind::Busy,
            format!(
                "{name} is being served, so it cannot be formatted; stop its server first, or \
                 choose another path"
            ),
        ));
    }
    match store.metadata() {
        Ok(meta) if meta.is_file() && meta.len() > 0 && !force => Err(Error::new(
            ErrorKind::Exists,
            format!(
                "{name} exists and holds {}, which would be lost; choose another path, or destroy \
                 it with --force",
                output::bytes(meta.len())
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mjolnir_host::{DeviceOptions, Warm, open_store};
    use mjolnir_store::{Durability, Store};
    use mjolnir_units::BLOCK_SIZE;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_store_that_takes_in_a_volume_takes_it_in() {
        for volume in [1, 5, 13, 29, 40, 100, 300, 1_000, 5_000, 100_000].map(|mib| mib * MIB) {
            let store = store_bytes(volume);
            assert!(volume_bytes(store, default_segment_bytes(store)) >= volume, "{volume}");
            assert!(store >= 17 * MIB, "smaller ones cannot be made");
            let less = store - store / 16;
            assert!(
                store == 17 * MIB || volume_bytes(less, default_segment_bytes(less)) < volume,
                "{volume}: {store}"
            );
        }
    }

    /// The smallest stores keep most of their segments to themselves.
    #[test]
    fn a_volume_of_the_size_that_is_told_can_be_filled_and_written_over() {
        let folder = tempfile::tempdir().unwrap();
        for mib in [17, 20, 39, 64] {
            let path = folder.path().join(format!("{mib}.mj"));
            run_host(async |runtime: HostRuntime| {
                let new = NewStore {
                    bytes: Some(mib * MIB),
                    segment_bytes: None,
                    preallocate: false,
                    overwrite: false,
                };
                let shape = create_store(&path, new, &runtime).await.unwrap();
                let opened = open_store(
                    &path,
                    DeviceOptions::default(),
                    Default::default(),
                    &Warm::Off,
                    &runtime,
                    |_| (),
                );
                let engine = opened.await.unwrap().engine;
                let bytes = shape.segments * shape.segment_bytes;
                let size = volume_bytes(bytes, shape.segment_bytes) / BLOCK_SIZE * BLOCK_SIZE;
                let volume = engine.create_volume("v", size).await.unwrap().id;
                let blocks = size / BLOCK_SIZE;
                let data = Bytes::from(vec![1; BLOCK_SIZE as usize]);
                for write in 0..3 * blocks {
                    // In order, and then scattered.
                    let block = if write < blocks { write } else { write * 7919 % blocks };
                    let offset = block * BLOCK_SIZE;
                    let written =
                        engine.write(volume, offset, data.clone(), Durability::Buffered).await;
                    written
                        .unwrap_or_else(|error| panic!("{mib} MiB, {write} of {blocks}: {error}"));
                }
                engine.flush().await.unwrap();
                engine.close().await.unwrap();
            });
        }
    }
}
