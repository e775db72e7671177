//! The values that pass through the Store contract.

use bytes::Bytes;
use mjolnir_buffer::Payload;
use mjolnir_units::TreeId;
use smallvec::SmallVec;

use crate::{Error, ErrorKind};

/// A volume or a snapshot, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInfo {
    /// `volume`, or `volume@snapshot`.
    pub name: String,
    /// Its id in data operations. Never reused while the store lives.
    pub id: TreeId,
    /// Size in bytes; a multiple of 512.
    pub size: u64,
    /// Snapshots are read-only.
    pub read_only: bool,
}

/// How durable a change must be before its operation completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// As durable as the next flush makes it.
    #[default]
    Buffered,
    /// Durable through any crash, with all that was acknowledged before it.
    Durable,
}

/// The result of a read: usually a single chunk, which takes no allocation.
pub type Chunks = SmallVec<[Chunk; 1]>;

/// A piece of a read's result, in address order.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes from a mapped region.
    Data(Payload),
    /// This many zero bytes, from a hole.
    Zeroes(u64),
}

impl Chunk {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Chunk::Data(bytes) => bytes.len() as u64,
            Chunk::Zeroes(length) => *length,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether a region holds data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Written, and not trimmed since.
    Data,
    /// Never written, or trimmed: reads as zeroes and takes no space.
    Hole,
}

/// A run of bytes with one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Data or hole.
    pub mapping: Mapping,
}

/// The mode of zeroing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMode {
    /// Give the space back; the region becomes a hole.
    Unmap,
    /// Keep space for later writes where the store can. In a log every write takes new space, so
    /// this store treats both alike and reports the hole.
    KeepAllocated,
}

/// One operation of an atomic vector. Offsets and lengths are bytes. Offsets are multiples of the
/// block size, and so are lengths, unless the range ends at the end of each of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write bytes.
    Write {
        /// Where to.
        to: TreeId,
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Make a range a hole.
    Trim {
        /// Where.
        of: TreeId,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Make `to` refer to the same blocks as `from`.
    Clone {
        /// Source volume or snapshot.
        from: TreeId,
        /// First source byte.
        from_offset: u64,
        /// Destination volume.
        to: TreeId,
        /// First destination byte.
        to_offset: u64,
        /// Bytes.
        length: u64,
    },
    /// As clone, and the source becomes a hole (where the destination does not cover it).
    Move {
        /// Source volume.
        from: TreeId,
        /// First source byte.
        from_offset: u64,
        /// Destination volume.
        to: TreeId,
        /// First destination byte.
        to_offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// Longest name of a volume, and of a snapshot within its volume, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Refuses names that would be ambiguous in `volume@snapshot` or `VOLUME:OFFSET+LENGTH`, or
/// unsafe to print.
pub fn check_name(name: &str) -> Result<(), Error> {
    let refuse = |why: &str| {
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{name:?} cannot be a name: {why}; use 1 to {NAME_BYTES_MAX} letters, digits, \
                 '.', '_' or '-', starting with a letter or digit"
            ),
        ))
    };
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return refuse("it is too long");
    }
    if let Some(odd) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c))) {
        return refuse(&format!("it contains {odd:?}"));
    }
    if !name.as_bytes()[0].is_ascii_alphanumeric() {
        return refuse("it does not start with a letter or digit");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_ambiguous_or_unsafe_are_refused_with_the_reason() {
        assert!(check_name("db-1.log_2").is_ok());
        for name in ["", "-x", ".x", "a b", "a@b", "a:b", "a/b", "é", "a\n", &"x".repeat(129)] {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains("cannot be a name"), "{error}");
        }
    }
}
