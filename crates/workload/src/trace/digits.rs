//! Numbers, parsed from bytes by hand: reading a text trace spends most of its time here.

use super::fault::{Fault, Malformed};

/// A whole number from 0 to 2^64 - 1.
#[inline]
pub(crate) fn whole(text: &[u8], column: &str) -> Result<u64, Malformed> {
    // 19 digits cannot overflow.
    if text.is_empty() || text.len() > 19 {
        return whole_slowly(text, column);
    }
    let mut value = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(bad_number(text, column));
        }
        value = value * 10 + u64::from(digit);
    }
    Ok(value)
}

#[cold]
fn whole_slowly(text: &[u8], column: &str) -> Result<u64, Malformed> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(bad_number(text, column));
    }
    text.iter()
        .try_fold(0u64, |value, byte| value.checked_mul(10)?.checked_add(u64::from(byte - b'0')))
        .ok_or_else(|| too_large(text, column))
}

/// A decimal number times 10^`scale`; digits beyond that are cut off.
///
/// `scale` 9 turns seconds into nanoseconds.
pub(crate) fn decimal(text: &[u8], scale: u32, column: &str) -> Result<u64, Malformed> {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let fraction = &text[(point + 1).min(text.len())..];
    if point == 0 && fraction.is_empty() {
        return Err(bad_number(text, column));
    }
    let units = if point == 0 { 0 } else { whole_of(&text[..point], text, column)? };
    let mut value = units.checked_mul(10u64.pow(scale)).ok_or_else(|| too_large(text, column))?;
    let mut weight = 10u64.pow(scale);
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(bad_number(text, column));
        }
        weight /= 10;
        value =
            value.checked_add(u64::from(digit) * weight).ok_or_else(|| too_large(text, column))?;
    }
    Ok(value)
}

/// `whole`, whose error shows all of the number.
fn whole_of(part: &[u8], text: &[u8], column: &str) -> Result<u64, Malformed> {
    whole(part, column).map_err(|bad| match bad.fault {
        Fault::TooLarge => too_large(text, column),
        _ => bad_number(text, column),
    })
}

/// Whether the lowest bit of a hexadecimal number is set.
pub(crate) fn hex_is_odd(text: &[u8], column: &str) -> Result<bool, Malformed> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    match digits.last() {
        Some(last) if digits.len() <= 16 && digits.iter().all(u8::is_ascii_hexdigit) => {
            Ok(matches!(
                last.to_ascii_lowercase(),
                b'1' | b'3' | b'5' | b'7' | b'9' | b'b' | b'd' | b'f'
            ))
        }
        _ => Err(Malformed::value(
            Fault::NotANumber,
            column,
            text,
            "not a hexadecimal number of up to 16 digits",
        )),
    }
}

#[cold]
fn too_large(text: &[u8], column: &str) -> Malformed {
    Malformed::value(Fault::TooLarge, column, text, "more than 64 bits hold")
}

#[cold]
fn bad_number(text: &[u8], column: &str) -> Malformed {
    match text {
        [] => Malformed::new(Fault::NotANumber, format!("{column} is empty")),
        [b'-', rest @ ..]
            if !rest.is_empty() && rest.iter().all(|b| b.is_ascii_digit() || *b == b'.') =>
        {
            Malformed::value(Fault::Negative, column, text, "below zero")
        }
        _ => Malformed::value(Fault::NotANumber, column, text, "not a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for number in [0, 7, 10, 9_999_999_999_999_999_999, 10_000_000_000_000_000_000, u64::MAX] {
            assert_eq!(whole(number.to_string().as_bytes(), "n"), Ok(number));
        }
        assert_eq!(whole(b"000000000000000000000000012", "n"), Ok(12));
        for (text, fault) in [
            ("", Fault::NotANumber),
            ("-4", Fault::Negative),
            ("-", Fault::NotANumber),
            ("4x", Fault::NotANumber),
            ("1e3", Fault::NotANumber),
            ("+1", Fault::NotANumber),
            ("18446744073709551616", Fault::TooLarge),
            ("99999999999999999999999", Fault::TooLarge),
        ] {
            let bad = whole(text.as_bytes(), "size").unwrap_err();
            assert_eq!(bad.fault, fault, "{text}");
            assert!(bad.what.contains("size"), "{bad}");
        }
    }

    #[test]
    fn decimal_numbers_are_cut_not_rounded() {
        for (text, value) in [
            ("0", 0),
            ("1", 1_000_000_000),
            (".5", 500_000_000),
            ("1.", 1_000_000_000),
            ("0.0000000019", 1),
            ("1538323200.123456789", 1_538_323_200_123_456_789),
        ] {
            assert_eq!(decimal(text.as_bytes(), 9, "t"), Ok(value), "{text}");
        }
        for (text, fault) in [
            (".", Fault::NotANumber),
            ("", Fault::NotANumber),
            ("1.2.3", Fault::NotANumber),
            ("-1.5", Fault::Negative),
            ("99999999999999", Fault::TooLarge),
        ] {
            assert_eq!(decimal(text.as_bytes(), 9, "t").unwrap_err().fault, fault, "{text}");
        }
    }

    #[test]
    fn hexadecimal_flags() {
        assert_eq!(hex_is_odd(b"1", "flags"), Ok(true));
        assert_eq!(hex_is_odd(b"0x40000018", "flags"), Ok(false));
        assert_eq!(hex_is_odd(b"aB", "flags"), Ok(true));
        assert!(hex_is_odd(b"g", "flags").is_err());
        assert!(hex_is_odd(b"0x", "flags").is_err());
    }
}
