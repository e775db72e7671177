//! Numbers of one to ten bytes: seven bits a byte, lowest first, the top bit set on all but the
//! last.

/// A small buffer that an entry is built in.
pub(super) struct Scratch {
    bytes: [u8; 64],
    len: usize,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Scratch { bytes: [0; 64], len: 0 }
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Reads a number; `None` if the bytes end within it or it has more than 64 bits.
#[inline]
pub(super) fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    let mut shift = 7;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Small numbers of either sign become small numbers: 0, -1, 1, -2, 2 ...
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A number of bytes, mostly of whole sectors: sectors × 2, or bytes × 2 + 1.
#[inline]
pub(super) fn amount(bytes: u64) -> u64 {
    if bytes.is_multiple_of(512) { bytes / 512 * 2 } else { bytes * 2 + 1 }
}

/// `None` if it does not fit.
#[inline]
pub(super) fn unamount(value: u64) -> Option<u64> {
    if value & 1 == 0 { (value / 2).checked_mul(512) } else { Some(value / 2) }
}

/// A distance in bytes, mostly of whole sectors: of either sign.
#[inline]
pub(super) fn distance(bytes: i64) -> u64 {
    if bytes % 512 == 0 { zigzag(bytes / 512) * 2 } else { zigzag(bytes) * 2 + 1 }
}

/// `None` if it does not fit.
#[inline]
pub(super) fn undistance(value: u64) -> Option<i64> {
    let steps = unzigzag(value / 2);
    if value & 1 == 0 { steps.checked_mul(512) } else { Some(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut scratch = Scratch::new();
            scratch.number(value);
            let mut at = 0;
            assert_eq!(number(scratch.bytes(), &mut at), Some(value));
            assert_eq!(at, scratch.bytes().len());
            assert_eq!(number(&scratch.bytes()[..at - 1], &mut 0), None, "cut");
        }
        assert_eq!(number(&[0x80; 11], &mut 0), None);
        assert_eq!(
            number(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0),
            None
        );
    }

    #[test]
    fn amounts_and_distances_come_back() {
        for bytes in [0, 1, 511, 512, 4096, 4097, (1 << 60) - 1, 1 << 60] {
            assert_eq!(unamount(amount(bytes)), Some(bytes));
            for signed in [bytes as i64, -(bytes as i64)] {
                assert_eq!(undistance(distance(signed)), Some(signed));
            }
        }
        assert_eq!(amount(4096), 16);
        assert_eq!(distance(-4096), 30);
        assert_eq!(unamount(u64::MAX - 1), None);
        assert_eq!(undistance(u64::MAX - 1), None);
    }
}
