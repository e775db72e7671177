//! Every way to reach a file keeps the Device contract: io_uring and threads, direct and through
//! the page cache, sparse and preallocated.

use std::cell::Cell;
use std::path::PathBuf;

use mjolnir_backends::{CreateOptions, Direct, FileDevice, IoChoice, OpenOptions};
use mjolnir_device::contract::{Bench, all, random_history};
use mjolnir_host::{HostRuntime, run};

struct Files {
    folder: tempfile::TempDir,
    runtime: HostRuntime,
    options: OpenOptions,
    preallocate: bool,
    zone_blocks: u64,
    made: Cell<u32>,
}

impl Files {
    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.mj", self.made.get()))
    }
}

impl Bench for Files {
    type Device = FileDevice;

    async fn fresh(&self) -> FileDevice {
        let _ = std::fs::remove_file(self.path());
        self.made.set(self.made.get() + 1);
        let create = CreateOptions {
            bytes: Some((1 << 20) + 16 * self.zone_blocks * 4096),
            zone_blocks: self.zone_blocks,
            preallocate: self.preallocate,
            uuid: [7; 16],
            overwrite: false,
        };
        FileDevice::create(&self.path(), create).unwrap();
        FileDevice::open(&self.path(), self.options, &self.runtime).unwrap()
    }

    async fn reopen(&self, device: FileDevice) -> Option<FileDevice> {
        drop(device);
        Some(FileDevice::open(&self.path(), self.options, &self.runtime).unwrap())
    }
}

fn keeps_the_contract(io: IoChoice, direct: Direct) {
    for (preallocate, zone_blocks) in [(false, 16), (true, 2500)] {
        run(async move |runtime: HostRuntime| {
            let options = OpenOptions { io, direct, ..Default::default() };
            let folder = tempfile::tempdir().unwrap();
            let made = Cell::new(0);
            let bench = Files { folder, runtime, options, preallocate, zone_blocks, made };
            all(&bench).await;
            for seed in 0..4 {
                random_history(&bench, seed, 600).await;
            }
        });
    }
}

#[test]
fn uring_direct() {
    keeps_the_contract(IoChoice::Uring, Direct::Auto);
}

#[test]
fn uring_buffered() {
    keeps_the_contract(IoChoice::Uring, Direct::Never);
}

#[test]
fn pool_direct() {
    keeps_the_contract(IoChoice::Pool, Direct::Auto);
}

#[test]
fn pool_buffered() {
    keeps_the_contract(IoChoice::Pool, Direct::Never);
}
