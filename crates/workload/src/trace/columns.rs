//! Cuts lines into columns.

use super::fault::{Fault, Malformed, quoted};

/// The first `N` columns between commas, blanks around them removed, and how many there are.
#[inline]
pub(crate) fn commas<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut columns: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    let mut start = 0;
    // Columns are so short that a loop beats a search by words.
    for (at, byte) in line.iter().enumerate() {
        if *byte == b',' {
            if count < N {
                columns[count] = trimmed(&line[start..at]);
            }
            count += 1;
            start = at + 1;
        }
    }
    if count < N {
        columns[count] = trimmed(&line[start..]);
    }
    (columns, count + 1)
}

/// The first `N` columns between blanks, and how many there are.
#[inline]
pub(crate) fn blanks<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut columns: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    let mut at = 0;
    loop {
        while at < line.len() && is_blank(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return (columns, count);
        }
        let start = at;
        while at < line.len() && !is_blank(line[at]) {
            at += 1;
        }
        if count < N {
            columns[count] = &line[start..at];
        }
        count += 1;
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Without blanks at either end.
#[inline]
pub(crate) fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The line has not the columns of its format.
#[cold]
pub(crate) fn wrong(line: &[u8], found: usize, wanted: &str) -> Malformed {
    Malformed::new(
        Fault::Columns,
        format!("{found} columns where there should be {wanted}: {}", quoted(line)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_keep_empty_columns() {
        assert_eq!(commas::<3>(b"a, b ,"), ([&b"a"[..], b"b", b""], 3));
        assert_eq!(commas::<2>(b"a,b,c"), ([&b"a"[..], b"b"], 3));
        assert_eq!(commas::<1>(b""), ([&b""[..]], 1));
    }

    #[test]
    fn blanks_run_together() {
        assert_eq!(blanks::<3>(b"  a\t b  "), ([&b"a"[..], b"b", b""], 2));
        assert_eq!(blanks::<1>(b" "), ([&b""[..]], 0));
    }
}
