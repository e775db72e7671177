//! A window on a stream of bytes that moves forward: lines and fixed records without a copy each.

use std::io::{self, Read};
use std::ops::Range;

/// The longest line in bytes.
pub(crate) const MAX_LINE: usize = 64 << 10;
const CAPACITY: usize = 256 << 10;

pub(crate) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the stream before `start`.
    before: u64,
    at_end: bool,
    /// Why the stream ended early. Told once all before it was read.
    failure: Option<io::Error>,
}

/// The next line.
pub(crate) enum Line {
    /// Its place in the window, without the newline.
    Whole(Range<usize>),
    /// The last one, which has no newline.
    Unended(Range<usize>),
    /// Longer than [`MAX_LINE`]; it was passed.
    TooLong,
    /// There is none.
    None,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(input: R) -> Self {
        Window {
            input,
            buffer: vec![0; CAPACITY],
            start: 0,
            end: 0,
            before: 0,
            at_end: false,
            failure: None,
        }
    }

    /// How far into the stream the window begins, in bytes.
    pub(crate) fn position(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Makes at least `wanted` bytes visible unless the stream ends before, and returns all that
    /// are.
    pub(crate) fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        if self.peek(wanted).len() < wanted
            && let Some(failure) = self.failure.take()
        {
            return Err(failure);
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// As [`fill`](Self::fill); a failure is kept for later.
    pub(crate) fn peek(&mut self, wanted: usize) -> &[u8] {
        while self.end - self.start < wanted && !self.at_end {
            self.read_more(wanted);
        }
        &self.buffer[self.start..self.end]
    }

    /// Passes `count` visible bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only what is visible can be passed");
        self.start += count;
    }

    /// Bytes that `Line` named. Valid until the window moves.
    #[inline]
    pub(crate) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.buffer[range.clone()]
    }

    /// The next line; the window moves behind it.
    pub(crate) fn line(&mut self) -> io::Result<Line> {
        let mut searched = 0;
        loop {
            let from = self.start + searched;
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[from..self.end]) {
                let range = self.start..from + length;
                self.start = range.end + 1;
                return Ok(if range.len() > MAX_LINE {
                    Line::TooLong
                } else {
                    Line::Whole(without_return(&self.buffer, range))
                });
            }
            searched = self.end - self.start;
            if searched > MAX_LINE {
                return self.pass_line();
            }
            if self.at_end {
                if let Some(failure) = self.failure.take() {
                    self.start = self.end;
                    return Err(failure);
                }
                let range = self.start..self.end;
                self.start = self.end;
                return Ok(if range.is_empty() {
                    Line::None
                } else {
                    Line::Unended(without_return(&self.buffer, range))
                });
            }
            self.read_more(searched + 1);
        }
    }

    fn pass_line(&mut self) -> io::Result<Line> {
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(length) => {
                    self.start += length + 1;
                    return Ok(Line::TooLong);
                }
                None if self.at_end => {
                    self.start = self.end;
                    return Ok(Line::TooLong);
                }
                None => {
                    self.start = self.end;
                    self.read_more(1);
                }
            }
        }
    }

    /// Reads once, after making room for `wanted` bytes in all.
    fn read_more(&mut self, wanted: usize) {
        if self.start + wanted > self.buffer.len() || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.before += self.start as u64;
            (self.start, self.end) = (0, self.end - self.start);
        }
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => (self.at_end, self.failure) = (true, Some(error)),
            }
            return;
        }
    }
}

fn without_return(buffer: &[u8], range: Range<usize>) -> Range<usize> {
    if buffer[range.clone()].last() == Some(&b'\r') { range.start..range.end - 1 } else { range }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives few bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(text: &[u8], drip: usize) -> Vec<String> {
        let mut window = Window::new(Drip(text, drip));
        let mut lines = Vec::new();
        loop {
            let shown = match window.line().unwrap() {
                Line::None => return lines,
                Line::TooLong => "too long".to_owned(),
                Line::Whole(range) => String::from_utf8(window.bytes(&range).to_vec()).unwrap(),
                Line::Unended(range) => {
                    format!("{}, unended", String::from_utf8_lossy(window.bytes(&range)))
                }
            };
            lines.push(shown);
        }
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let text = b"one\r\n\ntwo\nthree";
        for drip in [1, 2, 3, 100] {
            assert_eq!(lines(text, drip), ["one", "", "two", "three, unended"]);
        }
    }

    #[test]
    fn a_long_line_is_passed_and_the_next_one_is_read() {
        for length in [MAX_LINE + 1, 3 * CAPACITY] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\nshort\n");
            assert_eq!(lines(&text, 100_000), ["too long", "short"]);
        }
        let mut text = vec![b'x'; MAX_LINE];
        text.push(b'\n');
        assert_eq!(lines(&text, 1000)[0].len(), MAX_LINE);
    }

    #[test]
    fn many_lines_cross_the_windows_end() {
        let text: String = (0..100_000).map(|number| format!("{number}\n")).collect();
        let read = lines(text.as_bytes(), 7777);
        assert_eq!(read.len(), 100_000);
        assert!(read.iter().enumerate().all(|(number, line)| *line == number.to_string()));
    }

    #[test]
    fn the_position_counts_what_was_passed() {
        let text = vec![7; CAPACITY * 2 + 5];
        let mut window = Window::new(Drip(&text, 1000));
        for _ in 0..40 {
            assert!(window.fill(13_000).unwrap().len() >= 13_000);
            window.consume(13_000);
        }
        assert_eq!(window.position(), 520_000);
        let left = window.fill(10_000).unwrap().len();
        assert_eq!(left, text.len() - 520_000);
    }
}
