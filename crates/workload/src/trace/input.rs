//! The bytes of a trace, unpacked if compressed.

use std::io::{self, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use serde::Serialize;

/// How a trace is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, of one member or several.
    Gzip,
}

type Raw<R> = Chain<Cursor<Vec<u8>>, R>;

pub(crate) enum Input<R: Read> {
    Plain(Raw<R>),
    Gzip(Box<MultiGzDecoder<Raw<R>>>),
}

/// Packings that are recognised in order to say so: magic, name, and what unpacks it.
const FOREIGN: [(&[u8], &str); 4] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "packed with zstd: unpack it with `zstd -d`"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "packed with xz: unpack it with `xz -d`"),
    (b"BZh", "packed with bzip2: unpack it with `bzip2 -d`"),
    (b"PK\x03\x04", "a zip archive: extract the trace from it"),
];

impl<R: Read> Input<R> {
    /// Looks at the first bytes. An `Err` inside says what it is packed with that we cannot read.
    pub(crate) fn open(mut input: R) -> io::Result<Result<Self, &'static str>> {
        let mut head = Vec::new();
        (&mut input).take(8).read_to_end(&mut head)?;
        if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Ok(Err(what));
        }
        let gzip = head.starts_with(&[0x1f, 0x8b]);
        let raw = Cursor::new(head).chain(input);
        Ok(Ok(if gzip {
            Input::Gzip(Box::new(MultiGzDecoder::new(raw)))
        } else {
            Input::Plain(raw)
        }))
    }

    pub(crate) fn compression(&self) -> Compression {
        match self {
            Input::Plain(_) => Compression::None,
            Input::Gzip(_) => Compression::Gzip,
        }
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Plain(raw) => raw.read(buffer),
            Input::Gzip(raw) => raw.read(buffer),
        }
    }
}
