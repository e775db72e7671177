//! ext4 on a volume, through `nbdfuse` and a loop device: filled, overwritten, trimmed, and
//! snapshotted while mounted. The snapshot's clone is sound, and has all that was synced before.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::real_support::chance::Chance;
use crate::real_support::mounts::{Fuse, Loop, Mount};
use crate::real_support::store::TestStore;
use crate::real_support::tools;

const SEED: u64 = 9;
const FILES: u64 = 24;
const FILE_BYTES: usize = 3 << 20;

/// The files in a folder and what each of them has to hold.
struct Files {
    contents: Vec<Option<Vec<u8>>>,
    chance: Chance,
}

impl Files {
    fn write_all(&mut self, folder: &Path) {
        for index in 0..FILES as usize {
            let bytes = self.chance.bytes(FILE_BYTES);
            write_durably(&file(folder, index), &bytes);
            self.contents[index] = Some(bytes);
        }
    }

    /// Overwrites pieces in place, at any alignment.
    fn overwrite(&mut self, folder: &Path, count: u64) {
        for _ in 0..count {
            let index = self.chance.below(FILES) as usize;
            let Some(content) = &mut self.contents[index] else { continue };
            let at = self.chance.below(FILE_BYTES as u64 - 70_000) as usize;
            let count = 1 + self.chance.below(70_000);
            let piece = self.chance.bytes(count as usize);
            content[at..at + piece.len()].copy_from_slice(&piece);
            let file = File::options().write(true).open(file(folder, index)).unwrap();
            file.write_all_at(&piece, at as u64).unwrap();
            file.sync_all().unwrap();
        }
    }

    fn delete_every_other(&mut self, folder: &Path) {
        for index in (0..FILES as usize).step_by(2) {
            fs::remove_file(file(folder, index)).unwrap();
            self.contents[index] = None;
        }
        File::open(folder).unwrap().sync_all().unwrap();
    }

    fn verify(&self, folder: &Path) {
        for (index, content) in self.contents.iter().enumerate() {
            let found = fs::read(file(folder, index)).ok();
            assert!(found == *content, "seed {SEED}: file {index} in {}", folder.display());
        }
    }
}

fn file(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("file{index}"))
}

fn write_durably(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
}

/// What the server says is mapped in `v`.
fn mapped(store: &TestStore) -> u64 {
    let volumes = store.json("volume list s.mj --mapped");
    let volumes = volumes.as_array().unwrap();
    let v = volumes.iter().find(|volume| volume["name"] == "v").unwrap();
    v["mapped_bytes"].as_u64().unwrap()
}

/// Checks the file system in a file, and changes nothing.
fn fsck(file: &Path) {
    let said = tools::run(tools::command("e2fsck").args(["-f", "-n"]).arg(file));
    assert_eq!(said.code, Some(0), "e2fsck: {said:?}");
}

#[test]
fn ext4_is_sound_in_the_clone_of_a_snapshot_taken_while_mounted() {
    let name = "ext4_is_sound_in_the_clone_of_a_snapshot_taken_while_mounted";
    let of_ext4 = ["mkfs.ext4", "e2fsck", "dumpe2fs"];
    let of_mounts = ["nbdfuse", "fusermount3", "losetup", "mount", "fstrim"];
    if !tools::present_with_mounts(name, &[&of_ext4[..], &of_mounts].concat()) {
        return;
    }
    println!("seed {SEED}");
    let store = TestStore::new("256M", "96M");
    let server = store.serve();
    let mut files = Files { contents: vec![None; FILES as usize], chance: Chance::new(SEED) };
    {
        let fuse = Fuse::new(&store.uri("v"), store.path("v.img"));
        let device = Loop::new(fuse.file());
        tools::ok("mkfs.ext4", &["-q", device.device()]);
        let mount = Mount::new(device.device(), store.path("v.mount"), "noatime");
        let folder = mount.folder();

        // Filled, twice over, and overwritten.
        files.write_all(folder);
        files.write_all(folder);
        files.overwrite(folder, 200);
        let full = mapped(&store);
        assert!(full > FILES * FILE_BYTES as u64, "{full} mapped");

        // Trimmed: what the file system gives back, the volume gives back.
        files.delete_every_other(folder);
        tools::ok("fstrim", &[folder]);
        let trimmed = mapped(&store);
        let deleted = FILES / 2 * FILE_BYTES as u64;
        assert!(trimmed + deleted * 9 / 10 < full, "{full} mapped before, {trimmed} after");
        files.verify(folder);

        // Filled to the last block, and half of that deleted.
        let filler = Chance::new(1).bytes(1 << 20);
        let fillers = (0..).map(|index| folder.join(format!("filler{index}")));
        let full = fillers.take_while(|path| fs::write(path, &filler).is_ok()).count();
        assert!(full > 10, "{full} fillers");
        for index in 0..=full {
            fs::remove_file(folder.join(format!("filler{index}"))).unwrap();
        }
        files.overwrite(folder, 50);

        // A snapshot amid other files' coming and going.
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut chance = Chance::new(SEED + 1);
                while !is_over.load(Ordering::SeqCst) {
                    let path = folder.join(format!("busy{}", chance.below(8)));
                    if chance.percent(20) {
                        let _ = fs::remove_file(&path);
                    } else {
                        write_durably(&path, &chance.bytes(200_000));
                    }
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(300));
            store.ok("snapshot create s.mj v@live");
            std::thread::sleep(std::time::Duration::from_millis(200));
            is_over.store(true, Ordering::SeqCst);
        });
        // What comes after the snapshot is not in it.
        write_durably(&folder.join("later"), b"later");
        files.verify(folder);
    }

    store.ok("clone s.mj v@live w");
    {
        let fuse = Fuse::new(&store.uri("w"), store.path("w.img"));
        let head = tools::ok("dumpe2fs", &["-h".as_ref(), fuse.file()]);
        assert!(head.contains("needs_recovery"), "it was not mounted: {head}");
        {
            // Replays the journal, as after a power cut.
            let device = Loop::new(fuse.file());
            let mount = Mount::new(device.device(), store.path("w.mount"), "noatime");
            files.verify(mount.folder());
            assert!(!mount.folder().join("later").exists());
        }
        fsck(fuse.file());
    }

    // The original goes on, through a crash of the server after it was unmounted.
    server.kill();
    let server = store.serve();
    {
        let fuse = Fuse::new(&store.uri("v"), store.path("v.img"));
        fsck(fuse.file());
        let device = Loop::new(fuse.file());
        let mount = Mount::new(device.device(), store.path("v.mount"), "ro");
        files.verify(mount.folder());
        assert_eq!(fs::read(mount.folder().join("later")).unwrap(), b"later");
    }
    server.stop();
    store.check();
    store.ok("scrub s.mj");
}
