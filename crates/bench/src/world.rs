//! Stores to measure, in memory and on disk.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use mjolnir_device::{Device, Runtime};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, ReclaimOptions};
use mjolnir_host::{
    DeviceOptions, HostRuntime, LocalStore, NewStore, Warm, create_store, open_store,
};
use mjolnir_machine::RamDevice;
use mjolnir_store::ErrorKind;
use mjolnir_units::BLOCK_SIZE;

/// Options with so much memory that nothing is ever dropped from it.
pub fn roomy() -> OpenOptions {
    OpenOptions { memory_bytes: 64 << 30, checkpoint_bytes: 8 << 30, ..OpenOptions::default() }
}

/// As [`roomy`], and nothing is reclaimed but when asked for; then, wholly live segments too.
pub fn by_hand() -> OpenOptions {
    let reclaim = ReclaimOptions {
        enabled: false,
        candidate_threshold: 1.0,
        candidates_max: 1 << 20,
        ..ReclaimOptions::default()
    };
    OpenOptions { reclaim, ..roomy() }
}

/// A new store on a device, of which `device` gives handles.
pub async fn fresh<D: Device, R: Runtime>(
    device: impl Fn() -> D,
    runtime: &R,
    options: OpenOptions,
) -> Result<Engine<D, R>> {
    let format = FormatOptions::default();
    Engine::format(device(), runtime.clone(), format).await.context("formatting a store")?;
    Engine::open(device(), runtime.clone(), options).await.context("opening a store")
}

/// A new store in memory, in the place of the one before.
pub async fn in_memory<R: Runtime>(
    device: &RamDevice,
    runtime: &R,
    options: OpenOptions,
) -> Result<Engine<RamDevice, R>> {
    device.renew();
    fresh(|| device.clone(), runtime, options).await
}

/// A new store in a file.
pub async fn on_disk(
    path: &Path,
    bytes: u64,
    segment_bytes: Option<u64>,
    runtime: &HostRuntime,
    options: OpenOptions,
) -> Result<LocalStore> {
    let new = NewStore { bytes: Some(bytes), segment_bytes, preallocate: true, overwrite: true };
    create_store(path, new, runtime).await.context("making a store")?;
    reopen(path, runtime, options).await
}

/// Opens a store in a file. The handle before may have requests that are still ending: then it
/// waits for a while.
pub async fn reopen(
    path: &Path,
    runtime: &HostRuntime,
    options: OpenOptions,
) -> Result<LocalStore> {
    let mut patience = 100;
    loop {
        let device = DeviceOptions::default();
        match open_store(path, device, options.clone(), &Warm::Off, runtime, |_| ()).await {
            Ok(opened) => return Ok(opened.engine),
            Err(error) if error.kind == ErrorKind::Busy && patience > 0 => patience -= 1,
            Err(error) => return Err(error).context("opening a store"),
        }
        runtime.sleep(Duration::from_millis(20)).await;
    }
}

/// Closes a store and lets go of it.
pub async fn shut<D: Device, R: Runtime>(store: Engine<D, R>) -> Result<()> {
    store.close().await.context("closing a store")
}

/// Blocks in a number of bytes.
pub const fn blocks(bytes: u64) -> u64 {
    bytes / BLOCK_SIZE
}

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const TIB: u64 = 1 << 40;
