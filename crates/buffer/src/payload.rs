//! The bytes of a read, handed on without copies.

use std::fmt;
use std::ops::{Deref, Range};

use bytes::Bytes;

use crate::AlignedBuf;

/// Bytes to be read: shared with others, or in a buffer of the reader's own, which takes no
/// allocation. Can be cut without copies.
#[derive(Default)]
pub struct Payload {
    held: Held,
    /// The range of the buffer that counts.
    range: Range<usize>,
}

enum Held {
    Shared(Bytes),
    Own(AlignedBuf),
}

impl Default for Held {
    fn default() -> Self {
        Held::Shared(Bytes::new())
    }
}

impl Payload {
    /// Keeps only a range of the bytes.
    ///
    /// # Panics
    ///
    /// If the range exceeds the bytes.
    pub fn cut(&mut self, range: Range<usize>) {
        let length = self.len();
        assert!(
            range.start <= range.end && range.end <= length,
            "{range:?} of {length} bytes is kept"
        );
        let from = self.range.start;
        self.range = from + range.start..from + range.end;
    }

    /// Converts to shared bytes. Allocates if they are not shared yet.
    pub fn into_bytes(self) -> Bytes {
        let whole = match self.held {
            Held::Shared(bytes) => bytes,
            Held::Own(buffer) => buffer.freeze(),
        };
        whole.slice(self.range)
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole = match &self.held {
            Held::Shared(bytes) => bytes,
            Held::Own(buffer) => buffer.as_ref(),
        };
        &whole[self.range.clone()]
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        let range = 0..bytes.len();
        Payload { held: Held::Shared(bytes), range }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<AlignedBuf> for Payload {
    fn from(buffer: AlignedBuf) -> Self {
        let range = 0..buffer.len();
        Payload { held: Held::Own(buffer), range }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffers;

    #[test]
    fn shared_or_not_the_same_is_left_of_the_same_cuts() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let buffers = Buffers::default();
        let mut own = buffers.take(bytes.len());
        own.as_mut().copy_from_slice(&bytes);
        let (mut own, mut shared) = (Payload::from(own), Payload::from(bytes.clone()));
        assert_eq!((&own[..], &shared[..]), (&bytes[..], &bytes[..]));
        let mut left = &bytes[..];
        for range in [0..9_999, 17..9_000, 0..8_000, 1..1] {
            own.cut(range.clone());
            shared.cut(range.clone());
            left = &left[range];
            assert!(own == shared && own[..] == *left, "{} bytes are left", left.len());
        }
        assert_eq!(shared.into_bytes(), own.into_bytes());
        assert_eq!(Payload::default().len(), 0);
        assert_eq!(format!("{:?}", Payload::from(b"a\0b".to_vec())), r#"b"a\x00b""#);
    }

    #[test]
    fn a_buffer_goes_home_with_its_payload_or_with_the_last_that_shares_it() {
        let buffers = Buffers::default();
        let in_use = || buffers.bytes() - buffers.kept_bytes();
        let mut payload = Payload::from(buffers.take(8192));
        payload.cut(100..200);
        assert_eq!(in_use(), 8192);
        drop(payload);
        assert_eq!(in_use(), 0);
        let mut buffer = buffers.take(8192);
        buffer.as_mut()[4096..].fill(7);
        let mut payload = Payload::from(buffer);
        payload.cut(4000..5000);
        let bytes = payload.into_bytes();
        assert_eq!((bytes.len(), bytes[95], bytes[96]), (1000, 0, 7));
        assert_eq!(in_use(), 8192);
        drop(bytes);
        assert_eq!(in_use(), 0);
    }

    #[test]
    #[should_panic(expected = "0..11 of 10 bytes is kept")]
    fn more_than_there_is_cannot_be_kept() {
        Payload::from(AlignedBuf::zeroed(10)).cut(0..11);
    }
}
