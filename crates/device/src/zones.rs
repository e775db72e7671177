//! Write pointers, and the checks that every device makes before a request.

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::{DeviceError, DeviceInfo, ErrorKind};

/// The bookkeeping half of a [`Device`](crate::Device): the zones that take appends, and their
/// write pointers.
///
/// It holds the device's [`DeviceInfo`], refuses requests that break the contract (always with
/// [`ErrorKind::Invalid`], and without a change), and claims addresses. The device does the I/O.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    info: DeviceInfo,
    zones: Vec<State>,
    open: u32,
    resets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sealed,
    /// A reset is under way; its ticket.
    Resetting(u64),
    /// Takes appends at this offset, in blocks.
    Open(u64),
}

/// Proof that a reset was begun, to be handed to [`ZoneTable::end_reset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetTicket {
    zone: ZoneId,
    number: u64,
}

fn invalid(context: String) -> DeviceError {
    DeviceError::new(ErrorKind::Invalid, context)
}

impl ZoneTable {
    /// A table for a device that was just opened: every zone is sealed.
    pub fn new(info: DeviceInfo) -> Self {
        assert!(info.zone_blocks > 0, "{}: zones have at least one block", info.name);
        assert!(info.append_blocks_max > 0, "{}: appends have at least one block", info.name);
        let zones = vec![State::Sealed; info.zones as usize];
        ZoneTable { info, zones, open: 0, resets: 0 }
    }

    /// Shape and abilities of the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Checks an append of `data` at `at` and moves the write pointer past it. Returns how many
    /// blocks it has.
    pub fn claim(&mut self, at: Pba, data: &[Bytes]) -> Result<u64, DeviceError> {
        let name = &self.info.name;
        let mut blocks = 0;
        for piece in data {
            if !piece.len().is_multiple_of(BLOCK_BYTES) {
                return Err(invalid(format!(
                    "append at {at} to {name}: a piece of {} bytes is not whole blocks of \
                     {BLOCK_SIZE} bytes",
                    piece.len()
                )));
            }
            blocks += piece.len() as u64 / BLOCK_SIZE;
        }
        if blocks == 0 {
            return Err(invalid(format!("append at {at} to {name}: it has no blocks")));
        }
        if blocks > self.info.append_blocks_max {
            return Err(invalid(format!(
                "append of {blocks} blocks at {at} to {name}: the longest append is {} blocks",
                self.info.append_blocks_max
            )));
        }
        if at.0 >= self.info.blocks() {
            return Err(invalid(format!(
                "append at {at} to {name}: the device ends at {}",
                Pba(self.info.blocks())
            )));
        }
        let (zone, offset) = (self.info.zone_of(at), at.offset(self.info.zone_blocks));
        let pointer = match self.zones[zone.0 as usize] {
            State::Open(pointer) => pointer,
            State::Sealed => {
                return Err(invalid(format!(
                    "append at {at} to {name}: {zone} is sealed; reset it first"
                )));
            }
            State::Resetting(_) => {
                return Err(invalid(format!(
                    "append at {at} to {name}: the reset of {zone} has not completed"
                )));
            }
        };
        if offset != pointer {
            return Err(invalid(format!(
                "append at {at} to {name}: the write pointer of {zone} is {}",
                zone.start(self.info.zone_blocks).plus(pointer)
            )));
        }
        if blocks > self.info.zone_blocks - pointer {
            return Err(invalid(format!(
                "append of {blocks} blocks at {at} to {name}: {zone} has room for {}",
                self.info.zone_blocks - pointer
            )));
        }
        if pointer == 0
            && let Some(max) = self.info.open_zones_max
            && self.open >= max
        {
            return Err(invalid(format!(
                "append at {at} to {name}: {max} zones are open, and no more may be; seal one"
            )));
        }
        self.set(zone, State::Open(pointer + blocks));
        Ok(blocks)
    }

    /// As [`claim`](Self::claim), for an append that failed: it may have claimed its address already.
    /// Returns whether it had.
    pub fn claim_again(&mut self, at: Pba, data: &[Bytes]) -> Result<bool, DeviceError> {
        let (zone, offset) = (self.info.zone_of(at), at.offset(self.info.zone_blocks));
        let blocks = data.iter().map(|piece| piece.len() as u64).sum::<u64>() / BLOCK_SIZE;
        match self.zones.get(zone.0 as usize) {
            Some(State::Open(pointer)) if offset + blocks <= *pointer => Ok(true),
            _ => self.claim(at, data).map(|_| false),
        }
    }

    /// Checks a read of `bytes` bytes from `from`. Returns how many blocks it has.
    pub fn check_read(&self, from: Pba, bytes: usize) -> Result<u64, DeviceError> {
        let name = &self.info.name;
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(invalid(format!(
                "read at {from} of {name}: {bytes} bytes are not whole blocks of {BLOCK_SIZE} \
                 bytes, at least one"
            )));
        }
        if from.0 >= self.info.blocks() {
            return Err(invalid(format!(
                "read at {from} of {name}: the device ends at {}",
                Pba(self.info.blocks())
            )));
        }
        let blocks = bytes as u64 / BLOCK_SIZE;
        if blocks > self.info.zone_blocks - from.offset(self.info.zone_blocks) {
            return Err(invalid(format!(
                "read of {blocks} blocks at {from} of {name}: it leaves {}",
                self.info.zone_of(from)
            )));
        }
        Ok(blocks)
    }

    /// Checks the length of a root, in bytes, against the device's longest.
    pub fn check_root(&self, bytes: usize, bytes_max: usize) -> Result<(), DeviceError> {
        if bytes > bytes_max {
            return Err(invalid(format!(
                "root of {bytes} bytes for {}: the longest is {bytes_max} bytes",
                self.info.name
            )));
        }
        Ok(())
    }

    /// Whether the zone takes no appends until it is reset.
    pub fn is_sealed(&self, zone: ZoneId) -> bool {
        matches!(self.zones.get(zone.0 as usize), Some(State::Sealed))
    }

    /// Ends `zone`, which may be sealed already.
    pub fn seal(&mut self, zone: ZoneId) -> Result<(), DeviceError> {
        self.check_zone(zone, "seal")?;
        if let State::Resetting(_) = self.zones[zone.0 as usize] {
            return Err(invalid(format!(
                "seal of {zone} of {}: its reset has not completed",
                self.info.name
            )));
        }
        self.set(zone, State::Sealed);
        Ok(())
    }

    /// Begins to empty `zone`, in any state. It takes no appends until
    /// [`end_reset`](ZoneTable::end_reset); if that never comes, until another reset.
    pub fn begin_reset(&mut self, zone: ZoneId) -> Result<ResetTicket, DeviceError> {
        self.check_zone(zone, "reset")?;
        self.resets += 1;
        self.set(zone, State::Resetting(self.resets));
        Ok(ResetTicket { zone, number: self.resets })
    }

    /// Whether this reset is the zone's latest, and has not ended.
    pub fn is_current(&self, ticket: ResetTicket) -> bool {
        self.zones[ticket.zone.0 as usize] == State::Resetting(ticket.number)
    }

    /// The zone is empty and takes appends from its start, unless another reset was begun since.
    pub fn end_reset(&mut self, ticket: ResetTicket) {
        if self.is_current(ticket) {
            self.set(ticket.zone, State::Open(0));
        }
    }

    /// The number of zones that the device would have with room for `zones`. Refuses more blocks
    /// than can be addressed.
    pub fn check_grow(&self, zones: u64) -> Result<u32, DeviceError> {
        let blocks = zones.saturating_mul(self.info.zone_blocks);
        match u32::try_from(zones) {
            Ok(zones) if blocks <= Pba::MAX.0 + 1 => Ok(zones.max(self.info.zones)),
            _ => Err(invalid(format!(
                "growing {} to {zones} zones: that is {blocks} blocks, and no device has more \
                 than {} blocks or {} zones",
                self.info.name,
                Pba::MAX.0 + 1,
                u32::MAX
            ))),
        }
    }

    /// Raises the number of zones to `zones`; the new ones are sealed. Never lowers it.
    pub fn grow(&mut self, zones: u32) {
        self.info.zones = self.info.zones.max(zones);
        self.zones.resize(self.info.zones as usize, State::Sealed);
    }

    fn check_zone(&self, zone: ZoneId, what: &str) -> Result<(), DeviceError> {
        if zone.0 >= self.info.zones {
            return Err(invalid(format!(
                "{what} of {zone} of {}: it has {} zones",
                self.info.name, self.info.zones
            )));
        }
        Ok(())
    }

    /// Changes a zone's state and keeps the count of open zones (begun, neither full nor sealed).
    fn set(&mut self, zone: ZoneId, state: State) {
        let zone_blocks = self.info.zone_blocks;
        let open = |state| matches!(state, State::Open(p) if p > 0 && p < zone_blocks);
        let slot = &mut self.zones[zone.0 as usize];
        self.open -= u32::from(open(*slot));
        *slot = state;
        self.open += u32::from(open(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sealing;

    fn table(open_zones_max: Option<u32>) -> ZoneTable {
        ZoneTable::new(DeviceInfo {
            name: "table".into(),
            uuid: [0; 16],
            zone_blocks: 8,
            zones: 4,
            append_blocks_max: 8,
            queue_depth: 1,
            open_zones_max,
            sealing: Sealing::Free,
        })
    }

    fn blocks(count: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![0; count * BLOCK_BYTES])]
    }

    #[test]
    fn a_zone_opened_beyond_the_limit_is_refused_until_one_is_sealed_or_full() {
        let mut table = table(Some(1));
        for zone in [0, 1] {
            let ticket = table.begin_reset(ZoneId(zone)).unwrap();
            table.end_reset(ticket);
        }
        table.claim(Pba(0), &blocks(1)).unwrap();
        let error = table.claim(Pba(8), &blocks(1)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        table.claim(Pba(1), &blocks(7)).unwrap();
        table.claim(Pba(8), &blocks(1)).expect("a full zone is not open");
        table.seal(ZoneId(1)).unwrap();
        let ticket = table.begin_reset(ZoneId(0)).unwrap();
        table.end_reset(ticket);
        table.claim(Pba(0), &blocks(1)).expect("a sealed zone is not open");
    }

    #[test]
    fn an_overtaken_reset_does_not_move_the_write_pointer_back() {
        let mut table = table(None);
        let first = table.begin_reset(ZoneId(0)).unwrap();
        let second = table.begin_reset(ZoneId(0)).unwrap();
        table.end_reset(second);
        table.claim(Pba(0), &blocks(2)).unwrap();
        table.end_reset(first);
        table.claim(Pba(2), &blocks(1)).expect("the pointer is still at 2");
    }

    #[test]
    fn addresses_past_every_end_are_refused_without_overflow() {
        let mut table = table(None);
        for at in [32, Pba::MAX.0, u64::MAX] {
            assert_eq!(table.claim(Pba(at), &blocks(1)).unwrap_err().kind, ErrorKind::Invalid);
            assert_eq!(table.check_read(Pba(at), 4096).unwrap_err().kind, ErrorKind::Invalid);
        }
        assert!(table.check_read(Pba(7), 8192).is_err(), "leaves the zone");
        assert!(table.seal(ZoneId(4)).is_err());
        assert!(table.begin_reset(ZoneId(u32::MAX)).is_err());
    }
}
