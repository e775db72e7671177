//! Messages of the transmission phase.

use std::fmt;

use super::constants::{REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};

/// Malformed bytes: the stream cannot be trusted any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The expected item.
    pub what: &'static str,
    /// The value found.
    pub found: u64,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the client sent {:#x} as {}", self.found, self.what)
    }
}

/// A request, without the payload that follows a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Command flags.
    pub flags: u16,
    /// Number of the command.
    pub command: u16,
    /// The client's name for the request, returned with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl Request {
    /// Length on the wire.
    pub const BYTES: usize = 28;

    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// A wrong magic: the stream is out of step.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let [m0, m1, m2, m3, f0, f1, c0, c1, rest @ ..] = *bytes;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != REQUEST_MAGIC {
            return Err(Malformed { what: "request magic", found: u64::from(magic) });
        }
        let long =
            |from: usize| u64::from_be_bytes(std::array::from_fn(|index| rest[from + index]));
        Ok(Request {
            flags: u16::from_be_bytes([f0, f1]),
            command: u16::from_be_bytes([c0, c1]),
            cookie: long(0),
            offset: long(8),
            length: u32::from_be_bytes(std::array::from_fn(|index| rest[16 + index])),
        })
    }

    /// Encodes the request, as a client would.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        message([
            &REQUEST_MAGIC.to_be_bytes(),
            &self.flags.to_be_bytes(),
            &self.command.to_be_bytes(),
            &self.cookie.to_be_bytes(),
            &self.offset.to_be_bytes(),
            &self.length.to_be_bytes(),
        ])
    }

    /// Bytes of payload that follow the request on the wire. Only writes have any; unknown commands
    /// count as without.
    pub fn payload_bytes(&self) -> u32 {
        if self.command == Command::Write as u16 { self.length } else { 0 }
    }
}

/// Commands by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Command {
    /// Read a range.
    Read = 0,
    /// Write a range; the payload follows.
    Write = 1,
    /// Goodbye; no reply.
    Disconnect = 2,
    /// Make acknowledged changes durable.
    Flush = 3,
    /// Give a range back.
    Trim = 4,
    /// Bring a range into the cache.
    Cache = 5,
    /// Make a range read as zeroes.
    WriteZeroes = 6,
    /// Report the allocated ranges.
    BlockStatus = 7,
}

impl Command {
    /// All commands.
    pub const ALL: [Command; 8] = [
        Command::Read,
        Command::Write,
        Command::Disconnect,
        Command::Flush,
        Command::Trim,
        Command::Cache,
        Command::WriteZeroes,
        Command::BlockStatus,
    ];

    /// The command called `number`.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Error numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: the export is read-only.
    Perm = 1,
    /// Input or output failed.
    Io = 5,
    /// Invalid request.
    Inval = 22,
    /// No space, or a write past the end.
    NoSpc = 28,
    /// Too large to answer in one piece.
    Overflow = 75,
    /// Not supported, or not fast.
    NotSup = 95,
    /// The server is going away.
    Shutdown = 108,
}

/// Types of chunks of structured replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Chunk {
    /// The end, without content.
    None = 0,
    /// Bytes at an offset.
    OffsetData = 1,
    /// Zeroes at an offset.
    OffsetHole = 2,
    /// Extents and their states.
    BlockStatus = 5,
    /// The request failed.
    Error = (1 << 15) + 1,
}

/// A reply without payload; `error` 0 is success.
pub fn simple_reply(cookie: u64, error: u32) -> [u8; 16] {
    message([&SIMPLE_REPLY_MAGIC.to_be_bytes(), &error.to_be_bytes(), &cookie.to_be_bytes()])
}

/// The header before a chunk's `length` bytes of payload; `done` on the last chunk of a reply.
pub fn chunk_header(kind: Chunk, done: bool, cookie: u64, length: u32) -> [u8; 20] {
    message([
        &STRUCTURED_REPLY_MAGIC.to_be_bytes(),
        &u16::from(done).to_be_bytes(),
        &(kind as u16).to_be_bytes(),
        &cookie.to_be_bytes(),
        &length.to_be_bytes(),
    ])
}

/// A message of `N` bytes from its fields, which fill it one after another.
pub(super) fn message<const N: usize, const FIELDS: usize>(fields: [&[u8]; FIELDS]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut rest = &mut bytes[..];
    for field in fields {
        let (place, after) = rest.split_at_mut(field.len());
        place.copy_from_slice(field);
        rest = after;
    }
    assert!(rest.is_empty(), "the fields of a message fill it");
    bytes
}

/// The longest error message sent to a client, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A whole reply that says why a request failed.
pub fn error_chunk(cookie: u64, error: Errno, message: &str) -> Vec<u8> {
    let message = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    let mut bytes = Vec::with_capacity(26 + message.len());
    bytes.extend_from_slice(&chunk_header(Chunk::Error, true, cookie, 6 + message.len() as u32));
    bytes.extend_from_slice(&(error as u32).to_be_bytes());
    bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
    bytes.extend_from_slice(message.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_wire() {
        let request = Request {
            flags: 0x0102,
            command: 7,
            cookie: 0x1122_3344_5566_7788,
            offset: 1 << 40,
            length: 4096,
        };
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn replies_have_their_fields_where_the_protocol_puts_them() {
        let reply = simple_reply(0x1122_3344_5566_7788, 22);
        assert_eq!(reply, *b"\x67\x44\x66\x98\0\0\0\x16\x11\x22\x33\x44\x55\x66\x77\x88");
        let header = chunk_header(Chunk::BlockStatus, true, 0x1122_3344_5566_7788, 12);
        let (head, tail) = header.split_at(8);
        assert_eq!(head, b"\x66\x8e\x33\xef\0\x01\0\x05");
        assert_eq!(tail, b"\x11\x22\x33\x44\x55\x66\x77\x88\0\0\0\x0c");
        let request = Request { flags: 1, command: 1, cookie: 2, offset: 3, length: 4 };
        let words = b"\x25\x60\x95\x13\0\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\x04";
        assert_eq!(&request.encode(), words);
    }

    #[test]
    fn a_wrong_magic_is_named() {
        let error = Request::decode(&[0xab; Request::BYTES]).unwrap_err();
        assert_eq!(error.to_string(), "the client sent 0xabababab as request magic");
    }

    #[test]
    fn commands_have_their_numbers() {
        for command in Command::ALL {
            assert_eq!(Command::from_number(command as u16), Some(command));
        }
        assert_eq!(Command::from_number(8), None);
    }

    #[test]
    fn long_error_messages_are_cut_between_characters() {
        let chunk = error_chunk(9, Errno::Io, &"é".repeat(2000));
        assert_eq!(chunk.len(), 26 + 1024);
        let odd = error_chunk(9, Errno::Io, &format!("x{}", "é".repeat(2000)));
        assert_eq!(odd.len(), 26 + 1023);
        assert_eq!(odd[19], (6 + 1023u32).to_be_bytes()[3]);
    }
}
