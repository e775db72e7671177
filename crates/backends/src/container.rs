//! The bytes of a container: labels and root slots, as described in `docs/internals/container.md`.

use mjolnir_device::{AlignedBuf, DeviceError, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba};

/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// Offsets of the label and its copy, in bytes.
pub(crate) const LABELS_AT: [u64; 2] = [0, 64 << 10];
/// Offsets of the root slots, in bytes.
pub(crate) const ROOTS_AT: [u64; 2] = [128 << 10, 192 << 10];
/// Offset of zone 0, in bytes.
pub(crate) const ZONES_AT: u64 = 1 << 20;
/// The longest root, in bytes.
pub(crate) const ROOT_BYTES_MAX: usize = 4000;
/// The fewest zones of a new container: fewer leave no room for reclaim.
pub(crate) const ZONES_MIN: u64 = 16;

const LABEL_MAGIC: [u8; 8] = *b"MJOLNIR\0";
const ZONED_MAGIC: [u8; 8] = *b"MJZONED\0";
/// The version of the label of a zoned device, written and read.
const ZONED_VERSION: u32 = 1;
const ROOT_MAGIC: [u8; 8] = *b"MJROOT\0\0";
const ROOT_HEAD: usize = 24;
const CHECKSUM_AT: usize = BLOCK_BYTES - 4;
const PREALLOCATED: u32 = 1;

const _: () = assert!(ROOT_HEAD + ROOT_BYTES_MAX <= BLOCK_BYTES);
const _: () = assert!(ROOTS_AT[1] + BLOCK_SIZE <= ZONES_AT);

/// The content of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub uuid: [u8; 16],
    pub zone_blocks: u64,
    pub zones: u32,
    pub preallocated: bool,
}

/// The state of a label's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found<L = Label> {
    Label(L),
    /// The magic is right, but the rest is damaged.
    Damaged,
    /// The magic is missing.
    Nothing,
    /// Intact, but this program cannot read it.
    Unknown(String),
}

impl Label {
    /// Bytes of a file that holds the container.
    pub fn file_bytes(&self) -> u64 {
        ZONES_AT + u64::from(self.zones) * self.zone_blocks * BLOCK_SIZE
    }

    /// The same label with `zones` zones, for the container called `name`.
    pub fn with_zones(self, name: &str, zones: u32) -> Result<Self, DeviceError> {
        let blocks = u64::from(zones).saturating_mul(self.zone_blocks);
        if blocks > Pba::MAX.0 + 1 {
            let (kind, blocks) = (ErrorKind::Format, self.zone_blocks);
            let what = format!("{name}: {zones} segments of {blocks} blocks cannot be");
            return Err(DeviceError::new(kind, what));
        }
        Ok(Label { zones, ..self })
    }

    /// The zones of `zone_blocks` blocks that fit in a container of `bytes` bytes.
    pub fn zones_in(bytes: u64, zone_blocks: u64) -> u64 {
        bytes.saturating_sub(ZONES_AT) / (zone_blocks * BLOCK_SIZE)
    }

    pub fn encode(&self) -> AlignedBuf {
        let mut buffer = AlignedBuf::zeroed(BLOCK_BYTES);
        let bytes = buffer.as_mut();
        bytes[..8].copy_from_slice(&LABEL_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK_SIZE as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.uuid);
        bytes[32..40].copy_from_slice(&self.zone_blocks.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.zones.to_le_bytes());
        let flags = if self.preallocated { PREALLOCATED } else { 0 };
        bytes[44..48].copy_from_slice(&flags.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        buffer
    }

    /// Reads `bytes`, one block.
    pub fn decode(bytes: &[u8]) -> Found {
        if let Some(other) = unlike(bytes, LABEL_MAGIC, VERSION) {
            return other;
        }
        let flags = u32_at(bytes, 44);
        if flags & !PREALLOCATED != 0 {
            return Found::Unknown(format!("it has flags {flags:#x}, unknown to this program"));
        }
        let label = Label {
            uuid: bytes[16..32].try_into().expect("16 bytes"),
            zone_blocks: u64_at(bytes, 32),
            zones: u32_at(bytes, 40),
            preallocated: flags & PREALLOCATED != 0,
        };
        if let Some(why) = impossible(label.zones, label.zone_blocks) {
            return Found::Unknown(why);
        }
        Found::Label(label)
    }
}

/// The content of the label of a zoned device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZonedLabel {
    pub uuid: [u8; 16],
    /// Blocks that are used of each zone.
    pub zone_blocks: u64,
    /// Zones for data.
    pub zones: u32,
}

impl ZonedLabel {
    pub fn encode(&self) -> AlignedBuf {
        let mut buffer = AlignedBuf::zeroed(BLOCK_BYTES);
        let bytes = buffer.as_mut();
        bytes[..8].copy_from_slice(&ZONED_MAGIC);
        bytes[8..12].copy_from_slice(&ZONED_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK_SIZE as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.uuid);
        bytes[32..40].copy_from_slice(&self.zone_blocks.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.zones.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        buffer
    }

    /// Reads `bytes`, one block.
    pub fn decode(bytes: &[u8]) -> Found<ZonedLabel> {
        if let Some(other) = unlike(bytes, ZONED_MAGIC, ZONED_VERSION) {
            return other;
        }
        let label = ZonedLabel {
            uuid: bytes[16..32].try_into().expect("16 bytes"),
            zone_blocks: u64_at(bytes, 32),
            zones: u32_at(bytes, 40),
        };
        if let Some(why) = impossible(label.zones, label.zone_blocks) {
            return Found::Unknown(why);
        }
        Found::Label(label)
    }
}

/// What a block is, if it is no label with that magic that this program reads.
fn unlike<L>(bytes: &[u8], magic: [u8; 8], known: u32) -> Option<Found<L>> {
    assert_eq!(bytes.len(), BLOCK_BYTES, "a label is one block");
    if bytes[..8] != magic {
        return Some(Found::Nothing);
    }
    if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != u32_at(bytes, CHECKSUM_AT) {
        return Some(Found::Damaged);
    }
    let version = u32_at(bytes, 8);
    if version != known {
        return Some(Found::Unknown(format!(
            "its format has version {version}, and this program reads version {known}"
        )));
    }
    let block_size = u32_at(bytes, 12);
    (u64::from(block_size) != BLOCK_SIZE).then(|| {
        Found::Unknown(format!(
            "its blocks have {block_size} bytes, and this program reads {BLOCK_SIZE}"
        ))
    })
}

/// Why there are no zones like these, if so.
fn impossible(zones: u32, zone_blocks: u64) -> Option<String> {
    let blocks = u64::from(zones).saturating_mul(zone_blocks);
    (blocks == 0 || blocks > Pba::MAX.0 + 1)
        .then(|| format!("it has {zones} segments of {zone_blocks} blocks, which cannot be"))
}

/// Chooses between the two labels of the container called `name`. The flags show which labels are
/// damaged.
pub(crate) fn choose_label(
    name: &str,
    found: [Found; 2],
) -> Result<(Label, [bool; 2]), DeviceError> {
    let refuse = |why: String| Err(DeviceError::new(ErrorKind::Format, format!("{name}: {why}")));
    let damaged = found.clone().map(|found| matches!(found, Found::Damaged | Found::Nothing));
    match found {
        // A crash interrupted growth; the file has room for the higher number.
        [Found::Label(first), Found::Label(second)] => {
            let second_serves = second.uuid == first.uuid && second.zones > first.zones;
            Ok((if second_serves { second } else { first }, damaged))
        }
        // An older copy must not overrule a newer program's label.
        [Found::Unknown(why), _] | [_, Found::Unknown(why)] => refuse(why),
        [Found::Label(label), _] | [_, Found::Label(label)] => Ok((label, damaged)),
        [Found::Nothing, Found::Nothing] => {
            refuse("it is not a Mjolnir store (there is no label)".into())
        }
        _ => refuse(format!(
            "both labels are damaged (the blocks at byte {} and byte {}); restore one of them \
             from a backup",
            LABELS_AT[0], LABELS_AT[1]
        )),
    }
}

/// The bytes of a root slot.
pub(crate) fn encode_root(uuid: &[u8; 16], sequence: u64, root: &[u8]) -> AlignedBuf {
    assert!(root.len() <= ROOT_BYTES_MAX, "a root of {} bytes", root.len());
    let mut buffer = AlignedBuf::zeroed(BLOCK_BYTES);
    let bytes = buffer.as_mut();
    bytes[..8].copy_from_slice(&ROOT_MAGIC);
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes[16..20].copy_from_slice(&(root.len() as u32).to_le_bytes());
    bytes[ROOT_HEAD..ROOT_HEAD + root.len()].copy_from_slice(root);
    let checksum = root_checksum(uuid, &bytes[..20], root);
    bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
    buffer
}

/// Sequence number and root of a slot, if it is valid.
pub(crate) fn decode_root(uuid: &[u8; 16], bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
    assert_eq!(bytes.len(), BLOCK_BYTES, "a root slot is one block");
    let length = u32_at(bytes, 16) as usize;
    if bytes[..8] != ROOT_MAGIC || length > ROOT_BYTES_MAX {
        return None;
    }
    let root = &bytes[ROOT_HEAD..ROOT_HEAD + length];
    let valid = root_checksum(uuid, &bytes[..20], root) == u32_at(bytes, 20);
    valid.then(|| (u64_at(bytes, 8), root.to_vec()))
}

fn root_checksum(uuid: &[u8; 16], head: &[u8], root: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(uuid), head), root)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zoned_label_is_read_back_and_damage_to_it_is_seen() {
        let label = ZonedLabel { uuid: [9; 16], zone_blocks: 1536, zones: 30 };
        let encoded = label.encode();
        assert_eq!(ZonedLabel::decode(encoded.as_ref()), Found::Label(label));
        assert_eq!(Label::decode(encoded.as_ref()), Found::Nothing);
        for at in [8, 20, 4095] {
            let mut bytes = encoded.as_ref().to_vec();
            bytes[at] ^= 1;
            assert_eq!(ZonedLabel::decode(&bytes), Found::Damaged, "byte {at}");
        }
        let none = ZonedLabel { uuid: [9; 16], zone_blocks: 0, zones: 30 };
        assert!(matches!(ZonedLabel::decode(none.encode().as_ref()), Found::Unknown(_)));
    }

    fn label() -> Label {
        Label { uuid: *b"0123456789abcdef", zone_blocks: 0x1_0000, zones: 77, preallocated: true }
    }

    /// Recomputes the checksum after `change`, as another program's label would have it.
    fn foreign(change: impl FnOnce(&mut [u8])) -> Found {
        let mut buffer = label().encode();
        let bytes = buffer.as_mut();
        change(bytes);
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Label::decode(bytes)
    }

    #[test]
    fn a_label_has_the_bytes_of_the_format_document() {
        let buffer = label().encode();
        let bytes = buffer.as_ref();
        assert_eq!(&bytes[..16], b"MJOLNIR\0\x01\0\0\0\0\x10\0\0");
        assert_eq!(&bytes[16..32], b"0123456789abcdef");
        assert_eq!(bytes[32..48], [0, 0, 1, 0, 0, 0, 0, 0, 77, 0, 0, 0, 1, 0, 0, 0]);
        assert!(bytes[48..4092].iter().all(|&byte| byte == 0));
        assert_eq!(Label::decode(bytes), Found::Label(label()));
        assert_eq!(label().file_bytes(), (1 << 20) + 77 * 65536 * 4096);
    }

    #[test]
    fn every_flipped_bit_of_a_label_is_noticed() {
        for bit in 0..BLOCK_BYTES * 8 {
            let mut buffer = label().encode();
            buffer.as_mut()[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { Found::Nothing } else { Found::Damaged };
            assert_eq!(Label::decode(buffer.as_ref()), expected, "bit {bit}");
        }
    }

    #[test]
    fn what_this_program_cannot_read_is_told_apart_from_damage() {
        for (at, value) in [(8, 2u8), (12, 1), (44, 2), (40, 0)] {
            let found = foreign(|bytes| bytes[at] = value);
            assert!(matches!(found, Found::Unknown(_)), "byte {at}: {found:?}");
        }
        let Found::Unknown(why) = foreign(|bytes| bytes[8] = 9) else { panic!("it is newer") };
        assert!(why.contains("version 9") && why.contains("reads version 1"), "{why}");
        let huge = foreign(|bytes| bytes[32..40].fill(0xFF));
        assert!(matches!(huge, Found::Unknown(_)), "{huge:?}");
    }

    #[test]
    fn the_better_label_serves() {
        let grown = Label { zones: 99, ..label() };
        let choose = |first: Found, second: Found| choose_label("here", [first, second]);
        let good = || Found::Label(label());
        assert_eq!(choose(good(), good()), Ok((label(), [false, false])));
        let chosen = choose(good(), Found::Label(grown.clone()));
        assert_eq!(chosen, Ok((grown, [false, false])));
        assert_eq!(choose(Found::Damaged, good()), Ok((label(), [true, false])));
        assert_eq!(choose(good(), Found::Nothing), Ok((label(), [false, true])));
        let refusal = |first, second| choose(first, second).unwrap_err().context;
        assert!(refusal(Found::Damaged, Found::Nothing).contains("both labels are damaged"));
        assert!(refusal(Found::Nothing, Found::Nothing).contains("not a Mjolnir store"));
        assert!(refusal(good(), Found::Unknown("newer".into())).contains("here: newer"));
    }

    #[test]
    fn a_root_slot_has_the_bytes_of_the_format_document() {
        let uuid = label().uuid;
        let buffer = encode_root(&uuid, 5, b"a root");
        let bytes = buffer.as_ref();
        assert_eq!(&bytes[..20], b"MJROOT\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0");
        assert_eq!(&bytes[24..30], b"a root");
        assert_eq!(decode_root(&uuid, bytes), Some((5, b"a root".to_vec())));
    }

    #[test]
    fn a_damaged_or_foreign_root_slot_is_no_root() {
        let uuid = label().uuid;
        for length in [0, 1, ROOT_BYTES_MAX] {
            let whole = encode_root(&uuid, 1, &vec![7; length]);
            assert!(decode_root(&uuid, whole.as_ref()).is_some());
            assert_eq!(decode_root(&[0; 16], whole.as_ref()), None);
            for bit in 0..(ROOT_HEAD + length) * 8 {
                let mut buffer = AlignedBuf::copy_of(whole.as_ref());
                buffer.as_mut()[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode_root(&uuid, buffer.as_ref()), None, "bit {bit} of {length}");
            }
        }
        assert_eq!(decode_root(&uuid, &[0; BLOCK_BYTES]), None);
        assert_eq!(decode_root(&uuid, &[0xFF; BLOCK_BYTES]), None);
    }
}
