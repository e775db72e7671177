//! Block devices and full file systems. These tests make loop devices and mount a file system, so
//! they need root: `cargo test -p mjolnir-backends --test privileged -- --ignored`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use mjolnir_backends::{CreateOptions, Direct, FileDevice, IoChoice, OpenOptions};
use mjolnir_device::contract::{Bench, all};
use mjolnir_device::{AlignedBuf, Device, ErrorKind};
use mjolnir_host::{HostRuntime, run};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

/// Runs a command and returns what it printed.
fn system(command: &str) -> String {
    let output = Command::new("sh").arg("-c").arg(command).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {words}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device of that many MiB, larger than any container the tests make on it.
struct Loop {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    fn new(mib: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        std::fs::File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let path = system(&format!("losetup --find --show {}", file.display()));
        Loop { path: path.into(), _folder: folder }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        system(&format!("losetup --detach {}", self.path.display()));
    }
}

fn options() -> CreateOptions {
    CreateOptions {
        bytes: Some(17 << 20),
        zone_blocks: 256,
        preallocate: false,
        uuid: [3; 16],
        overwrite: false,
    }
}

struct Disks {
    runtime: HostRuntime,
    options: OpenOptions,
    disk: RefCell<Option<Loop>>,
}

impl Disks {
    fn open(&self) -> FileDevice {
        let disk = self.disk.borrow();
        let path = &disk.as_ref().unwrap().path;
        FileDevice::open(path, self.options, &self.runtime).unwrap()
    }
}

impl Bench for Disks {
    type Device = FileDevice;

    async fn fresh(&self) -> FileDevice {
        let disk = Loop::new(32);
        FileDevice::create(&disk.path, options()).unwrap();
        *self.disk.borrow_mut() = Some(disk);
        self.open()
    }

    async fn reopen(&self, device: FileDevice) -> Option<FileDevice> {
        drop(device);
        Some(self.open())
    }
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn block_devices_keep_the_contract() {
    for io in [IoChoice::Uring, IoChoice::Pool] {
        for direct in [Direct::Auto, Direct::Never] {
            run(async |runtime| {
                let options = OpenOptions { io, direct, ..Default::default() };
                all(&Disks { runtime, options, disk: RefCell::new(None) }).await;
            });
        }
    }
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn a_block_device_is_used_whole_and_its_contents_are_kept() {
    let disk = Loop::new(40);
    let whole = CreateOptions { bytes: None, ..options() };
    let large = CreateOptions { bytes: Some(41 << 20), ..options() };
    let error = FileDevice::create(&disk.path, large).unwrap_err();
    assert!(error.context.contains("the device has"), "{error}");
    FileDevice::create(&disk.path, whole).unwrap();
    run(async |runtime| {
        let device = FileDevice::open(&disk.path, OpenOptions::default(), &runtime).unwrap();
        assert_eq!(device.info().zones, 39);
        assert_eq!(device.grow(64 << 20).await.unwrap_err().kind, ErrorKind::Invalid);
        let again = FileDevice::open(&disk.path, OpenOptions::default(), &runtime);
        assert_eq!(again.map(drop).unwrap_err().kind, ErrorKind::Busy);
    });
    let error = FileDevice::create(&disk.path, whole).unwrap_err();
    assert!(error.context.contains("holds a Mjolnir store"), "{error}");
    let path = disk.path.display();
    system(&format!("dd if=/dev/zero of={path} bs=1M count=1 conv=fsync status=none"));
    system(&format!("printf x | dd of={path} bs=1 seek=600000 conv=fsync status=none"));
    let error = FileDevice::create(&disk.path, whole).unwrap_err();
    assert!(error.context.contains("holds something"), "{error}");
    FileDevice::create(&disk.path, CreateOptions { overwrite: true, ..whole }).unwrap();
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn a_reset_discards_on_a_block_device() {
    let disk = Loop::new(17);
    FileDevice::create(&disk.path, CreateOptions { bytes: None, ..options() }).unwrap();
    run(async |runtime| {
        let device = FileDevice::open(&disk.path, OpenOptions::default(), &runtime).unwrap();
        device.reset(ZoneId(3)).await.unwrap();
        let at = Pba(3 * 256);
        device.append(at, vec![Bytes::from(vec![9; BLOCK_BYTES])]).await.unwrap();
        device.flush().await.unwrap();
        device.reset(ZoneId(3)).await.unwrap();
        // A loop device punches holes where it is told to discard.
        let read = device.read(at, AlignedBuf::zeroed(BLOCK_BYTES)).await.unwrap();
        assert!(read.as_ref().iter().all(|&byte| byte == 0));
    });
}

#[test]
#[ignore = "needs root, to mount a file system"]
fn a_full_file_system_is_no_space_and_the_store_stays_readable() {
    struct Mount(PathBuf);
    impl Drop for Mount {
        fn drop(&mut self) {
            system(&format!("umount {}", self.0.display()));
        }
    }
    fn mount(at: &Path) -> Mount {
        system(&format!("mount -t tmpfs -o size=8M none {}", at.display()));
        Mount(at.into())
    }

    for io in [IoChoice::Uring, IoChoice::Pool] {
        let folder = tempfile::tempdir().unwrap();
        let mount = mount(folder.path());
        let path = mount.0.join("store.mj");
        let error = FileDevice::create(&path, CreateOptions { preallocate: true, ..options() })
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert!(!path.exists(), "a store that could not be made is removed");
        FileDevice::create(&path, options()).unwrap();
        run(async |runtime| {
            let options = OpenOptions { io, ..Default::default() };
            let device = FileDevice::open(&path, options, &runtime).unwrap();
            let data = Bytes::from(vec![5; 256 * BLOCK_BYTES]);
            let mut full = None;
            for zone in 0..16 {
                device.reset(ZoneId(zone)).await.unwrap();
                let at = ZoneId(zone).start(256);
                if let Err(error) = device.append(at, vec![data.clone()]).await {
                    full = Some((zone, error));
                    break;
                }
            }
            let (zone, error) = full.expect("16 MiB do not fit in 8");
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            assert!(error.context.contains("store.mj at byte"), "{error}");
            device.read(Pba(0), AlignedBuf::zeroed(BLOCK_BYTES)).await.unwrap();
            // Resets give space back, and appends work again.
            device.reset(ZoneId(0)).await.unwrap();
            device.reset(ZoneId(zone)).await.unwrap();
            device.append(ZoneId(zone).start(256), vec![data.clone()]).await.unwrap();
        });
    }
}

/// A store that was copied to a device which is too small can be looked at, and nothing is written to it.
#[test]
#[ignore = "needs root"]
fn a_device_that_is_too_small_is_only_read() {
    let (large, small) = (Loop::new(20), Loop::new(16));
    FileDevice::create(&large.path, options()).unwrap();
    run(async |runtime| {
        let device = FileDevice::open(&large.path, OpenOptions::default(), &runtime).unwrap();
        device.write_root(Bytes::from_static(b"root")).await.unwrap();
    });
    let (from, to) = (large.path.display(), small.path.display());
    system(&format!("dd if={from} of={to} bs=1M count=16 conv=fsync"));
    run(async |runtime| {
        let refused = FileDevice::open(&small.path, OpenOptions::default(), &runtime).map(drop);
        let words = refused.unwrap_err().context;
        for part in ["16777216 bytes", "enlarge the device to 17825792 bytes", "mjolnir check"] {
            assert!(words.contains(part), "no {part:?} in {words}");
        }
        assert!(!words.contains("truncate -s") && !words.contains("salvage"), "{words}");
        let refused = FileDevice::lengthen(&small.path).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
        let options = OpenOptions { read_only: true, short: true, ..OpenOptions::default() };
        let device = FileDevice::open(&small.path, options, &runtime).unwrap();
        assert_eq!(device.missing_from(), Some(Pba(15 * 256)));
        let buffer = AlignedBuf::zeroed(BLOCK_BYTES);
        let read = device.read(Pba(15 * 256), buffer).await.unwrap();
        assert_eq!(read.as_ref(), [0; BLOCK_BYTES]);
    });
}
