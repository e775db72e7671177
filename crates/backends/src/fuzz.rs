//! Decoders of a container's frame, for fuzzing and for tests that replay its findings.

use mjolnir_units::BLOCK_BYTES;

use crate::container::{Found, Label, choose_label, decode_root, encode_root};

/// Takes `bytes` for the blocks of two labels, then of two root slots, as they are and with each
/// checksum made right; what is missing is zero. What decodes must survive being written and read
/// again.
///
/// # Panics
///
/// If a decoder is wrong.
pub fn decode_everything(bytes: &[u8]) {
    let mut blocks = bytes.chunks(BLOCK_BYTES).map(|block| {
        let mut whole = [0; BLOCK_BYTES];
        whole[..block.len()].copy_from_slice(block);
        whole
    });
    let mut next = || blocks.next().unwrap_or([0; BLOCK_BYTES]);
    let (first, second) = (next(), next());
    for labels in [[first, second], [sealed(first), second], [sealed(first), sealed(second)]] {
        let found = labels.map(|label| Label::decode(&label));
        for one in &found {
            if let Found::Label(label) = one {
                assert_eq!(Label::decode(label.encode().as_ref()), *one);
            }
        }
        let Ok((label, _)) = choose_label("it", found) else { continue };
        assert!(label.zones > 0 && label.zone_blocks > 0);
        assert!(label.file_bytes() > 0, "the size overflows");
        root(&label.uuid, &next());
    }
    if let Some((entry, length)) = crate::warm::decode(bytes) {
        assert!(length <= bytes.len() && entry.record.len() <= length);
    }
    for slot in [first, second, next(), next()] {
        root(&[0; 16], &slot);
    }
}

fn root(uuid: &[u8; 16], slot: &[u8]) {
    if let Some((sequence, root)) = decode_root(uuid, slot) {
        let again = encode_root(uuid, sequence, &root);
        assert_eq!(decode_root(uuid, again.as_ref()), Some((sequence, root)));
    }
}

/// A label with the checksum that it should have.
fn sealed(mut block: [u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    let end = BLOCK_BYTES - 4;
    let sum = crc32c::crc32c(&block[..end]);
    block[end..].copy_from_slice(&sum.to_le_bytes());
    block
}
