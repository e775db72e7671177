//! Our own format: compact, cheap to write, readable up to the last whole frame after a crash.
//!
//! `docs/reference/trace-format.md` describes every byte; the tests here hold the code to it.

mod decoder;
mod encoder;
mod varint;

pub(crate) use decoder::{Entry, FrameDecoder, Names};
pub use encoder::FrameEncoder;

use crc32c::{crc32c, crc32c_append};

use crate::trace::fault::{Fault, Malformed};

/// The first bytes of a recording.
pub(crate) const MAGIC: [u8; 8] = *b"MJTRACE\0";
/// The version that is written.
const VERSION: u32 = 1;
/// Bytes of the file's header.
pub(crate) const HEADER_BYTES: usize = 64;
/// The first bytes of a frame.
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"MJFR";
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 32;
/// The longest payload of a frame, in bytes (1 MiB).
pub const MAX_FRAME_BYTES: usize = 1 << 20;

const START_KNOWN: u32 = 1;

/// What a recording says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceHeader {
    /// When it began, in nanoseconds since 1970 (UTC), if the recorder knew.
    pub start_unix_ns: Option<u64>,
}

impl TraceHeader {
    /// As it is written.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        if let Some(start) = self.start_unix_ns {
            bytes[12..16].copy_from_slice(&START_KNOWN.to_le_bytes());
            bytes[16..24].copy_from_slice(&start.to_le_bytes());
        }
        let checksum = crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err("it does not begin with the magic MJTRACE".to_owned());
        }
        if u32_at(bytes, 60) != crc32c(&bytes[..60]) {
            return Err("its header is damaged: the checksum does not match".to_owned());
        }
        let (version, flags) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if version != VERSION {
            return Err(format!(
                "its version is {version}, this program knows {VERSION}: use a newer program"
            ));
        }
        if flags & !START_KNOWN != 0 {
            return Err(format!("its flags {flags:#x} are unknown: use a newer program"));
        }
        let start_unix_ns = (flags & START_KNOWN != 0).then(|| u64_at(bytes, 16));
        Ok(TraceHeader { start_unix_ns })
    }
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Names,
    Requests,
    End,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: FrameKind,
    pub payload_bytes: usize,
    pub entries: u32,
    /// Requests in the frames before it.
    pub requests_before: u64,
    pub payload_crc: u32,
}

impl FrameHeader {
    pub(crate) fn new(kind: FrameKind, entries: u32, requests_before: u64, payload: &[u8]) -> Self {
        assert!(payload.len() <= MAX_FRAME_BYTES, "a frame is cut before it is that long");
        let payload_crc = crc32c(payload);
        FrameHeader { kind, payload_bytes: payload.len(), entries, requests_before, payload_crc }
    }

    pub(crate) fn to_bytes(self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4] = match self.kind {
            FrameKind::Names => 1,
            FrameKind::Requests => 2,
            FrameKind::End => 3,
        };
        bytes[8..12].copy_from_slice(&(self.payload_bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.requests_before.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let checksum = crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, Malformed> {
        let damaged = |what: &str| Err(Malformed::new(Fault::Damaged, what));
        if bytes[..4] != FRAME_MAGIC {
            return damaged("no frame begins here");
        }
        if u32_at(bytes, 28) != crc32c(&bytes[..28]) {
            return damaged("the checksum of the frame's header does not match");
        }
        let kind = match bytes[4] {
            1 => FrameKind::Names,
            2 => FrameKind::Requests,
            3 => FrameKind::End,
            _ => return damaged("the frame's kind is unknown"),
        };
        let payload_bytes = u32_at(bytes, 8) as usize;
        if payload_bytes > MAX_FRAME_BYTES {
            return damaged("the frame is longer than 1 MiB");
        }
        Ok(FrameHeader {
            kind,
            payload_bytes,
            entries: u32_at(bytes, 12),
            requests_before: u64_at(bytes, 16),
            payload_crc: u32_at(bytes, 24),
        })
    }

    pub(crate) fn holds(&self, payload: &[u8]) -> bool {
        crc32c_append(0, payload) == self.payload_crc
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Bits of an entry's first byte; bits 0 to 2 are the operation.
mod tag {
    pub const OP: u8 = 0b111;
    pub const VOLUME: u8 = 1 << 3;
    pub const STREAM: u8 = 1 << 4;
    pub const LENGTH: u8 = 1 << 5;
    pub const OFFSET: u8 = 1 << 6;
    pub const LATENCY: u8 = 1 << 7;
}

/// What an entry may leave out because the one before it in the frame says it.
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    time_ns: u64,
    volume: u32,
    stream: Option<u8>,
    /// Of the last request that had one.
    length: u64,
    /// The end of the last request that had an offset.
    end: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_documented() {
        let bytes = TraceHeader { start_unix_ns: Some(0x0102_0304_0506_0708) }.to_bytes();
        assert_eq!(&bytes[..8], b"MJTRACE\0");
        assert_eq!(bytes[8..24], [1, 0, 0, 0, 1, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert!(bytes[24..60].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[60..64], crc32c(&bytes[..60]).to_le_bytes());
        let read = TraceHeader::from_bytes(&bytes).unwrap();
        assert_eq!(read.start_unix_ns, Some(0x0102_0304_0506_0708));
    }

    #[test]
    fn a_header_of_another_version_or_damaged_is_refused() {
        let good = TraceHeader::default().to_bytes();
        assert_eq!(TraceHeader::from_bytes(&good), Ok(TraceHeader::default()));
        for at in 8..HEADER_BYTES {
            let mut bytes = good;
            bytes[at] ^= 1;
            let why = TraceHeader::from_bytes(&bytes).unwrap_err();
            assert!(why.contains("damaged"), "byte {at}: {why}");
        }
        for (at, expected) in [(8, "version"), (12, "flags")] {
            let mut bytes = good;
            bytes[at] = 0x82;
            let checksum = crc32c(&bytes[..60]);
            bytes[60..].copy_from_slice(&checksum.to_le_bytes());
            assert!(TraceHeader::from_bytes(&bytes).unwrap_err().contains(expected));
        }
    }

    #[test]
    fn a_frame_header_is_as_documented() {
        let header = FrameHeader::new(FrameKind::Requests, 5, 0x77, b"payload");
        let bytes = header.to_bytes();
        assert_eq!(bytes[..16], *b"MJFR\x02\0\0\0\x07\0\0\0\x05\0\0\0");
        assert_eq!(bytes[16..24], 0x77u64.to_le_bytes());
        assert_eq!(bytes[24..28], crc32c(b"payload").to_le_bytes());
        assert_eq!(bytes[28..32], crc32c(&bytes[..28]).to_le_bytes());
        assert_eq!(FrameHeader::from_bytes(&bytes), Ok(header));
        for at in 0..FRAME_HEADER_BYTES {
            let mut bytes = bytes;
            bytes[at] ^= 0x10;
            assert!(FrameHeader::from_bytes(&bytes).is_err(), "byte {at}");
        }
    }
}
