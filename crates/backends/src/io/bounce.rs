//! Copies to aligned memory, which direct I/O requires.

use bytes::Bytes;
use mjolnir_device::AlignedBuf;
use mjolnir_units::BLOCK_BYTES;

/// Copies the pieces that do not start at a multiple of the block size in memory (neighbours
/// together) and leaves the others as they are.
pub(crate) fn align(pieces: Vec<Bytes>) -> Vec<Bytes> {
    let aligned = |piece: &Bytes| (piece.as_ptr() as usize).is_multiple_of(BLOCK_BYTES);
    if pieces.iter().all(aligned) {
        return pieces;
    }
    let mut result = Vec::with_capacity(pieces.len());
    for run in pieces.chunk_by(|a, b| !aligned(a) && !aligned(b)) {
        if aligned(&run[0]) {
            result.push(run[0].clone());
            continue;
        }
        let mut copy = AlignedBuf::zeroed(run.iter().map(Bytes::len).sum());
        let mut rest = copy.as_mut();
        for piece in run {
            let (head, tail) = rest.split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
        }
        result.push(copy.freeze());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of `blocks` blocks of `fill`, at an address that is `shift` off alignment.
    fn piece(fill: u8, blocks: usize, shift: usize) -> Bytes {
        let mut buffer = AlignedBuf::zeroed(blocks * BLOCK_BYTES + shift);
        buffer.as_mut().fill(fill);
        buffer.freeze().slice(shift..)
    }

    #[test]
    fn misaligned_pieces_are_copied_and_aligned_ones_are_not() {
        let pieces = vec![piece(1, 1, 0), piece(2, 2, 8), piece(3, 1, 512), piece(4, 1, 0)];
        let result = align(pieces.clone());
        assert_eq!(result.len(), 3);
        assert!(result.iter().all(|piece| (piece.as_ptr() as usize).is_multiple_of(BLOCK_BYTES)));
        assert_eq!(result.concat(), pieces.concat());
        assert_eq!(result[0].as_ptr(), pieces[0].as_ptr());
        assert_eq!(result[2].as_ptr(), pieces[3].as_ptr());
        let aligned = vec![piece(1, 1, 0), piece(2, 1, 0)];
        assert_eq!(align(aligned.clone()).len(), 2);
        assert!(align(Vec::new()).is_empty());
    }
}
