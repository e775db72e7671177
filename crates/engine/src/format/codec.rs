//! Little-endian fields, written and read one after another.

/// The reason why bytes do not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends fields to a byte vector.
#[derive(Default)]
pub struct Encoder(pub Vec<u8>);

impl Encoder {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    /// A short text: its length in one byte, then its bytes.
    pub fn text(&mut self, value: &str) {
        debug_assert!(value.len() <= 255);
        self.u8(value.len() as u8);
        self.bytes(value.as_bytes());
    }

    /// Appends the CRC-32C of everything before it.
    pub fn seal(mut self) -> Vec<u8> {
        let crc = crc32c::crc32c(&self.0);
        self.u32(crc);
        self.0
    }
}

/// Takes fields from the front of a byte slice.
pub struct Decoder<'a>(pub &'a [u8]);

/// Whether `bytes` start like `expected`, except for a few bits. A block that does, and fails its
/// checksum, is a damaged block of this format: power cuts do not tear blocks.
pub fn nearly(bytes: &[u8], expected: &[u8]) -> bool {
    const BITS: u32 = 8;
    let different = bytes.iter().zip(expected).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    bytes.len() >= expected.len() && different <= BITS
}

impl<'a> Decoder<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(count).ok_or_else(|| self.ends_early(count))?;
        self.0 = tail;
        Ok(head)
    }

    // Inlined, each is a comparison and a load; headers of a hundred records are decoded often.
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk().ok_or_else(|| self.ends_early(N))?;
        self.0 = tail;
        Ok(*head)
    }

    #[cold]
    fn ends_early(&self, wanted: usize) -> Malformed {
        let left = self.0.len();
        Malformed(format!("ends {} bytes early (wanted {wanted}, {left} left)", wanted - left))
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u128(&mut self) -> Result<u128, Malformed> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub fn uuid(&mut self) -> Result<[u8; 16], Malformed> {
        self.array()
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::from(self.u8()?);
        let bytes = self.take(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a name is not UTF-8".into()))
    }

    /// A count of items that take at least `least` bytes each, checked against what is left.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count.saturating_mul(least) > self.0.len() {
            return Err(Malformed(format!("says {count} items, but ends before")));
        }
        Ok(count)
    }

    /// Checks and removes the CRC-32C that [`Encoder::seal`] put at the end.
    pub fn unseal(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let split = bytes.len().checked_sub(4).ok_or_else(|| Malformed("too short".into()))?;
        let (body, tail) = bytes.split_at(split);
        let stored = u32::from_le_bytes(tail.try_into().expect("four bytes"));
        if crc32c::crc32c(body) != stored {
            return Err(Malformed("its checksum does not match".into()));
        }
        Ok(Decoder(body))
    }
}
