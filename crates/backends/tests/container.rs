//! What is made, what is refused, and what survives damage to the frame.

use std::fs::{self, OpenOptions as Open};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use mjolnir_backends::{CreateOptions, FileDevice, IoChoice, OpenOptions, Warning};
use mjolnir_device::{AlignedBuf, Device, DeviceError, ErrorKind};
use mjolnir_host::{HostRuntime, run};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

const MIB: u64 = 1 << 20;

fn options() -> CreateOptions {
    CreateOptions {
        bytes: Some(17 * MIB),
        zone_blocks: 256,
        preallocate: false,
        uuid: *b"0123456789abcdef",
        overwrite: false,
    }
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.mj")
    }

    /// A container of 16 zones of 1 MiB.
    fn made() -> Self {
        let place = Self::new();
        FileDevice::create(&place.path(), options()).unwrap();
        place
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) {
        Open::new().write(true).open(self.path()).unwrap().write_all_at(bytes, offset).unwrap();
    }
}

fn open(path: &Path, runtime: &HostRuntime) -> Result<FileDevice, DeviceError> {
    FileDevice::open(path, OpenOptions::default(), runtime)
}

/// The error of opening, as kind and words.
#[track_caller]
fn refusal(path: &Path) -> (ErrorKind, String) {
    let error = run(async |runtime| open(path, &runtime).map(drop)).expect_err("it is refused");
    assert!(error.context.contains(path.to_str().unwrap()), "names the path: {error}");
    (error.kind, error.context)
}

#[test]
fn sizes_that_cannot_be_are_refused_with_the_numbers_and_nothing_is_made() {
    let place = Place::new();
    for (bytes, zone_blocks, word) in [
        (0, 256, "at least 16, "),
        (17 * MIB - 1, 256, "15 segments"),
        (17 * MIB, 0, "0 blocks"),
        (17 * MIB, u64::MAX, "blocks"),
        (u64::MAX, 1 << 36, "140737488355328 blocks"),
        (1 << 50, 1, "4294967295 segments"),
    ] {
        let asked = CreateOptions { bytes: Some(bytes), zone_blocks, ..options() };
        let error = FileDevice::create(&place.path(), asked).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{bytes} {zone_blocks}: {error}");
        assert!(error.context.contains(word), "{bytes} {zone_blocks}: {error}");
        assert!(!place.path().exists());
    }
    let error =
        FileDevice::create(&place.path(), CreateOptions { bytes: None, ..options() }).unwrap_err();
    assert!(error.context.contains("how large"), "{error}");
    assert!(!place.path().exists());
}

#[test]
fn what_does_not_fill_a_zone_is_left_out() {
    let place = Place::new();
    let asked = CreateOptions { bytes: Some(18 * MIB + 5000), ..options() };
    FileDevice::create(&place.path(), asked).unwrap();
    assert_eq!(place.path().metadata().unwrap().len(), 18 * MIB);
    run(async |runtime| {
        let info = open(&place.path(), &runtime).unwrap().info();
        assert_eq!((info.zones, info.zone_blocks, info.uuid), (17, 256, options().uuid));
        assert_eq!(info.name, place.path().display().to_string());
    });
}

#[test]
fn preallocation_takes_the_space_and_resets_keep_it() {
    use std::os::unix::fs::MetadataExt;
    let taken = |place: &Place| place.path().metadata().unwrap().blocks() * 512;
    let sparse = Place::made();
    assert!(taken(&sparse) < MIB);
    let place = Place::new();
    FileDevice::create(&place.path(), CreateOptions { preallocate: true, ..options() }).unwrap();
    assert!(taken(&place) >= 17 * MIB);
    run(async |runtime| {
        for place in [&place, &sparse] {
            let device = open(&place.path(), &runtime).unwrap();
            for zone in 0..16 {
                device.reset(ZoneId(zone)).await.unwrap();
            }
            let data = Bytes::from(vec![1; 256 * BLOCK_BYTES]);
            device.append(Pba(0), vec![data]).await.unwrap();
            device.flush().await.unwrap();
            assert!(taken(place) >= MIB);
            device.reset(ZoneId(0)).await.unwrap();
            device.flush().await.unwrap();
        }
    });
    assert!(taken(&place) >= 17 * MIB, "a reset gave reserved space back");
    assert!(taken(&sparse) < MIB, "a reset kept space");
}

#[test]
fn what_is_there_is_kept_unless_told() {
    let place = Place::made();
    let error = FileDevice::create(&place.path(), options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.context.contains("holds a Mjolnir store"), "{error}");
    fs::write(place.path(), "letters").unwrap();
    let error = FileDevice::create(&place.path(), options()).unwrap_err();
    assert!(error.context.contains("holds 7 bytes"), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), b"letters");
    let new = CreateOptions { overwrite: true, uuid: [9; 16], ..options() };
    FileDevice::create(&place.path(), new).unwrap();
    run(async |runtime| {
        let device = open(&place.path(), &runtime).unwrap();
        assert_eq!(device.info().uuid, [9; 16]);
        assert_eq!(device.read_root().await, Ok(None));
    });
    fs::write(place.path(), "").unwrap();
    FileDevice::create(&place.path(), options()).expect("an empty file is nothing to keep");
}

#[test]
fn an_overwritten_store_leaves_no_root_behind() {
    let place = Place::made();
    run(async |runtime| {
        let device = open(&place.path(), &runtime).unwrap();
        device.write_root(Bytes::from_static(b"of the old store")).await.unwrap();
    });
    FileDevice::create(&place.path(), CreateOptions { overwrite: true, ..options() }).unwrap();
    run(async |runtime| {
        assert_eq!(open(&place.path(), &runtime).unwrap().read_root().await, Ok(None));
    });
}

#[test]
fn a_store_in_use_is_busy_for_others_but_readers_share() {
    let place = Place::made();
    let path = place.path();
    let read = OpenOptions { read_only: true, ..Default::default() };
    let kind = |result: Result<FileDevice, DeviceError>| result.map(drop).map_err(|e| e.kind);
    run(async |runtime| {
        let writer = open(&path, &runtime).unwrap();
        assert_eq!(kind(open(&path, &runtime)), Err(ErrorKind::Busy));
        assert_eq!(kind(FileDevice::open(&path, read, &runtime)), Err(ErrorKind::Busy));
        let overwrite = CreateOptions { overwrite: true, ..options() };
        let error = FileDevice::create(&path, overwrite).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.context.contains(path.to_str().unwrap()), "{error}");
        drop(writer);
        let first = FileDevice::open(&path, read, &runtime).unwrap();
        let second = FileDevice::open(&path, read, &runtime).unwrap();
        assert_eq!(kind(open(&path, &runtime)), Err(ErrorKind::Busy));
        drop((first, second));
        open(&path, &runtime).unwrap();
    });
}

#[test]
fn a_store_in_use_is_busy_by_whichever_name() {
    let place = Place::made();
    let (hard, soft) = (place.folder.path().join("hard"), place.folder.path().join("soft"));
    fs::hard_link(place.path(), &hard).unwrap();
    std::os::unix::fs::symlink(place.path(), &soft).unwrap();
    run(async |runtime| {
        let writer = open(&place.path(), &runtime).unwrap();
        for name in [&hard, &soft] {
            let error = open(name, &runtime).map(drop).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Busy, "{error}");
        }
        drop(writer);
        let writer = open(&hard, &runtime).unwrap();
        assert_eq!(open(&place.path(), &runtime).map(drop).unwrap_err().kind, ErrorKind::Busy);
        drop(writer);
        open(&soft, &runtime).unwrap();
    });
}

#[test]
fn a_reader_can_change_nothing() {
    let place = Place::made();
    let before = fs::read(place.path()).unwrap();
    run(async |runtime| {
        let options = OpenOptions { read_only: true, ..Default::default() };
        let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
        let block = Bytes::from(vec![1; BLOCK_BYTES]);
        for refused in [
            device.append(Pba(0), vec![block.clone()]).await.map(drop),
            device.reset(ZoneId(0)).await,
            device.write_root(block.slice(..4)).await,
            device.grow(100 * MIB).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.context.contains("reading only"), "{error}");
        }
        device.read(Pba(0), AlignedBuf::zeroed(BLOCK_BYTES)).await.unwrap();
        device.flush().await.unwrap();
    });
    assert!(fs::read(place.path()).unwrap() == before);
}

#[test]
fn what_is_no_store_says_so() {
    let place = Place::new();
    assert_eq!(refusal(&place.path()).0, ErrorKind::Io);
    assert_eq!(refusal(place.folder.path()).0, ErrorKind::Invalid);
    assert_eq!(refusal(Path::new("/dev/null")).0, ErrorKind::Invalid);
    for content in [vec![], b"text".to_vec(), vec![0; 5000], vec![0xAB; 20 << 20]] {
        fs::write(place.path(), &content).unwrap();
        let (kind, words) = refusal(&place.path());
        assert_eq!(kind, ErrorKind::Format);
        assert!(words.contains("not a Mjolnir store"), "{} bytes: {words}", content.len());
    }
}

#[test]
fn a_truncated_store_says_so_with_both_sizes() {
    let place = Place::made();
    for length in [17 * MIB - 1, MIB, 100 << 10, 5000] {
        Open::new().write(true).open(place.path()).unwrap().set_len(length).unwrap();
        let (kind, words) = refusal(&place.path());
        assert_eq!(kind, ErrorKind::Format);
        assert!(words.contains("truncated") && words.contains(&length.to_string()), "{words}");
        if length >= MIB {
            assert!(words.contains(&(17 * MIB).to_string()), "{words}");
        }
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let place = Place::made();
    let mut label = fs::read(place.path()).unwrap()[..4096].to_vec();
    label[8] = 2;
    let checksum = crc32c::crc32c(&label[..4092]);
    label[4092..].copy_from_slice(&checksum.to_le_bytes());
    place.overwrite(0, &label);
    let (kind, words) = refusal(&place.path());
    assert_eq!(kind, ErrorKind::Format);
    assert!(words.contains("version 2") && words.contains("reads version 1"), "{words}");
}

/// Where labels are.
const LABELS: [u64; 2] = [0, 64 << 10];

#[test]
fn one_damaged_label_is_a_warning_and_growing_repairs_it() {
    for offset in LABELS {
        let place = Place::made();
        place.overwrite(offset + 33, &[0xFF]);
        run(async |runtime| {
            let device = open(&place.path(), &runtime).unwrap();
            let name = place.path().display().to_string();
            let warnings = device.warnings().list();
            assert_eq!(warnings, [Warning::LabelDamaged { name, offset }]);
            assert!(warnings[0].to_string().contains(&format!("byte {offset} ")));
            assert_eq!(device.info().zones, 16);
            device.grow(18 * MIB).await.unwrap();
            assert_eq!(device.warnings().list(), []);
            drop(device);
            let device = open(&place.path(), &runtime).unwrap();
            assert_eq!((device.warnings().list(), device.info().zones), (vec![], 17));
        });
    }
}

#[test]
fn a_damaged_label_is_written_anew_with_the_next_root() {
    for offset in LABELS {
        let place = Place::made();
        let sound = fs::read(place.path()).unwrap();
        place.overwrite(offset + 33, &[0xFF]);
        run(async |runtime| {
            let device = open(&place.path(), &runtime).unwrap();
            device.write_root(Bytes::from("it")).await.unwrap();
            assert_eq!(device.warnings().list(), []);
            drop(device);
            let now = fs::read(place.path()).unwrap();
            for at in LABELS.map(|at| at as usize) {
                assert!(now[at..at + 4096] == sound[at..at + 4096], "the label at {at}");
            }
            assert_eq!(open(&place.path(), &runtime).unwrap().warnings().list(), []);
        });
    }
}

#[test]
fn nothing_is_mended_that_is_only_read() {
    let place = Place::made();
    place.overwrite(LABELS[1] + 33, &[0xFF]);
    let before = fs::read(place.path()).unwrap();
    run(async |runtime| {
        let options = OpenOptions { read_only: true, ..Default::default() };
        let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
        assert!(device.write_root(Bytes::from("it")).await.is_err());
    });
    assert!(fs::read(place.path()).unwrap() == before);
}

#[test]
fn two_damaged_labels_are_refused() {
    let place = Place::made();
    place.overwrite(40, &[0xFF]);
    place.overwrite((64 << 10) + 40, &[0xFF]);
    let (kind, words) = refusal(&place.path());
    assert_eq!(kind, ErrorKind::Format);
    assert!(words.contains("both labels are damaged"), "{words}");
}

/// Growing writes the file's length, the copy, the label; a crash may come after each.
#[test]
fn an_interrupted_growth_leaves_a_sound_container() {
    let place = Place::made();
    let old_label = fs::read(place.path()).unwrap()[..4096].to_vec();
    run(async |runtime| {
        open(&place.path(), &runtime).unwrap().grow(20 * MIB).await.unwrap();
    });
    let new_label = fs::read(place.path()).unwrap()[..4096].to_vec();
    assert_ne!(old_label, new_label);
    for (label, copy, zones) in [
        (&old_label, &old_label, 16),
        (&old_label, &new_label, 19),
        (&old_label, &vec![0x55; 4096], 16),
        (&vec![0x55; 4096], &new_label, 19),
        (&new_label, &new_label, 19),
    ] {
        place.overwrite(0, label);
        place.overwrite(64 << 10, copy);
        run(async |runtime| {
            let device = open(&place.path(), &runtime).unwrap();
            assert_eq!(device.info().zones, zones);
            // The one that was left behind would lead to fewer zones if it served alone.
            device.write_root(Bytes::from("it")).await.unwrap();
            let now = fs::read(place.path()).unwrap();
            let labels = LABELS.map(|at| &now[at as usize..at as usize + 4096]);
            assert!(labels[0] == labels[1], "labels differ");
            assert_eq!(device.grow(20 * MIB).await, Ok(19));
        });
    }
}

/// Some devices have one error for all that goes wrong.
#[test]
fn what_cannot_be_read_while_a_label_can_is_lost_where_that_is_asked_for() {
    for (lost_blocks, kind) in [(false, ErrorKind::Io), (true, ErrorKind::Unreadable)] {
        let place = Place::made();
        run(async |runtime| {
            let options = OpenOptions { lost_blocks, ..Default::default() };
            let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
            // Behind its back: what was there is not any more.
            let file = Open::new().write(true).open(place.path()).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length - MIB).unwrap();
            let at = Pba(15 * 256);
            let read = device.read(at, AlignedBuf::zeroed(4096)).await;
            assert_eq!(read.map(drop).unwrap_err().kind, kind);
            file.set_len(0).unwrap();
            let read = device.read(at, AlignedBuf::zeroed(4096)).await;
            assert_eq!(read.map(drop).unwrap_err().kind, ErrorKind::Io, "all of it is gone");
        });
    }
}

/// There is no room for what is to be taken at once.
#[test]
fn a_growth_that_fails_leaves_the_file_as_long_as_it_was() {
    // A file system in memory that says so before it takes anything.
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: needs /dev/shm");
        return;
    };
    let path = folder.path().join("store.mj");
    FileDevice::create(&path, CreateOptions { preallocate: true, ..options() }).unwrap();
    let before = fs::metadata(&path).unwrap().len();
    run(async |runtime| {
        let device = open(&path, &runtime).unwrap();
        let error = device.grow(1 << 50).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert_eq!(fs::metadata(&path).unwrap().len(), before);
        assert_eq!(device.info().zones, 16);
        device.write_root(Bytes::from("it")).await.expect("it goes on as it was");
        assert_eq!(device.grow(20 * MIB).await, Ok(19));
    });
}

/// A root slot that was torn, as by a power cut, leaves the root before it, and the next write
/// does not touch that one.
#[test]
fn a_torn_root_leaves_the_one_before() {
    const SLOTS: [u64; 2] = [128 << 10, 192 << 10];
    for io in [IoChoice::Uring, IoChoice::Pool] {
        let place = Place::made();
        let options = OpenOptions { io, ..Default::default() };
        for round in 0..6u8 {
            let root = |n: u8| Bytes::from(vec![n; 100]);
            let written = run(async |runtime| {
                let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
                let before = fs::read(place.path()).unwrap();
                device.write_root(root(round)).await.unwrap();
                let after = fs::read(place.path()).unwrap();
                let changed = SLOTS.map(|at| {
                    let slot = at as usize..at as usize + 4096;
                    before[slot.clone()] != after[slot]
                });
                assert_ne!(changed[0], changed[1], "exactly one slot is written");
                SLOTS[usize::from(changed[1])]
            });
            if round % 2 == 1 {
                place.overwrite(written + 50, &[0xEE]);
                run(async |runtime| {
                    let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
                    assert_eq!(device.read_root().await, Ok(Some(root(round - 1))));
                    device.write_root(root(round)).await.unwrap();
                });
            }
            run(async |runtime| {
                let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
                assert_eq!(device.read_root().await, Ok(Some(root(round))), "round {round}");
            });
        }
    }
}
