//! Results of single runs, kept as files, so that a sweep that was interrupted goes on where it
//! stood.
//!
//! A file is whole or absent: it is written under another name, made durable, and then renamed. It
//! is named after what it is the result of, and says it inside, so that a result is taken again
//! only for the same configuration, seed, inputs and program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Outcome, Version};

/// What a result is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The sort of run.
    pub kind: String,
    /// The whole configuration.
    pub configuration: serde_json::Value,
    /// The seed.
    pub seed: u64,
    /// Files that the run reads, with checksums of what is in them.
    pub inputs: Vec<(String, String)>,
    /// The program.
    #[serde(flatten)]
    pub version: Version,
}

impl Identity {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        let text = serde_json::to_string(self).expect("an identity is plain data");
        format!("{:016x}.json", fnv_1a(text.as_bytes()))
    }
}

/// FNV-1a, 64 bits: two identities of the same name are told apart by what is in the file.
pub(super) fn fnv_1a(bytes: &[u8]) -> u64 {
    fnv_1a_on(FNV_1A_START, bytes)
}

const FNV_1A_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv_1a_on(hash: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(hash, mix)
}

/// Checksums of files: each is read once, however many runs read it, and a piece at a time.
#[derive(Default)]
pub(super) struct Inputs(BTreeMap<PathBuf, String>);

impl Inputs {
    /// What an [`Identity`] says of a file.
    ///
    /// # Errors
    ///
    /// A sentence: it cannot be read.
    pub fn of(&mut self, path: &Path) -> Result<(String, String), String> {
        let shown = path.display().to_string();
        if let Some(sum) = self.0.get(path) {
            return Ok((shown, sum.clone()));
        }
        let sum = (|| {
            let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
            let mut hash = FNV_1A_START;
            loop {
                let piece = reader.fill_buf()?;
                if piece.is_empty() {
                    return Ok(format!("{hash:016x}"));
                }
                hash = fnv_1a_on(hash, piece);
                let length = piece.len();
                reader.consume(length);
            }
        })();
        let sum = sum.map_err(|error: io::Error| format!("reading {shown}: {error}"))?;
        self.0.insert(path.to_owned(), sum.clone());
        Ok((shown, sum))
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    identity: Identity,
    outcome: Outcome,
}

/// The files of one experiment's runs.
pub struct Ledger {
    folder: PathBuf,
    /// Held as long as this is.
    _lock: File,
}

/// Files that are being written begin so.
const UNFINISHED: &str = ".unfinished-";

impl Ledger {
    /// Opens the ledger in `folder`, making it if it is not there, and clears what a process that
    /// was killed left half-written.
    ///
    /// # Errors
    ///
    /// A sentence: the folder cannot be made or written, or another process uses it.
    pub fn open(folder: &Path) -> Result<Ledger, String> {
        let failed = |error: io::Error| format!("using {}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join(".lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(format!(
                    "another process is running this experiment into {}: wait for it, or choose \
                     another folder with --out",
                    folder.display()
                ));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(Ledger { folder: folder.to_owned(), _lock: lock })
    }

    /// The result of exactly that, if it is there. One that cannot be read counts as absent.
    pub fn find(&self, identity: &Identity) -> Option<Outcome> {
        let text = fs::read_to_string(self.folder.join(identity.file_name())).ok()?;
        let entry: Entry = serde_json::from_str(&text).ok()?;
        (entry.identity == *identity).then_some(entry.outcome)
    }

    /// Keeps a result.
    ///
    /// # Errors
    ///
    /// A sentence, with what to do where the disk is full. Nothing half-written is left.
    pub fn keep(&self, identity: &Identity, outcome: &Outcome) -> Result<(), String> {
        let entry = Entry { identity: identity.clone(), outcome: outcome.clone() };
        let mut text = serde_json::to_string_pretty(&entry).expect("a result is plain data");
        text.push('\n');
        write_whole(&self.folder.join(identity.file_name()), text.as_bytes())
    }
}

/// Removes a file that may not be there.
///
/// # Errors
///
/// A sentence: it is there, and stays.
pub fn remove_if_there(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("removing {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a file so that it is there whole or not at all, through a crash too.
///
/// # Errors
///
/// A sentence, with what to do where the disk is full.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let mut file = Unfinished::new(path)?;
    file.write(bytes)?;
    file.finish()
}

/// A file that is being written under another name, to be there whole or not at all.
pub struct Unfinished {
    path: PathBuf,
    file: BufWriter<tempfile::NamedTempFile>,
}

impl Unfinished {
    /// Begins the file at `path`.
    ///
    /// # Errors
    ///
    /// A sentence: it cannot be made there.
    pub fn new(path: &Path) -> Result<Self, String> {
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder_of(path));
        let file = file.map_err(|error| sentence(path, &error))?;
        Ok(Unfinished { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Writes more of it.
    ///
    /// # Errors
    ///
    /// A sentence, with what to do where the disk is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.file.write_all(bytes).map_err(|error| sentence(&self.path, &error))
    }

    /// Makes it durable, and gives it its name.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn finish(self) -> Result<(), String> {
        let Unfinished { path, file } = self;
        let finished = (|| {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            // Others may read it, as they may any other file that is made here.
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            }
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(folder_of(&path))?.sync_all()
        })();
        finished.map_err(|error| sentence(&path, &error))
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn sentence(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and give the same command again: what is done is kept"
        }
        io::ErrorKind::FileTooLarge => {
            "; raise the limit on the size of files and give the same command again"
        }
        _ => "",
    };
    format!("writing {}: {error}{advice}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(seed: u64) -> Identity {
        Identity {
            kind: "closed-form".to_owned(),
            configuration: serde_json::json!({ "spare": 0.07 }),
            seed,
            inputs: Vec::new(),
            version: Version { version: "1.2.3".to_owned(), build: "b".to_owned() },
        }
    }

    fn outcome(waf: f64) -> Outcome {
        Outcome { numbers: [("waf".to_owned(), waf)].into(), ..Outcome::default() }
    }

    #[test]
    fn what_is_kept_is_found_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join("points")).unwrap();
        let third = outcome(1.0 / 3.0 + 1e-16);
        ledger.keep(&identity(1), &third).unwrap();
        assert_eq!(ledger.find(&identity(1)), Some(third));
        assert_eq!(ledger.find(&identity(2)), None);
    }

    #[test]
    fn a_file_that_says_otherwise_or_is_cut_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        ledger.keep(&identity(1), &outcome(2.0)).unwrap();
        let path = folder.path().join(identity(1).file_name());
        fs::rename(&path, folder.path().join(identity(2).file_name())).unwrap();
        assert_eq!(ledger.find(&identity(2)), None, "it is of another seed");
        ledger.keep(&identity(1), &outcome(2.0)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(ledger.find(&identity(1)), None);
    }

    #[test]
    fn inputs_are_summed_piece_by_piece_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let bytes: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let mut inputs = Inputs::default();
        let first = inputs.of(&path).unwrap();
        assert_eq!(first.1, format!("{:016x}", fnv_1a(&bytes)));
        fs::remove_file(&path).unwrap();
        assert_eq!(inputs.of(&path).unwrap(), first, "it is not read again");
        assert!(Inputs::default().of(&path).unwrap_err().contains("reading"));
    }

    #[test]
    fn one_process_at_a_time_and_its_leavings_are_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        let refused = Ledger::open(folder.path()).err().unwrap();
        assert!(refused.contains("another process"), "{refused}");
        drop(ledger);
        let left = folder.path().join(".unfinished-x");
        fs::write(&left, "{").unwrap();
        Ledger::open(folder.path()).unwrap();
        assert!(!left.exists());
    }
}
