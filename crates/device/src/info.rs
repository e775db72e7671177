//! The shape and abilities of a device, as data.

use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

/// Shape and abilities of a device. They do not change while it is open, but for
/// [`zones`](DeviceInfo::zones), which growing the device raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What messages call the device: a path, or a name.
    pub name: String,
    /// Identity of the container, drawn when it was made.
    pub uuid: [u8; 16],
    /// Blocks in each zone.
    pub zone_blocks: u64,
    /// Zones on the device.
    pub zones: u32,
    /// The longest append, in blocks.
    pub append_blocks_max: u64,
    /// Appends and reads that the device likes to have in flight together. For those who measure and
    /// drive it: an engine hands over what clients ask for, and reclaim what it has ready.
    pub queue_depth: usize,
    /// Zones that may be open (appended to and not yet sealed) at once; `None` for no limit.
    pub open_zones_max: Option<u32>,
    /// What sealing a zone means here.
    pub sealing: Sealing,
}

/// When appended bytes may become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// A flush makes every completed append durable, sealed zone or open.
    Free,
    /// Only sealing a zone makes it durable, as where a zone is one object.
    Durable,
}

impl DeviceInfo {
    /// Blocks on the whole device.
    pub fn blocks(&self) -> u64 {
        u64::from(self.zones) * self.zone_blocks
    }

    /// Bytes on the whole device.
    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_SIZE
    }

    /// The zone that holds `pba`.
    pub fn zone_of(&self, pba: Pba) -> ZoneId {
        pba.zone(self.zone_blocks)
    }
}
