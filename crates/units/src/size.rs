//! Sizes with units, as people write them.

use std::fmt;
use std::str::FromStr;

/// A size in bytes, written `10G`, `512KiB`, `4096`: units are powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSizeError {
    text: String,
    why: &'static str,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a size: {} (write a number and a unit of B, K, M, G, T, P or E, such as 10G)",
            self.text, self.why
        )
    }
}

impl std::error::Error for ParseSizeError {}

const UNITS: [(&str, u32); 7] =
    [("", 0), ("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50), ("E", 60)];

impl FromStr for ByteSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let fail = |why| ParseSizeError { text: text.to_owned(), why };
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(fail("it does not start with a digit"));
        }
        let number: u64 =
            trimmed[..digits].parse().map_err(|_| fail("the number does not fit in 64 bits"))?;
        let unit = trimmed[digits..].trim().to_ascii_uppercase();
        if unit.starts_with(['.', ',']) {
            return Err(fail("it is not a whole number"));
        }
        let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, shift) = known.ok_or(fail("the unit is unknown"))?;
        number
            .checked_mul(1 << shift)
            .map(ByteSize)
            .ok_or(fail("it does not fit in 64 bits of bytes"))
    }
}

impl fmt::Display for ByteSize {
    /// The largest unit that keeps the number exact, else two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, shift) =
            UNITS.iter().rev().find(|(_, shift)| self.0 >> shift != 0).unwrap_or(&UNITS[0]);
        if *shift == 0 {
            return write!(f, "{} B", self.0);
        }
        if self.0.trailing_zeros() >= *shift {
            return write!(f, "{} {name}iB", self.0 >> shift);
        }
        write!(f, "{:.2} {name}iB", self.0 as f64 / (1u64 << shift) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("10G", 10 << 30),
            ("512KiB", 512 << 10),
            ("1 tb", 1 << 40),
            ("8E", 8 << 60),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_named_in_the_error() {
        for text in ["", "G", "-1", "1.5G", "10X", "99999999999999999999", "20000000P", "16E"] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn sizes_are_printed_exactly_where_they_can_be() {
        assert_eq!(ByteSize(0).to_string(), "0 B");
        assert_eq!(ByteSize(64 << 30).to_string(), "64 GiB");
        assert_eq!(ByteSize(1_500_000).to_string(), "1.43 MiB");
    }
}
