//! A file or device that is shorter than its label says: it is refused with what to do, read with zeroes in the
//! place of what is missing where that is asked for, and made as long again.

use std::fs::OpenOptions as Open;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use mjolnir_backends::{CreateOptions, Direct, FileDevice, IoChoice, OpenOptions, Warning};
use mjolnir_device::{AlignedBuf, Device, ErrorKind};
use mjolnir_host::{HostRuntime, run};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

const MIB: u64 = 1 << 20;
const WHOLE: u64 = 17 * MIB;
const ZONE_BLOCKS: u64 = 256;

/// A container of 16 zones of 1 MiB, of which the last two are filled with ones.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn made(preallocate: bool) -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let (bytes, uuid) = (Some(WHOLE), [5; 16]);
        let create =
            CreateOptions { bytes, zone_blocks: ZONE_BLOCKS, preallocate, uuid, overwrite: false };
        FileDevice::create(&place.path(), create).unwrap();
        run(async |runtime| {
            let device = FileDevice::open(&place.path(), OpenOptions::default(), &runtime).unwrap();
            for zone in [14, 15].map(ZoneId) {
                device.reset(zone).await.unwrap();
                let ones = Bytes::from(vec![1; ZONE_BLOCKS as usize * BLOCK_BYTES]);
                device.append(zone.start(ZONE_BLOCKS), vec![ones]).await.unwrap();
            }
            device.write_root(Bytes::from_static(b"root")).await.unwrap();
            device.flush().await.unwrap();
        });
        place
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.mj")
    }

    fn set_len(&self, bytes: u64) {
        Open::new().write(true).open(self.path()).unwrap().set_len(bytes).unwrap();
    }

    fn len(&self) -> u64 {
        self.path().metadata().unwrap().len()
    }
}

async fn bytes_at(device: &FileDevice, block: u64, blocks: u64) -> Vec<u8> {
    let buffer = AlignedBuf::zeroed(blocks as usize * BLOCK_BYTES);
    device.read(Pba(block), buffer).await.unwrap().as_ref().to_vec()
}

fn refusal(path: &Path, options: OpenOptions) -> String {
    let opened =
        run(async |runtime: HostRuntime| FileDevice::open(path, options, &runtime).map(drop));
    let error = opened.expect_err("it is refused");
    assert_eq!(error.kind, ErrorKind::Format);
    error.context
}

#[test]
fn it_is_refused_with_both_sizes_and_what_mends_it() {
    let place = Place::made(false);
    let name = place.path().display().to_string();
    for missing in [1, 512, 4096, MIB, 15 * MIB] {
        place.set_len(WHOLE - missing);
        let reads = OpenOptions { read_only: true, ..OpenOptions::default() };
        let writes = OpenOptions { short: true, ..OpenOptions::default() };
        for options in [OpenOptions::default(), reads, writes] {
            let words = refusal(&place.path(), options);
            for part in [
                format!("{} bytes", WHOLE - missing),
                format!("its last {missing} bytes"),
                format!("`truncate -s {WHOLE} {name}`"),
                format!("`mjolnir check {name}`"),
                format!("`mjolnir salvage {name}`"),
            ] {
                assert!(words.contains(&part), "no {part:?} in {words}");
            }
        }
        assert_eq!(place.len(), WHOLE - missing);
    }
}

#[test]
fn what_is_missing_reads_as_zeroes() {
    let place = Place::made(false);
    let end = WHOLE - MIB - 10_000; // Within the third last block of the last zone but one.
    place.set_len(end);
    for (io, direct) in [
        (IoChoice::Auto, Direct::Auto),
        (IoChoice::Pool, Direct::Auto),
        (IoChoice::Auto, Direct::Never),
    ] {
        run(async |runtime| {
            let (read_only, short) = (true, true);
            let options = OpenOptions { read_only, short, io, direct, ..OpenOptions::default() };
            let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
            let zones = device.info().zones;
            assert_eq!(zones, 16, "the label counts");
            let from = (end - MIB) / BLOCK_SIZE;
            assert_eq!(device.abilities().missing_from(), Some(Pba(from)));
            let half = [vec![1; (end % BLOCK_SIZE) as usize], vec![0; BLOCK_BYTES]].concat();
            let half = &half[..BLOCK_BYTES];
            assert_eq!(bytes_at(&device, from - 1, 1).await, [1; BLOCK_BYTES]);
            assert_eq!(bytes_at(&device, from, 1).await, half);
            let around = bytes_at(&device, from - 2, 4).await;
            assert_eq!(around, [&[1; 2 * BLOCK_BYTES], half, &[0; BLOCK_BYTES]].concat());
            assert_eq!(bytes_at(&device, 15 * ZONE_BLOCKS, 256).await, vec![0; MIB as usize]);
            let beyond = AlignedBuf::zeroed(BLOCK_BYTES);
            let refused = device.read(Pba(16 * ZONE_BLOCKS), beyond).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Invalid);
            assert!(device.reset(ZoneId(0)).await.is_err(), "nothing can be written");
            let warnings = device.warnings().list();
            let [Warning::Short(short)] = &warnings[..] else { panic!("{warnings:?}") };
            assert_eq!((short.actual, short.wanted, short.is_file), (end, WHOLE, true));
            let words = warnings[0].to_string();
            assert!(words.contains(&format!("truncate -s {WHOLE}")), "{words}");
        });
    }
    assert_eq!(place.len(), end);
}

#[test]
fn one_that_is_whole_has_no_end_before_its_last_zone() {
    let place = Place::made(false);
    place.set_len(WHOLE + 5);
    run(async |runtime| {
        let options = OpenOptions { read_only: true, short: true, ..OpenOptions::default() };
        let device = FileDevice::open(&place.path(), options, &runtime).unwrap();
        assert_eq!((device.abilities().missing_from(), device.warnings().list()), (None, vec![]));
    });
    assert_eq!(FileDevice::lengthen(&place.path(), 0).unwrap(), None);
    assert_eq!(place.len(), WHOLE + 5);
}

#[test]
fn a_file_is_made_as_long_again() {
    use std::os::unix::fs::MetadataExt;
    for preallocate in [false, true] {
        let place = Place::made(preallocate);
        place.set_len(WHOLE - MIB - 5000);
        let short = FileDevice::lengthen(&place.path(), 0).unwrap().expect("it was too short");
        assert_eq!((short.actual, short.wanted), (WHOLE - MIB - 5000, WHOLE));
        assert_eq!(place.len(), WHOLE);
        let taken = place.path().metadata().unwrap().blocks() * 512;
        assert_eq!(taken >= WHOLE, preallocate, "{taken} bytes are taken");
        run(async |runtime| {
            let device = FileDevice::open(&place.path(), OpenOptions::default(), &runtime).unwrap();
            assert_eq!(bytes_at(&device, 15 * ZONE_BLOCKS - 3, 1).await, [1; BLOCK_BYTES]);
            assert_eq!(bytes_at(&device, 15 * ZONE_BLOCKS - 1, 1).await, [0; BLOCK_BYTES]);
            let busy = FileDevice::lengthen(&place.path(), 0).unwrap_err();
            assert_eq!(busy.kind, ErrorKind::Busy);
        });
    }
}

#[test]
fn what_is_no_container_is_not_made_longer() {
    let place = Place::made(false);
    place.set_len(5000);
    let refused = FileDevice::lengthen(&place.path(), 0).unwrap_err();
    assert!(refused.context.contains("truncated"), "{refused}");
    std::fs::write(place.path(), vec![7; 100_000]).unwrap();
    let refused = FileDevice::lengthen(&place.path(), 0).unwrap_err();
    assert!(refused.context.contains("not a Mjolnir store"), "{refused}");
    assert_eq!(place.len(), 100_000);
}
