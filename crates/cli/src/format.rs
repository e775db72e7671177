//! The `format` command.

use std::path::Path;

use mjolnir_host::{HostRuntime, NewStore, create_store, run as run_host};
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
            ErrorKind::Busy => door::busy(store),
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
        }));
    }
    let fits = volume_bytes(bytes);
    let size = match fits >> 30 {
        0..16 => format!("{}M", (fits >> 20).max(1)),
        gib => format!("{gib}G"),
    };
    let (mut socket, name) = (store.as_os_str().to_owned(), output::quoted(store));
    socket.push(".sock");
    let socket = output::quoted(Path::new(&socket));
    output::print(&format!(
        "made {}: {} in {} segments of {}\nnext:\n  \
         mjolnir volume create {name} v --size {size}\n  \
         mjolnir serve {name} --nbd unix:{socket}\n",
        store.display(),
        output::bytes(bytes),
        shape.segments,
        output::bytes(shape.segment_bytes),
    ))
}

/// The part of a store that a volume which is to be filled may have, and reclaim have room left.
/// Volumes are thin and may be larger.
const FILLED: (u64, u64) = (3, 4);

/// The largest volume that a store of so many bytes takes in whole.
fn volume_bytes(store: u64) -> u64 {
    store / FILLED.1 * FILLED.0
}

/// Bytes of a store that takes in a volume of so many.
pub fn store_bytes(volume: u64) -> u64 {
    volume.div_ceil(FILLED.0) * FILLED.1
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
