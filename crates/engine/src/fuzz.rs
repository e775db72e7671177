//! Entry point to the decoders of on-media bytes, for fuzzing and for tests that replay its
//! findings. No decoder may panic on any input, or allocate more memory than the input's length
//! justifies.

use std::fmt::Debug;

use mjolnir_units::BLOCK_BYTES;

use crate::format::group::GroupHeader;
use crate::format::manifest::Manifest;
use crate::format::root::{MANIFEST_CHUNKS_MAX, Root};
use crate::format::segment::{Footer, SegmentHeader};

/// Feeds `bytes` to every decoder, unchanged and with each checksum corrected: a fuzzer cannot
/// guess a checksum, and must still reach the fields behind it. A decoded value must survive being
/// encoded and decoded again.
///
/// # Panics
///
/// If a decoder is wrong.
pub fn decode_everything(bytes: &[u8]) {
    decode(bytes);
    for end in checksums(bytes) {
        let mut repaired = bytes.to_vec();
        let sum = crc32c::crc32c(&bytes[..end]);
        repaired[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        decode(&repaired);
    }
}

/// Offsets of the checksums, for each structure that `bytes` may be.
fn checksums(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    };
    // Offsets: the end, a segment header, and a footer by its counts.
    let footer = word(16).zip(word(20)).map(|(blocks, groups)| 24 + 4 * (blocks + groups));
    let length = bytes.len();
    let mut ends = vec![length.wrapping_sub(4), SegmentHeader::BYTES - 4];
    ends.extend(footer);
    ends.into_iter().filter(move |end| end.checked_add(4).is_some_and(|end| end <= length))
}

fn decode(bytes: &[u8]) {
    if let Ok(root) = Root::decode(bytes)
        && root.manifest.len() <= MANIFEST_CHUNKS_MAX
    {
        same(Root::decode(&root.encode()), &root);
    }
    if let Some(header) = SegmentHeader::decode(bytes) {
        same(SegmentHeader::decode(&header.encode()).ok_or("none"), &header);
    }
    if let Ok(footer) = Footer::decode(bytes) {
        same(Footer::decode(&footer.encode()), &footer);
    }
    if let Ok(header) = GroupHeader::decode(bytes) {
        let again = header.encode();
        assert_eq!(again.len(), BLOCK_BYTES);
        same(GroupHeader::decode(&again), &header);
    }
    if let Ok(manifest) = Manifest::decode(bytes) {
        same(Manifest::decode(&manifest.encode()), &manifest);
    }
}

fn same<T: PartialEq + Debug, E: Debug>(again: Result<T, E>, first: &T) {
    match again {
        Ok(again) => assert_eq!(again, *first, "it changed by being written and read"),
        Err(why) => panic!("what was written of {first:?} does not decode: {why:?}"),
    }
}
