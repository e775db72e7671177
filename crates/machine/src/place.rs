//! The file that is measured on, and what machine it is.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use mjolnir_device::AlignedBuf;
use mjolnir_engine::OpenOptions;
use mjolnir_host::{
    DeviceOptions, HostRuntime, LocalStore, NewStore, Warm, create_store, open_store,
};
use mjolnir_study::Bytes as Size;
use mjolnir_units::{BLOCK_SIZE, ByteSize};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;

/// Blocks of the payload that all writes share.
const PAYLOAD_BLOCKS: usize = 256;
/// What the disk must keep free beside a store.
const SPARE_BYTES: u64 = 1 << 30;

/// Where the store lies, and its shape: `[configuration.machine]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// The folder whose disk is measured; the present one if not said.
    #[serde(default = "here")]
    folder: PathBuf,
    /// Bytes of the store's file.
    bytes: Size,
    /// Bytes of a segment.
    segment_bytes: Size,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

/// A store that can be made.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    segment_bytes: u64,
}

impl Place {
    /// Checks it, as far as that can be told without touching the disk.
    pub fn new(spec: &MachineSpec) -> Result<Self, String> {
        let bytes = spec.bytes.get("machine.bytes")?;
        let segment_bytes = spec.segment_bytes.get("machine.segment_bytes")?;
        if segment_bytes == 0 || !segment_bytes.is_multiple_of(BLOCK_SIZE) {
            return Err(format!("machine.segment_bytes: write a multiple of {BLOCK_SIZE}"));
        }
        if bytes / segment_bytes < 16 {
            return Err(format!(
                "machine.bytes: a store needs at least 16 segments of {}",
                ByteSize(segment_bytes)
            ));
        }
        Ok(Place { folder: spec.folder.clone(), bytes, segment_bytes })
    }

    /// A new store in a file that is gone when the store is, however the run ends.
    pub async fn store(
        &self,
        options: OpenOptions,
        runtime: &HostRuntime,
    ) -> Result<LocalStore, String> {
        let shown = self.folder.display();
        let hint = "choose another folder with --set machine.folder=PATH";
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            format!("machine.folder: {what} in {shown}: {why}; {hint}")
        };
        let room = room(&self.folder).map_err(|why| failed("looking for room", &why))?;
        if room < self.bytes + SPARE_BYTES {
            let (needed, room) = (ByteSize(self.bytes + SPARE_BYTES), ByteSize(room));
            return Err(failed("no room", &format!("{needed} are needed, {room} are free")));
        }
        let folder = tempfile::Builder::new()
            .prefix("mjolnir-experiment-")
            .tempdir_in(&self.folder)
            .map_err(|why| failed("making a folder", &why))?;
        let path = folder.path().join("store.mj");
        let new = NewStore {
            bytes: Some(self.bytes),
            segment_bytes: Some(self.segment_bytes),
            preallocate: true,
            overwrite: false,
        };
        create_store(&path, new, runtime).await.map_err(|why| failed("making a store", &why))?;
        let opened =
            open_store(&path, DeviceOptions::default(), options, &Warm::Off, runtime, |_| ()).await;
        // The folder goes here, with the file's name; the file stays as long as it is open.
        opened.map(|opened| opened.engine).map_err(|why| failed("opening the store", &why))
    }

    /// What was measured on, for a reader of the results.
    pub fn note(&self) -> String {
        format!(
            "by the clock, on a file of {} in segments of {}; {}",
            ByteSize(self.bytes),
            ByteSize(self.segment_bytes),
            machine()
        )
    }
}

/// Bytes that a folder's disk has left.
fn room(folder: &Path) -> rustix::io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// The machine in words.
pub fn machine() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|text| text.trim_start_matches([' ', '\t', ':']));
    format!("{} cores of {}", cores(), model.unwrap_or("an unknown processor"))
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Blocks of bytes that no disk can make smaller, shared by all who ask.
pub fn payload() -> impl Fn(usize) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(PAYLOAD_BLOCKS * BLOCK_SIZE as usize);
    Pcg64::seed_from_u64(1).fill_bytes(buffer.as_mut());
    let all = buffer.freeze();
    move |blocks| all.slice(..blocks * BLOCK_SIZE as usize)
}
