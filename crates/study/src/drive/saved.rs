//! The state of a drive in a file, to begin many runs from.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use mjolnir_experiment::ledger::write_whole;
use mjolnir_units::BLOCK_BYTES;

use super::id::DriveId;
use super::{SimDrive, Zone};

const MAGIC: &[u8; 8] = b"MJSTUDY2";

/// Writes what a drive at rest holds to a file, wholly or not at all. `expected` is what the oracle
/// knows.
pub(crate) fn save(drive: &SimDrive, expected: Option<Vec<u64>>, path: &str) -> Result<(), String> {
    let mut out = Vec::from(MAGIC);
    let state = drive.state();
    let mut numbers = |values: &[u64]| {
        values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    };
    let layout = &state.layout;
    let blocks = state.nand.geometry().blocks();
    numbers(&[layout.zones.into(), layout.zone_blocks, layout.unit_bytes, blocks.into()]);
    for block in 0..blocks {
        let next = state.nand.next_page(block).map_or(u64::from(u32::MAX), u64::from);
        numbers(&[next << 32 | u64::from(state.nand.erases(block))]);
    }
    let (taken, serving) = state.stand_ins.saved();
    numbers(&taken.iter().map(|taken| u64::from(*taken)).collect::<Vec<_>>());
    numbers(&[serving.len() as u64]);
    let pairs = serving.iter().map(|(block, other)| u64::from(*block) << 32 | u64::from(*other));
    numbers(&pairs.collect::<Vec<_>>());
    let tags = state.tags.as_deref().unwrap_or_default();
    let expected = expected.unwrap_or_default();
    numbers(&[tags.len() as u64, expected.len() as u64]);
    numbers(tags);
    numbers(&expected);
    for zone in &state.zones {
        numbers(&[zone.blocks.into(), zone.programmed, zone.whole().len() as u64]);
    }
    let mut block = [0; BLOCK_BYTES];
    for zone in &state.zones {
        for (index, offset) in zone.whole().enumerate() {
            zone.kept(index, state.tags.is_some(), &mut block);
            let used = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&(used as u32).to_le_bytes());
            out.extend_from_slice(&block[..used]);
        }
    }
    let root = state.root.clone().unwrap_or_default();
    out.extend_from_slice(&(root.len() as u32).to_le_bytes());
    out.extend_from_slice(&root);
    // Which device it was of, unless of the first of a run, as all once were.
    let uuid = state.table.info().uuid;
    if uuid != DriveId::default().uuid() {
        out.extend_from_slice(&uuid);
    }
    let sum = crc32c::crc32c(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    write_whole(Path::new(path), &out).map_err(|why| format!("precondition.save: {why}"))
}

/// Reads numbers off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    fn u64s(&mut self, count: u64) -> Option<Vec<u64>> {
        // No more than there can be: a count is not believed before.
        if count > self.0.len() as u64 / 8 {
            return None;
        }
        (0..count).map(|_| self.u64()).collect()
    }
}

/// Brings what a file holds back to a new drive. Returns what the oracle knew, where it looked.
pub(crate) fn restore(drive: &SimDrive, path: &str) -> Result<Option<Vec<u64>>, String> {
    let fail = |why: &str| format!("precondition.restore: {path}: {why}");
    let bytes = fs::read(path)
        .map_err(|error| format!("precondition.restore: cannot read {path}: {error}"))?;
    if !bytes.starts_with(MAGIC) {
        return Err(fail("this is no saved state of a drive, or one of another version"));
    }
    let damaged = || fail("the saved state is damaged: save it again");
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
        return Err(damaged());
    }
    let mut reader = Reader(&body[MAGIC.len()..]);
    let mut state = drive.state();
    let layout = &state.layout;
    let blocks = state.nand.geometry().blocks();
    let shape = [layout.zones.into(), layout.zone_blocks, layout.unit_bytes, blocks.into()];
    if reader.u64s(4).as_deref() != Some(&shape[..]) {
        return Err(fail(
            "the saved state is of another drive: restore it with the same device.nand and \
             drive.zone_planes, and as many erase blocks in reserve (drive.spare_blocks; some are, if \
             not said, where device.faults has any fail), with which it was saved",
        ));
    }
    let read = (|| {
        for (block, packed) in (0u32..).zip(reader.u64s(blocks.into())?) {
            let next = (packed >> 32) as u32;
            state.nand.restore(block, (next != u32::MAX).then_some(next), packed as u32);
        }
        let planes = state.nand.geometry().planes();
        let taken = reader.u64s(planes.into())?.into_iter().map(|taken| taken as u32).collect();
        let serving = reader.u64()?;
        let serving = reader.u64s(serving)?.into_iter();
        let serving = serving.map(|pair| ((pair >> 32) as u32, pair as u32)).collect();
        state.stand_ins.restore(taken, serving).then_some(())?;
        let (tags, expected) = (reader.u64()?, reader.u64()?);
        let (tags, expected) = (reader.u64s(tags)?, reader.u64s(expected)?);
        let zones = state.zones.len();
        let heads = reader.u64s(3 * zones as u64)?;
        for (zone, head) in state.zones.iter_mut().zip(heads.chunks_exact(3)) {
            *zone = Zone::new(head[0] as u32, head[1]);
        }
        // What was written with tags of its own is read with them.
        let tagged = state.tags.is_some() || !tags.is_empty();
        let mut block = [0; BLOCK_BYTES];
        for (zone, head) in (0u32..).zip(heads.chunks_exact(3)) {
            for _ in 0..head[2] {
                let (offset, length) = (reader.u32()?, reader.u32()?);
                let bytes = reader.take(length as usize)?;
                block.get_mut(..bytes.len())?.copy_from_slice(bytes);
                block[bytes.len()..].fill(0);
                state.keep(zone, offset, &block, tagged);
            }
        }
        let length = reader.u32()?;
        state.root = Some(Bytes::copy_from_slice(reader.take(length as usize)?));
        let uuid = match reader.0 {
            [] => DriveId::default().uuid(),
            uuid => uuid.try_into().ok()?,
        };
        Some((tags, expected, uuid))
    })();
    let (tags, expected, uuid) = read.ok_or_else(damaged)?;
    drop(state);
    drive.become_device(uuid);
    let mut state = drive.state();
    let looks = state.tags.is_some();
    let blocks = u64::from(state.layout.zones) * state.layout.zone_blocks;
    if !tags.is_empty() && tags.len() as u64 != blocks {
        return Err(damaged());
    }
    match (looks, tags.is_empty() || looks && expected.is_empty()) {
        (true, true) => Err(fail(
            "the saved state has no content tags for the oracle: save it with measure.oracle = \
             true, or restore it without",
        )),
        (true, false) => {
            state.tags = Some(tags);
            Ok(Some(expected))
        }
        // What was written with tags of its own must be read with them.
        (false, false) => {
            state.tags = Some(tags);
            Ok(None)
        }
        (false, true) => Ok(None),
    }
}
