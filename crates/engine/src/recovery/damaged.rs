//! Reports records that recovery left out, and damage that it found, in a store that it opened.

use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::report::{DamagedPlace, ReadPurpose};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

use crate::drive::{Engine, TRIES};
use crate::format::bind;
use crate::format::group::GroupHeader;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The damaged blocks of a group's payload, each with the reason.
    pub(crate) async fn damaged_blocks(
        &self,
        zone: ZoneId,
        group: &GroupHeader,
    ) -> Vec<(Pba, DamagedPlace)> {
        let zone_blocks = self.state().info.zone_blocks;
        let checksum = self.device().abilities().block_checksum();
        let start = zone.start(zone_blocks).plus(u64::from(group.offset) + 1);
        let mut damaged = Vec::new();
        for (index, expected) in (0u64..).zip(&group.checksums) {
            let at = start.plus(index);
            let mut why = String::new();
            let (mut whole, mut was_read) = (false, false);
            for _ in 0..TRIES {
                match self
                    .read_device(ReadPurpose::Recovery, at, AlignedBuf::zeroed(BLOCK_BYTES))
                    .await
                {
                    Ok(block) => {
                        whole = checksum(block.as_ref()) ^ bind(at, group.incarnation) == *expected;
                        why = "it does not match its checksum".into();
                        was_read = true;
                    }
                    Err(error) => (why, was_read) = (error.to_string(), false),
                }
                if whole {
                    break;
                }
            }
            if !whole {
                let what = format!(
                    "{at} (segment {}) is damaged: {why}. A flush had covered what was written there",
                    zone.0
                );
                if was_read {
                    self.note_mismatch(ReadPurpose::Recovery, at, &what);
                }
                let block = at.offset(zone_blocks);
                damaged.push((at, DamagedPlace { zone: zone.0, block, what }));
            }
        }
        damaged
    }
}
