//! Memory that direct I/O can use.

use bytes::Bytes;
use mjolnir_units::BLOCK_BYTES;

use crate::buffers::Loan;

/// Memory whose start is aligned to a block, as direct I/O asks: zero-filled, or one of
/// [`Buffers`](crate::Buffers).
///
/// Becomes a [`Bytes`] (shared, sliced without copies) through [`AlignedBuf::freeze`].
pub struct AlignedBuf {
    memory: Memory,
    len: usize,
}

enum Memory {
    Own(Vec<Block>),
    Lent(Loan),
}

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Block([u8; BLOCK_BYTES]);

const _: () = assert!(size_of::<Block>() == BLOCK_BYTES && align_of::<Block>() == BLOCK_BYTES);

impl AlignedBuf {
    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let blocks = vec![Block([0; BLOCK_BYTES]); len.div_ceil(BLOCK_BYTES)];
        AlignedBuf { memory: Memory::Own(blocks), len }
    }

    /// A buffer of `len` bytes in memory that goes back where it came from.
    pub(crate) fn lent(loan: Loan, len: usize) -> Self {
        assert!(len <= loan.len(), "a buffer is lent in enough memory");
        AlignedBuf { memory: Memory::Lent(loan), len }
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut blocks = Vec::with_capacity(bytes.len().div_ceil(BLOCK_BYTES));
        let (whole, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        blocks.extend(whole.iter().map(|block| Block(*block)));
        if !rest.is_empty() {
            let mut last = Block([0; BLOCK_BYTES]);
            last.0[..rest.len()].copy_from_slice(rest);
            blocks.push(last);
        }
        AlignedBuf { memory: Memory::Own(blocks), len: bytes.len() }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives up the right to write, in exchange for cheap sharing. Copies nothing.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        let whole = match &self.memory {
            // SAFETY: `Block` is `repr(C)` around plain bytes without padding (asserted above), so
            // the vector's initialised elements are so many bytes.
            Memory::Own(blocks) => unsafe {
                std::slice::from_raw_parts(blocks.as_ptr().cast(), blocks.len() * BLOCK_BYTES)
            },
            Memory::Lent(loan) => loan.bytes(),
        };
        &whole[..self.len]
    }
}

impl AsMut<[u8]> for AlignedBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        let whole = match &mut self.memory {
            // SAFETY: as in `as_ref`; `&mut self` makes the access exclusive.
            Memory::Own(blocks) => unsafe {
                let length = blocks.len() * BLOCK_BYTES;
                std::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast(), length)
            },
            Memory::Lent(loan) => loan.bytes_mut(),
        };
        &mut whole[..self.len]
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_keeps_its_bytes_when_frozen() {
        let mut buffer = AlignedBuf::zeroed(5000);
        assert_eq!(buffer.as_ref().as_ptr() as usize % BLOCK_BYTES, 0);
        assert!(buffer.as_ref().iter().all(|&byte| byte == 0));
        buffer.as_mut()[4999] = 7;
        let frozen = buffer.freeze();
        assert_eq!((frozen.len(), frozen[4999], frozen[4998]), (5000, 7, 0));
    }

    #[test]
    fn an_empty_buffer_is_fine() {
        assert!(AlignedBuf::zeroed(0).freeze().is_empty());
    }
}
