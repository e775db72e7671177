//! Ranges of volumes, as people write them.

use std::fmt;
use std::str::FromStr;

use mjolnir_units::ByteSize;

/// A byte range of a volume or snapshot, written `VOLUME:OFFSET+LENGTH`, such as `db:1G+64M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRange {
    /// Name of the volume, or `volume@snapshot`.
    pub target: String,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl FromStr for VolumeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape =
            || format!("{text:?} is not a range: write VOLUME:OFFSET+LENGTH, such as db:1G+64M");
        let (target, span) = text.rsplit_once(':').ok_or_else(shape)?;
        let (offset, length) = span.split_once('+').ok_or_else(shape)?;
        let size =
            |part: &str| part.parse::<ByteSize>().map_err(|why| format!("in {text:?}: {why}"));
        Ok(VolumeRange {
            target: target.to_owned(),
            offset: size(offset)?.0,
            length: size(length)?.0,
        })
    }
}

impl fmt::Display for VolumeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}+{}", self.target, self.offset, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_with_units() {
        let range: VolumeRange = "db@monday:1G+64K".parse().unwrap();
        assert_eq!(range.target, "db@monday");
        assert_eq!((range.offset, range.length), (1 << 30, 64 << 10));
        assert_eq!(range.to_string(), "db@monday:1073741824+65536");
    }

    #[test]
    fn what_is_no_range_is_named() {
        for text in ["db", "db:1G", "db:x+1", "db:1+"] {
            assert!(text.parse::<VolumeRange>().unwrap_err().contains(text));
        }
    }
}
