//! Parses the values of fields.

use mjolnir_units::ByteSize;

use super::error::Mistake;
use super::spec::Value;
use crate::words::nearest;

/// A size in bytes.
pub(super) fn size(field: &str, value: &Value) -> Result<u64, Mistake> {
    match value {
        Value::Number(bytes) => Ok(*bytes),
        Value::Text(text) => size_text(field, text),
    }
}

pub(super) fn size_text(field: &str, text: &str) -> Result<u64, Mistake> {
    text.parse::<ByteSize>().map(|size| size.0).map_err(|why| Mistake::new(field, why.to_string()))
}

/// A time in nanoseconds.
pub(super) fn time(field: &str, value: &Value) -> Result<u64, Mistake> {
    const UNITS: [(&str, u64); 6] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let text = match value {
        Value::Number(number) => &number.to_string(),
        Value::Text(text) => text.trim(),
    };
    let fail = |why: &str| {
        Mistake::new(field, format!("{text:?} is not a time: {why} (write 250us, 10ms, 5s, 2m)"))
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 =
        text[..digits].parse().map_err(|_| fail("it does not start with a number"))?;
    let unit = text[digits..].trim();
    let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| {
        fail(if unit.is_empty() { "it has no unit" } else { "the unit is unknown" })
    })?;
    number.checked_mul(*ns).ok_or_else(|| fail("it does not fit in 64 bits of nanoseconds"))
}

/// A percentage.
pub(super) fn percent(field: &str, value: u64) -> Result<u64, Mistake> {
    if value > 100 {
        return Err(Mistake::new(field, format!("{value} is more than 100 percent")));
    }
    Ok(value)
}

/// One of some words, by its place among them.
pub(super) fn word(field: &str, text: &str, words: &[&str]) -> Result<usize, Mistake> {
    words.iter().position(|word| *word == text).ok_or_else(|| unknown(field, text, words))
}

/// A word that is none of those known.
pub(super) fn unknown(field: &str, text: &str, words: &[&str]) -> Mistake {
    let known = words.join(", ");
    Mistake::new(
        field,
        match nearest(text, words.iter().copied()) {
            Some(near) => format!("{text:?} is unknown: did you mean {near:?}? ({known})"),
            None => format!("{text:?} is unknown: write one of {known}"),
        },
    )
}

/// `ACCESSES/SPACE` pairs between colons: percentages that add up to 100 each.
pub(super) fn zones(field: &str, text: &str) -> Result<Vec<(u64, u64)>, Mistake> {
    let fail = |why: String| Mistake::new(field, format!("{text:?}: {why}"));
    let number = |part: &str| {
        part.trim()
            .parse::<u64>()
            .map_err(|_| fail(format!("{part:?} is no percentage (write ACCESSES/SPACE:...)")))
    };
    let mut zones = Vec::new();
    for zone in text.split(':') {
        let (accesses, space) = zone
            .split_once('/')
            .ok_or_else(|| fail(format!("{zone:?} is not of the form ACCESSES/SPACE")))?;
        zones.push((number(accesses)?, number(space)?));
    }
    let total = |of: fn(&(u64, u64)) -> u64| zones.iter().map(of).fold(0u64, u64::saturating_add);
    let (accesses, space) = (total(|zone| zone.0), total(|zone| zone.1));
    if accesses != 100 || space != 100 {
        return Err(fail(format!(
            "accesses add up to {accesses} and space to {space}: both must be 100"
        )));
    }
    Ok(zones)
}
