//! A [`WarmLog`] in a file of a memory file system (tmpfs), which outlives the process.
//!
//! The file is named after the store. It holds clients' data, so only its owner can read it. Its
//! first part is a ring of entries (`ring.rs`), the rest is memory for payload. It is valid only
//! for the same store, the same start of the machine, and the device that its name contains: so a
//! copied store never takes another store's log. A user who renames the file, or the pointer that
//! leads to it (`pointer.rs`), assigns it to another device. The server holds a lock on it, so that
//! other processes see that it is in use.

mod elsewhere;
mod place;
mod pointer;
mod report;
mod ring;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{File, remove_file};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_device::{
    AlignedBuf, Buffers, Opening, SharedPage, WarmElsewhere, WarmEntry, WarmLog, use_huge_pages,
};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use crate::HostDevice;

pub use place::WarmPlace;
pub use report::{WarmLeft, WarmReport};
pub(crate) use ring::decode;
use ring::{Entry, Head, PAGE_BYTES, RING_AT, RING_BYTES};

/// The least memory for payload that is worth it.
const PAYLOAD_BYTES_MIN: usize = 4 << 20;

/// What tells one store and its copies from all others, while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Of this start of the machine.
    pub boot: [u8; 16],
    /// Of the container.
    pub uuid: [u8; 16],
}

/// See the module.
pub struct WarmFile {
    key: Key,
    /// Files in which it may lie, the best first. All have the same name.
    places: Vec<PathBuf>,
    /// The first of them was named: no other one will do.
    is_named: bool,
    /// The owner of the store.
    owner: u32,
    /// A process that serves nobody takes over what is left, and leaves nothing.
    serves: bool,
    left: Option<Left>,
    /// What processes before the last one left: it is of no use, and goes with the rest.
    stale: Vec<PathBuf>,
    /// Those that lead to what was left.
    pointers: Vec<PathBuf>,
    open: Option<Open>,
    report: Rc<RefCell<WarmReport>>,
}

/// What the last process left.
struct Left {
    path: PathBuf,
    opening: Opening,
    page: SharedPage,
    entries: Vec<Entry>,
}

/// What is being written.
struct Open {
    path: PathBuf,
    /// Leads to it, if it lies in none of the usual folders.
    pointer: Option<PathBuf>,
    /// It is locked.
    _file: File,
    page: SharedPage,
    /// Bytes of the ring ever written, and of those no longer needed.
    tail: u64,
    head: u64,
    /// The number of each entry, and where it ends.
    ends: VecDeque<(u64, u64)>,
    bytes: Vec<u8>,
}

impl WarmFile {
    /// Looks for what the last process left of a store that is open here, in the places that are usual or named.
    /// With `serves`, the log goes on in the first of them that has room, or in the one that is named.
    pub fn find(device: &HostDevice, place: &WarmPlace, serves: bool) -> io::Result<Self> {
        WarmFile::search(device, place, serves, true)
    }

    /// The same in the usual places, to give up what was left, as far as this user may.
    pub fn find_to_give_up(device: &HostDevice) -> io::Result<Self> {
        WarmFile::search(device, &WarmPlace::default(), false, false)
    }

    fn search(
        device: &HostDevice,
        place: &WarmPlace,
        serves: bool,
        is_strict: bool,
    ) -> io::Result<Self> {
        let meta = device.file().metadata()?;
        // The file system of the store's file and its inode there; of a block device its number, and 0.
        let device_key = match meta.file_type().is_block_device() {
            true => (meta.rdev(), 0),
            false => (meta.dev(), meta.ino()),
        };
        let uuid = mjolnir_device::Device::info(device).uuid;
        let key = Key { boot: place::boot()?, uuid };
        let name = place::name(&uuid, device_key);
        let places = place.folders().into_iter().map(|folder| folder.join(&name)).collect();
        let found = WarmFile::of(key, places, meta.uid(), serves, is_strict)?;
        Ok(WarmFile { is_named: matches!(place, WarmPlace::Folder(_)), ..found })
    }

    /// Unless it `is_strict`, what this user may not use is passed over.
    fn of(
        key: Key,
        places: Vec<PathBuf>,
        owner: u32,
        serves: bool,
        is_strict: bool,
    ) -> io::Result<Self> {
        let mut searched: Vec<(PathBuf, Option<PathBuf>)> =
            places.iter().map(|path| (path.clone(), None)).collect();
        let mut pointers = Vec::new();
        for pointer in places.iter().map(|path| pointer::of(path)) {
            if let Some(log) =
                pointer::read(&pointer, owner).or_else(|error| passed(error, is_strict))?
            {
                pointers.push(pointer.clone());
                searched.push((log, Some(pointer)));
            }
        }
        let mut found: Vec<Left> = Vec::new();
        for (path, pointer) in &searched {
            match (
                place::open_existing(path, owner).or_else(|error| passed(error, is_strict))?,
                pointer,
            ) {
                (Some(_), _) if found.iter().any(|left| left.path == *path) => {}
                (Some(file), _) => found.extend(Left::find(path, &file, &key)),
                (None, Some(pointer)) if is_strict => return Err(pointer::dangles(pointer, path)),
                (None, _) => {}
            }
        }
        // Several, if servers were started with different places: only the newest may count.
        found.sort_by_key(|left| left.opening.epoch);
        let left = found.pop();
        let stale = found.into_iter().map(|left| left.path).collect();
        let told = left.as_ref().map(Left::report);
        let report = Rc::new(RefCell::new(WarmReport { left: told, ..WarmReport::default() }));
        let (is_named, open) = (false, None);
        Ok(WarmFile { key, places, is_named, owner, serves, left, stale, pointers, open, report })
    }

    /// What there is to tell of it: more, once the store is open.
    pub fn report(&self) -> Rc<RefCell<WarmReport>> {
        self.report.clone()
    }

    /// Where the log lies, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| &*open.path)
    }

    /// What a process that is gone left of this opening in a file.
    fn left_of(&self, path: &Path, opening: Opening) -> Option<Left> {
        let file = place::open_existing(path, self.owner).ok()??;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        Left::find(path, &file, &self.key).filter(|left| left.opening == opening)
    }

    /// Makes a pointer to a log that lies in none of the usual folders.
    fn point_to(&self, log: &Path) -> Option<PathBuf> {
        if place::is_usual(log) {
            return None;
        }
        let usual = self.places.iter().filter(|path| place::is_usual(path));
        let made = pointer::write(usual, log);
        made.map_err(|why| self.report.borrow_mut().is_hidden(log, &why)).ok()
    }

    fn remove_left(&mut self) {
        // They are of no more use: what they held is on the device. A pointer without its log would keep a store
        // from being opened, so pointers go first.
        let left = self.left.take().map(|left| left.path);
        for path in self.pointers.drain(..).chain(left).chain(self.stale.drain(..)) {
            let _ = remove_file(path);
        }
    }
}

impl Left {
    fn find(path: &Path, file: &File, key: &Key) -> Option<Self> {
        let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if bytes < PAGE_BYTES {
            return None;
        }
        let page = SharedPage::map(file, bytes, PAGE_BYTES).ok()?;
        let head = Head::read(&page)?;
        if head.key != *key {
            return None;
        }
        let entries = ring::entries(&page, head.first, head.end);
        Some(Left { path: path.to_owned(), opening: head.opening, page, entries })
    }

    fn report(&self) -> WarmLeft {
        let bytes = self.entries.iter().map(|entry| entry.payload_bytes as u64).sum();
        WarmLeft { path: self.path.clone(), records: self.entries.len() as u64, bytes }
    }

    fn told(&self) -> Vec<WarmEntry> {
        let told = |entry: &Entry| WarmEntry {
            sequence: entry.sequence,
            record: entry.record.clone(),
            payload_bytes: entry.payload_bytes,
            checksum: entry.checksum,
        };
        self.entries.iter().map(told).collect()
    }
}

/// Nothing in place of what this user may not use, unless it `is_strict`.
fn passed<T>(error: io::Error, is_strict: bool) -> io::Result<Option<T>> {
    if is_strict { Err(error) } else { Ok(None) }
}

/// A new file with room for so many bytes, all of which are there. It is locked.
fn allocate(path: &Path, bytes: usize) -> io::Result<File> {
    let file = place::create(path)?;
    let fill = || -> io::Result<()> {
        // Whoever looks whether it is locked has it for a moment.
        flock(&file, FlockOperation::LockExclusive)?;
        file.set_len(bytes as u64)?;
        use_huge_pages(&file, bytes);
        Ok(fallocate(file.as_fd(), FallocateFlags::empty(), 0, bytes as u64)?)
    };
    match fill() {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = remove_file(path);
            Err(error)
        }
    }
}

impl WarmLog for WarmFile {
    fn opening(&self) -> Option<Opening> {
        self.left.as_ref().map(|left| left.opening)
    }

    fn place(&self) -> String {
        self.left.as_ref().map(|left| left.path.display().to_string()).unwrap_or_default()
    }

    fn elsewhere(&self, opening: Opening) -> Option<WarmElsewhere> {
        let replaced = self.left.as_ref().map(|left| &*left.path);
        elsewhere::others(&self.places, &self.key.uuid, self.owner).into_iter().find_map(|other| {
            let left = self.left_of(&other.log, opening).filter(|left| !left.entries.is_empty())?;
            let (place, take) = (other.log.display().to_string(), other.take(replaced));
            Some(WarmElsewhere { place, take, entries: left.told() })
        })
    }

    fn entries(&mut self) -> Vec<WarmEntry> {
        self.left.as_ref().map(Left::told).unwrap_or_default()
    }

    fn payload(&mut self, entry: usize) -> Option<Bytes> {
        let left = self.left.as_mut()?;
        let entry = left.entries.get(entry)?;
        let mut buffer = AlignedBuf::zeroed(entry.payload_bytes);
        if entry.payload_bytes > 0 && !left.page.read_arena(entry.payload_at, buffer.as_mut()) {
            return None;
        }
        Some(buffer.freeze())
    }

    fn begin(
        &mut self,
        opening: Opening,
        payload_bytes: usize,
        kept_bytes: usize,
    ) -> Result<Buffers, String> {
        self.remove_left();
        if !self.serves {
            return Err("nobody is served".into());
        }
        let places = if self.is_named { &self.places[..1] } else { &self.places[..] };
        let mut why = String::from("no place for it is a memory file system");
        let mut failed = Vec::new();
        for path in places {
            let mut bytes = payload_bytes;
            while bytes >= PAYLOAD_BYTES_MIN.min(payload_bytes) {
                let all = PAGE_BYTES + bytes;
                let made = allocate(path, all).and_then(|file| {
                    SharedPage::map(&file, all, PAGE_BYTES).map(|page| (file, page))
                });
                match made {
                    Ok((_file, mut page)) => {
                        let buffers = Buffers::keeping_in(kept_bytes, page.arena().clone());
                        Head { key: self.key, opening, first: 0, end: 0 }.write(&mut page);
                        self.report.borrow_mut().begin(path, failed);
                        let (path, pointer) = (path.clone(), self.point_to(path));
                        let (ends, bytes) = (VecDeque::new(), Vec::new());
                        let (tail, head) = (0, 0);
                        let open = Open { path, pointer, _file, page, tail, head, ends, bytes };
                        self.open = Some(open);
                        return Ok(buffers);
                    }
                    Err(error) => {
                        why = format!("{}, of {all} bytes: {error}", path.display());
                        if bytes / 2 < PAYLOAD_BYTES_MIN && place::is_worth_a_word(path, &error) {
                            failed.push(why.clone());
                        }
                    }
                }
                bytes /= 2;
            }
        }
        Err(why)
    }

    fn note(&mut self, sequence: u64, record: &[u8], payload: &[u8], checksum: u32) -> bool {
        let Some(open) = &mut self.open else { return false };
        let payload_at = match payload.is_empty() {
            true => 0,
            false => match open.page.arena().place_of(payload) {
                Some(at) => at,
                None => return false,
            },
        };
        open.bytes.clear();
        ring::encode(&mut open.bytes, sequence, record, payload_at, payload.len(), checksum);
        if open.tail - open.head + open.bytes.len() as u64 > RING_BYTES as u64 {
            return false;
        }
        ring::put(&mut open.page, open.tail, &open.bytes);
        open.tail += open.bytes.len() as u64;
        open.page.store(ring::END_AT, open.tail);
        open.ends.push_back((sequence, open.tail));
        true
    }

    fn forget(&mut self, sequence: u64) {
        let Some(open) = &mut self.open else { return };
        let before = open.head;
        while let Some((_, end)) = open.ends.pop_front_if(|(number, _)| *number <= sequence) {
            open.head = end;
        }
        if open.head != before {
            open.page.store(ring::FIRST_AT, open.head);
        }
    }

    fn end(&mut self) {
        self.remove_left();
        if let Some(open) = self.open.take() {
            for path in open.pointer.iter().chain([&open.path]) {
                let _ = remove_file(path);
            }
        }
    }
}

const _: () = assert!(RING_AT + RING_BYTES == PAGE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { boot: [1; 16], uuid: [4; 16] };

    fn of_epoch(epoch: u64) -> Opening {
        Opening { epoch, number: 1000 + epoch }
    }

    fn server(folder: &Path) -> WarmFile {
        of(KEY, &folder.join("it.warm"), true)
    }

    fn of(key: Key, path: &Path, serves: bool) -> WarmFile {
        WarmFile::of(key, vec![path.to_owned()], 0, serves, true).unwrap()
    }

    fn payload(buffers: &Buffers, byte: u8, blocks: usize) -> Bytes {
        let mut buffer = buffers.take(4096 * blocks);
        buffer.as_mut().fill(byte);
        buffer.freeze()
    }

    #[test]
    fn a_process_that_ends_leaves_what_it_did_not_forget() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut warm = server(folder.path());
        assert_eq!((warm.opening(), warm.entries().len()), (None, 0));
        let buffers = warm.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        let payloads: Vec<Bytes> = (0..6).map(|byte| payload(&buffers, byte, 2)).collect();
        for (number, payload) in (1..).zip(&payloads) {
            assert!(warm.note(number, b"record", payload, number as u32));
        }
        assert!(warm.note(7, b"without payload", &[], 0));
        warm.forget(2);
        assert!(!warm.note(8, b"x", &[1; 4096], 0), "its payload would be gone");
        drop((payloads, warm, buffers));

        let mut heir = server(folder.path());
        assert_eq!(heir.opening(), Some(of_epoch(7)));
        let entries = heir.entries();
        assert_eq!(entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        assert_eq!((&*entries[0].record, entries[0].checksum), (&b"record"[..], 3));
        assert_eq!(heir.payload(0).unwrap(), [2; 8192][..]);
        assert_eq!(heir.payload(4).unwrap().len(), 0);
        assert_eq!(heir.payload(5), None);
        heir.begin(of_epoch(8), 8 << 20, 1 << 20).unwrap();
        drop(heir);
        let mut heir = server(folder.path());
        assert_eq!((heir.opening(), heir.entries().len()), (Some(of_epoch(8)), 0));
        heir.end();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_belongs_to_another_store_or_start_of_the_machine_is_not_found() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut warm = server(folder.path());
        warm.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        assert!(warm.note(1, b"record", &[], 0));
        for key in [Key { boot: [9; 16], ..KEY }, Key { uuid: [5; 16], ..KEY }] {
            let other = of(key, &folder.path().join("it.warm"), true);
            assert_eq!(other.opening(), None);
        }
    }

    /// One that is in use belongs to a store that is served; one of another opening to a store that went on.
    #[test]
    fn what_another_device_number_hides_is_told_and_the_name_decides() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let [old, new] =
            [(2, 3), (2, 4)].map(|key| folder.path().join(place::name(&KEY.uuid, key)));
        let mut warm = of(KEY, &old, true);
        warm.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        assert!(warm.note(1, b"record", &[], 5));
        let heir = || of(KEY, &new, false);
        assert_eq!(heir().elsewhere(of_epoch(7)), None, "its server runs");
        drop(warm);
        assert_eq!(heir().opening(), None);
        let told = heir().elsewhere(of_epoch(7)).unwrap();
        assert_eq!(told.place, old.display().to_string());
        assert_eq!(told.take, format!("mv {} {}", old.display(), new.display()));
        assert_eq!(told.entries.len(), 1);
        assert_eq!(heir().elsewhere(Opening { number: 1, ..of_epoch(7) }), None);
        assert_eq!(of(Key { boot: [9; 16], ..KEY }, &new, false).elsewhere(of_epoch(7)), None);
        assert_eq!(of(KEY, &old, false).elsewhere(of_epoch(7)), None, "it is its own");
        std::fs::rename(&old, &new).unwrap();
        assert_eq!((heir().opening(), heir().entries()), (Some(of_epoch(7)), told.entries));
    }

    /// Runs the command that is told, as a user does.
    fn run(command: &str) {
        assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
    }

    /// Its folder is known to none but the server that made it.
    #[test]
    fn what_another_number_hides_in_a_folder_of_its_own_is_told_and_its_pointer_is_renamed() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let [old, new] =
            [(2, 3), (2, 4)].map(|key| folder.path().join(place::name(&KEY.uuid, key)));
        let mine = folder.path().join("mine");
        std::fs::create_dir(&mine).unwrap();
        let log = mine.join(old.file_name().unwrap());
        let mut warm = of(KEY, &log, true);
        warm.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        assert!(warm.note(1, b"record", &[], 5));
        pointer::write([old.clone()].iter(), &log).unwrap();
        let heir = || of(KEY, &new, false);
        assert_eq!(heir().elsewhere(of_epoch(7)), None, "its server runs");
        drop(warm);
        assert_eq!(of(KEY, &old, false).opening(), Some(of_epoch(7)), "it is its own");
        assert_eq!(heir().opening(), None);
        let told = heir().elsewhere(of_epoch(7)).unwrap();
        assert_eq!(told.place, log.display().to_string());
        // Who knows the folder is told the same: others would not find a log that was renamed there.
        let named = vec![mine.join(new.file_name().unwrap()), new.clone()];
        let named = WarmFile::of(KEY, named, 0, false, true).unwrap();
        assert_eq!(named.elsewhere(of_epoch(7)), Some(told.clone()));
        run(&told.take);
        assert_eq!((heir().opening(), heir().entries()), (Some(of_epoch(7)), told.entries));
        assert_eq!(of(KEY, &old, false).opening(), None);
        heir().end();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert!(left.len() == 1 && std::fs::read_dir(&mine).unwrap().next().is_none(), "{left:?}");
    }

    /// A pointer whose log is gone hides nothing.
    #[test]
    fn another_numbers_pointer_that_leads_nowhere_is_no_error() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let [old, new] =
            [(2, 3), (2, 4)].map(|key| folder.path().join(place::name(&KEY.uuid, key)));
        pointer::write([old].iter(), Path::new("/nonexistent/it.warm")).unwrap();
        assert_eq!(of(KEY, &new, false).elsewhere(of_epoch(7)), None);
    }

    /// What counts is the newest, so one of another history must not stay beside what is taken.
    #[test]
    fn what_is_taken_replaces_what_belongs_to_another_history() {
        for by_pointer in [false, true] {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let [old, new] =
                [(2, 3), (2, 4)].map(|key| folder.path().join(place::name(&KEY.uuid, key)));
            let foreign = folder.path().join("other.warm");
            let log = if by_pointer { folder.path().join("mine.warm") } else { old.clone() };
            for (path, epoch) in [(&log, 7), (&foreign, 9)] {
                let mut warm = of(KEY, path, true);
                warm.begin(of_epoch(epoch), 8 << 20, 1 << 20).unwrap();
                assert!(warm.note(epoch, b"record", &[], 5));
            }
            if by_pointer {
                pointer::write([old.clone()].iter(), &log).unwrap();
            }
            let heir = || {
                let places = vec![foreign.clone(), new.clone()];
                WarmFile::of(KEY, places, 0, false, true).unwrap()
            };
            assert_eq!(heir().opening(), Some(of_epoch(9)));
            run(&heir().elsewhere(of_epoch(7)).unwrap().take);
            assert_eq!(heir().opening(), Some(of_epoch(7)));
            heir().end();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn the_ring_goes_round_and_is_full_for_a_while() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut warm = server(folder.path());
        warm.begin(of_epoch(1), 8 << 20, 1 << 20).unwrap();
        let record = [5; 300];
        let (mut number, mut full) = (1, 0);
        for _ in 0..5 * RING_BYTES / 300 {
            if warm.note(number, &record, &[], 9) {
                number += 1;
            } else {
                full += 1;
                warm.forget(number - 20);
            }
        }
        assert!(full >= 3, "{full}");
        drop(warm);
        let found = server(folder.path()).entries();
        assert!(found.iter().all(|entry| entry.record == record && entry.checksum == 9));
        let numbers: Vec<u64> = found.iter().map(|entry| entry.sequence).collect();
        assert_eq!(numbers.last(), Some(&(number - 1)));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    }

    #[test]
    fn of_several_the_newest_counts_and_none_is_left() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let paths: Vec<PathBuf> = ["a", "b", "c"].map(|name| folder.path().join(name)).into();
        for (path, epoch) in paths.iter().zip([5, 7, 6]) {
            of(KEY, path, true).begin(of_epoch(epoch), 8 << 20, 1 << 20).unwrap();
        }
        let mut heir = WarmFile::of(KEY, paths, 0, false, true).unwrap();
        assert_eq!(heir.opening(), Some(of_epoch(7)));
        heir.end();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Whoever has the old one mapped goes on with it.
    #[test]
    fn beginning_anew_changes_nothing_in_what_was_there() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut first = server(folder.path());
        let buffers = first.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        let data = payload(&buffers, 9, 2);
        assert!(first.note(1, b"record", &data, 0));
        let mut other = of(Key { boot: [9; 16], ..KEY }, &folder.path().join("it.warm"), true);
        let others = other.begin(of_epoch(3), 8 << 20, 1 << 20).unwrap();
        drop(payload(&others, 5, 2));
        assert!(data.iter().all(|byte| *byte == 9));
    }

    #[test]
    fn a_command_takes_over_and_leaves_nothing() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut warm = server(folder.path());
        warm.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        assert!(warm.note(1, b"record", &[], 0));
        drop(warm);
        let mut command = of(KEY, &folder.path().join("it.warm"), false);
        assert_eq!(command.entries().len(), 1);
        assert!(command.begin(of_epoch(8), 8 << 20, 1 << 20).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A log in a folder that its finder was not told of, and the pointer to it.
    fn pointed(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
        let (mine, usual) = (folder.join("mine.warm"), folder.join("it.warm"));
        let mut warm = of(KEY, &mine, true);
        warm.begin(of_epoch(7), 8 << 20, 1 << 20).unwrap();
        assert!(warm.note(1, b"record", &[], 0));
        let pointer = pointer::write([usual.clone()].iter(), &mine).unwrap();
        (mine, usual, pointer)
    }

    #[test]
    fn a_pointer_leads_to_a_log_and_goes_with_it() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (mine, usual, _) = pointed(folder.path());
        let mut heir = of(KEY, &usual, false);
        assert_eq!(heir.entries().len(), 1);
        let left = WarmLeft { path: mine, records: 1, bytes: 0 };
        assert_eq!(heir.report().borrow().left, Some(left));
        heir.end();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_pointer_that_leads_nowhere_is_an_error_until_it_is_given_up() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (mine, usual, pointer) = pointed(folder.path());
        remove_file(&mine).unwrap();
        let find = |is_strict| WarmFile::of(KEY, vec![usual.clone()], 0, false, is_strict);
        let why = find(true).err().unwrap().to_string();
        assert!(why.contains(mine.to_str().unwrap()) && why.contains(pointer.to_str().unwrap()));
        find(false).unwrap().end();
        assert!(find(true).unwrap().entries().is_empty());
    }

    #[test]
    fn a_folder_that_is_named_is_the_only_one() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let places = vec!["/nonexistent/it.warm".into(), folder.path().join("it.warm")];
        for is_named in [true, false] {
            let found = WarmFile::of(KEY, places.clone(), 0, true, true).unwrap();
            let mut warm = WarmFile { is_named, ..found };
            assert_eq!(warm.begin(of_epoch(1), 8 << 20, 1 << 20).is_err(), is_named);
            assert_eq!(warm.report().borrow().path.is_none(), is_named);
        }
    }

    #[test]
    fn without_room_there_is_a_reason() {
        let mut warm = of(KEY, Path::new("/nonexistent/it.warm"), true);
        let why = warm.begin(of_epoch(1), 8 << 20, 1 << 20).unwrap_err();
        assert!(why.contains("/nonexistent/it.warm"), "{why}");
        assert!(!warm.note(1, b"record", &[], 0));
    }
}
