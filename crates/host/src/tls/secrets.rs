//! Files with secrets: the check of their permissions, and the parser of pre-shared keys.
//!
//! No error here repeats a file's content: even a malformed line may contain a key.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{HostError, HostErrorKind};

/// The longest file read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The longest identity, in bytes: some TLS libraries take no longer ones.
const IDENTITY_BYTES_MAX: usize = 128;
/// The shortest key, in bytes: a shorter one can be guessed, and a recorded handshake lets an
/// attacker try.
const KEY_BYTES_MIN: usize = 16;
/// The longest key, in bytes: some TLS libraries take no longer ones.
const KEY_BYTES_MAX: usize = 64;
/// Forbidden permissions of a secret's file: any for its group or for others.
const MODE_FORBIDDEN: u32 = 0o077;

/// Reads a file that holds secrets; `what` names it in errors.
///
/// # Errors
///
/// [`Invalid`](HostErrorKind::Invalid) if others than its owner may access the file, or if it is no
/// file or too long; [`Io`](HostErrorKind::Io) if it cannot be read.
pub(super) fn read_secret(path: &Path, what: &str) -> Result<Vec<u8>, HostError> {
    let name = path.display();
    let failed = || HostError::of(format!("reading the {what} {name}"));
    let invalid = |why: String| HostError::new(HostErrorKind::Invalid, why);
    let file = File::open(path).map_err(failed())?;
    // Checks the open file: the path may lead to another file meanwhile.
    let meta = file.metadata().map_err(failed())?;
    if !meta.is_file() {
        return Err(invalid(format!("the {what} {name} is not a plain file")));
    }
    if meta.mode() & MODE_FORBIDDEN != 0 {
        return Err(invalid(format!(
            "the {what} {name} can be accessed by others (its mode is {:o}); it is secret: run \
             `chmod 600 {name}`, and renew it if others may have read it",
            meta.mode() & 0o7777
        )));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(invalid(format!("the {what} {name} is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Pre-shared keys by identity. Printing this shows only their number.
#[derive(Default)]
pub(super) struct PskFile {
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl fmt::Debug for PskFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PskFile({} keys)", self.keys.len())
    }
}

impl PskFile {
    /// Reads a file of `identity:key` lines, as `psktool` writes it.
    ///
    /// # Errors
    ///
    /// As [`read_secret`]; [`Invalid`](HostErrorKind::Invalid), with the number of the line, for a
    /// malformed line or a key that is too short.
    pub(super) fn load(path: &Path) -> Result<Self, HostError> {
        let bytes = read_secret(path, "file of pre-shared keys")?;
        let parsed = Self::parse(&bytes).and_then(|file| match file.keys.is_empty() {
            true => Err("it has no keys; make one with `psktool -u NAME -p FILE`".into()),
            false => Ok(file),
        });
        parsed.map_err(|why| {
            let name = path.display();
            let context = format!("in the file of pre-shared keys {name}: {why}");
            HostError::new(HostErrorKind::Invalid, context)
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut file = PskFile::default();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let (identity, key) =
                parse_line(line).map_err(|why| format!("line {}: {why}", index + 1))?;
            if file.keys.insert(identity, key).is_some() {
                return Err(format!("line {}: its identity has a key already", index + 1));
            }
        }
        Ok(file)
    }

    /// The key of an identity.
    pub(super) fn key(&self, identity: &[u8]) -> Option<&[u8]> {
        self.keys.get(identity).map(Vec::as_slice)
    }
}

fn parse_line(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    // Splits at the last colon: an identity may have colons, a key cannot.
    let colon = line.iter().rposition(|byte| *byte == b':');
    let colon = colon.ok_or("it is not of the form identity:key, as psktool writes it")?;
    let (identity, key) = (&line[..colon], &line[colon + 1..]);
    let identity = match identity.strip_prefix(b"#") {
        // How psktool writes names with odd characters.
        Some(hex) => from_hex(hex).ok_or("its identity begins with #, and is not hexadecimal")?,
        None => identity.to_vec(),
    };
    if identity.is_empty() || identity.len() > IDENTITY_BYTES_MAX || identity.contains(&0) {
        return Err(format!("an identity has 1 to {IDENTITY_BYTES_MAX} bytes, none of them zero"));
    }
    let key = from_hex(key).ok_or("its key is not hexadecimal")?;
    if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(format!(
            "its key has {} bytes; write {KEY_BYTES_MIN} to {KEY_BYTES_MAX} of them",
            key.len()
        ));
    }
    Ok((identity, key))
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0F";

    #[test]
    fn what_psktool_writes_is_read() {
        let text = format!("alice:{KEY}\n#62c3b6623a:{KEY}ff\r\n\na:b:{KEY}");
        let file = PskFile::parse(text.as_bytes()).unwrap();
        assert_eq!(file.key(b"alice").unwrap(), (0..16).collect::<Vec<u8>>());
        assert_eq!(file.key("böb:".as_bytes()).unwrap().len(), 17);
        assert!(file.key(b"a:b").is_some());
        assert_eq!(file.key(b"mallory"), None);
        assert_eq!(format!("{file:?}"), "PskFile(3 keys)", "no key is printed");
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line_and_never_repeated() {
        let long = "ab".repeat(KEY_BYTES_MAX + 1);
        for (line, complaint) in [
            ("5ecre7", "identity:key"),
            ("alice:5ecre7", "not hexadecimal"),
            ("alice:5ec2e70", "not hexadecimal"),
            ("alice:5ec2e7", "3 bytes"),
            (&format!("alice:{long}"), "65 bytes"),
            (&format!(":{KEY}"), "1 to 128 bytes"),
            (&format!("#5ecre7:{KEY}"), "begins with #"),
            (&format!("#00:{KEY}"), "none of them zero"),
            (&format!("bob:{KEY}"), "already"),
        ] {
            let error = PskFile::parse(format!("bob:{KEY}\n{line}\n").as_bytes()).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(complaint), "{error}");
            assert!(!error.contains("5ec") && !error.contains(KEY), "{error}");
        }
    }

    #[test]
    fn secrets_that_others_may_access_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.psk");
        fs::write(&path, format!("alice:{KEY}\n")).unwrap();
        for (mode, fine) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match PskFile::load(&path) {
                Ok(_) => assert!(fine, "{mode:o}"),
                Err(error) => {
                    assert!(!fine && error.context.contains("chmod 600"), "{mode:o}: {error}");
                }
            }
        }
        let error = PskFile::load(folder.path()).unwrap_err();
        assert!(error.context.contains("not a plain file"), "{error}");
        let error = PskFile::load(&folder.path().join("none")).unwrap_err();
        assert_eq!(error.kind, HostErrorKind::Io);
        let empty = folder.path().join("empty");
        fs::write(&empty, "\n").unwrap();
        fs::set_permissions(&empty, Permissions::from_mode(0o600)).unwrap();
        assert!(PskFile::load(&empty).unwrap_err().context.contains("psktool"));
    }
}
