//! Logs of a store whose device had another number, or of a store that this one is a copy of, and
//! the command that makes this store find one. The name of a log, or of the pointer that leads to
//! it, identifies its owner.

use std::path::{Path, PathBuf};

use super::{place, pointer};

/// One that may be such a log.
pub(super) struct Other {
    pub log: PathBuf,
    /// Leads to it. Without one, only who knows the folder finds it, or it is a usual one.
    pointer: Option<PathBuf>,
    /// What the log is called for this store; if there is a pointer, what that is called.
    name: PathBuf,
}

/// All that lie beside these places of a log of this store, or to which a pointer leads that lies there.
pub(super) fn others(places: &[PathBuf], uuid: &[u8; 16], owner: u32) -> Vec<Other> {
    let mut found: Vec<Other> = Vec::new();
    for name in places.iter().map(|place| pointer::of(place)) {
        for pointer in place::others(&name, uuid) {
            if let Ok(Some(log)) = pointer::read(&pointer, owner) {
                found.push(Other { log, pointer: Some(pointer), name: name.clone() });
            }
        }
    }
    for name in places {
        for log in place::others(name, uuid) {
            if found.iter().all(|other| other.log != log) {
                found.push(Other { log, pointer: None, name: name.clone() });
            }
        }
    }
    found
}

impl Other {
    /// The command, for a shell. It has the log take the place of one that does not belong to this store and would be
    /// found beside it, `replaced`.
    pub(super) fn take(&self, replaced: Option<&Path>) -> String {
        let log = quoted(&self.log);
        match (replaced, &self.pointer) {
            (None, Some(pointer)) => format!("mv {} {}", quoted(pointer), quoted(&self.name)),
            (None, None) => format!("mv {log} {}", quoted(&self.name)),
            (Some(replaced), None) => format!("mv {log} {}", quoted(replaced)),
            (Some(replaced), Some(pointer)) => {
                // Nothing is left that leads nowhere.
                format!("mv {log} {} && rm {}", quoted(replaced), quoted(pointer))
            }
        }
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_the_same_in_a_shell() {
        assert_eq!(quoted(Path::new("/run/it-1.warm")), "/run/it-1.warm");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
