//! The number of segments of a store, and their least size.

use mjolnir_device::DeviceInfo;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize};

use crate::format::group::GROUP_BLOCKS_MAX;
use crate::format::manifest::Manifest;
use crate::format::root::MANIFEST_CHUNKS_MAX;

/// The fewest segments that a store can work with: the reserve, the open streams, and some to
/// reclaim.
pub const SEGMENTS_MIN: u32 = 16;

/// The fewest blocks in a segment.
pub(crate) const SEGMENT_BLOCKS_MIN: u64 = 32;

/// The most segments that a store on such a device can have. Entries of all of them fill at most
/// half of the manifest chunks that a root can name. The other half is for volumes and the node
/// table, or for a copy.
pub(crate) fn segments_max(info: &DeviceInfo) -> u64 {
    // The end of a segment may be too short for a whole chunk.
    let chunk_blocks = (info.append_blocks_max - 1).min(GROUP_BLOCKS_MAX.into());
    let chunk_blocks = chunk_blocks.min(info.zone_blocks / 2);
    (MANIFEST_CHUNKS_MAX / 2) as u64 * chunk_blocks * BLOCK_SIZE / Manifest::SEGMENT_BYTES_MAX
}

/// Refuses more segments than a store can have.
pub(crate) fn check_segments(info: &DeviceInfo, segments: u64) -> Result<(), Error> {
    let most = segments_max(info);
    if segments <= most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{}: {segments} segments of {} are too many: a store of such segments has at most {most}; \
             format one with larger segments",
            info.name,
            ByteSize(info.zone_blocks * BLOCK_SIZE),
        ),
    ))
}
