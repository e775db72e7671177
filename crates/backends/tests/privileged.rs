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

/// A device that goes with the test, and the command that ends it.
struct Node(PathBuf, String);

impl Node {
    /// A loop device over a file or device, set up with those options.
    fn over(file: &Path, options: &str) -> Self {
        let path = system(&format!("losetup --find --show {options} {}", file.display()));
        let end = format!("losetup --detach {path}");
        Node(path.into(), end)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        system(&self.1);
    }
}

/// Whether both can be open at once, in that order.
fn together(runtime: &HostRuntime, first: (&Path, bool), second: (&Path, bool)) -> bool {
    let open = |(path, read_only): (&Path, bool)| {
        let options = OpenOptions { read_only, ..Default::default() };
        FileDevice::open(path, options, runtime)
    };
    let first = open(first).expect("nobody has it open");
    match open(second) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Busy, "{error}");
            assert!(error.context.contains("in use by another process"), "{error}");
            drop(first);
            open(second).expect("what is closed is in nobody's way");
            false
        }
    }
}

/// That two names of the same bytes exclude each other, but for readers.
fn exclude_each_other(one: &Path, other: &Path) {
    run(async |runtime: HostRuntime| {
        for (first, second) in [(one, other), (other, one)] {
            for (first_reads, second_reads) in [(false, false), (false, true), (true, false)] {
                let (first, second) = ((first, first_reads), (second, second_reads));
                assert!(!together(&runtime, first, second), "{first:?} and {second:?}");
            }
            assert!(together(&runtime, (first, true), (second, true)), "both only read");
        }
    });
}

fn make(path: &Path) {
    FileDevice::create(path, CreateOptions { overwrite: true, ..options() }).unwrap();
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn a_file_and_a_loop_device_over_it_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.mj");
    make(&file);
    let disk = Node::over(&file, "");
    exclude_each_other(&file, &disk.0);
    let second = Node::over(&file, "");
    exclude_each_other(&second.0, &disk.0);
    drop(second);
    let stacked = Node::over(&disk.0, "");
    exclude_each_other(&stacked.0, &file);
    run(async |runtime: HostRuntime| {
        let open = |path| FileDevice::open(path, OpenOptions::default(), &runtime);
        let held = open(&file).unwrap();
        let error = open(&disk.0).map(drop).unwrap_err().context;
        let why = format!("loop device over {}, which that one has open", file.display());
        assert!(error.contains(&why), "{error}");
        let made = FileDevice::create(&disk.0, CreateOptions { overwrite: true, ..options() });
        assert_eq!(made.unwrap_err().kind, ErrorKind::Busy);
        drop(held);
        let held = open(&disk.0).unwrap();
        let error = open(&file).map(drop).unwrap_err().context;
        let why = format!("by way of {}, a loop device over it", disk.0.display());
        assert!(error.contains(&why), "{error}");
        drop(held);
    });
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn parts_of_one_file_that_do_not_overlap_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image");
    std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let (mib, size) = (1 << 20, 20 << 20);
    let first = Node::over(&file, &format!("--offset {mib} --sizelimit {size}"));
    let second = Node::over(&file, &format!("--offset {} --sizelimit {size}", mib + size));
    let across = Node::over(&file, &format!("--offset {}", 2 * mib + size));
    make(&first.0);
    make(&second.0);
    run(async |runtime: HostRuntime| {
        assert!(together(&runtime, (&first.0, false), (&second.0, false)));
        let open = |path| FileDevice::open(path, OpenOptions::default(), &runtime);
        let held = open(&second.0).unwrap();
        assert_eq!(open(&across.0).map(drop).unwrap_err().kind, ErrorKind::Busy);
        drop(held);
    });
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn a_device_is_one_by_whichever_node() {
    let disk = Loop::new(32);
    make(&disk.path);
    let folder = tempfile::tempdir_in("/dev").unwrap();
    let node = folder.path().join("node");
    let numbers = system(&format!("stat --format '0x%t 0x%T' {}", disk.path.display()));
    let (major, minor) = numbers.split_once(' ').unwrap();
    system(&format!("mknod {} b $(({major})) $(({minor}))", node.display()));
    let end = format!("rm {}", node.display());
    let node = Node(node, end);
    exclude_each_other(&disk.path, &node.0);
}

#[test]
#[ignore = "needs root, to make loop devices"]
fn a_partition_and_its_disk_are_one_and_two_partitions_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image");
    std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let disk = Node::over(&file, "");
    // Both partitions begin where the disk's own container would have its zones.
    make(&disk.0);
    let add = |number: u32, start_mib: u64| {
        let (start, length, whole) = (start_mib * 2048, 20 * 2048, disk.0.display());
        system(&format!("addpart {whole} {number} {start} {length}"));
        let path = PathBuf::from(format!("{whole}p{number}"));
        let mut end = format!("delpart {whole} {number}");
        if !path.exists() {
            // There is no udev here.
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let numbers = std::fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
            let (major, minor) = numbers.trim().split_once(':').unwrap();
            system(&format!("mknod {} b {major} {minor}", path.display()));
            end += &format!("; rm {}", path.display());
        }
        Node(path, end)
    };
    let (first, second) = (add(1, 2), add(2, 22));
    make(&first.0);
    make(&second.0);
    exclude_each_other(&first.0, &disk.0);
    run(async |runtime: HostRuntime| {
        assert!(together(&runtime, (&first.0, false), (&second.0, false)));
        assert!(!together(&runtime, (&file, false), (&second.0, true)), "it lies in the file");
    });
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
        let refused = FileDevice::lengthen(&small.path, 0).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
        let options = OpenOptions { read_only: true, short: true, ..OpenOptions::default() };
        let device = FileDevice::open(&small.path, options, &runtime).unwrap();
        assert_eq!(device.abilities().missing_from(), Some(Pba(15 * 256)));
        let buffer = AlignedBuf::zeroed(BLOCK_BYTES);
        let read = device.read(Pba(15 * 256), buffer).await.unwrap();
        assert_eq!(read.as_ref(), [0; BLOCK_BYTES]);
    });
}
