//! Verified reads: from addresses to bytes that match their checksums.

use std::ops::Range;

use bytes::Bytes;
use futures_util::future::join;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::Error;
use mjolnir_store::report::ReadPurpose;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::read::sources::ReadSource;
use crate::drive::state::State;
use crate::fault;
use crate::format::bind;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads blocks of one segment, from memory or the device, and verifies them.
    pub(crate) async fn read_verified(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        blocks: u64,
    ) -> Result<Bytes, Error> {
        let sources = {
            let mut state = self.state();
            self.sources(&mut state, &[Run { blocks, pba: Some(pba) }])
        };
        let mut whole: Option<AlignedBuf> = None;
        let mut filled = 0;
        let single = sources.len() == 1;
        for source in sources {
            let bytes = match source {
                ReadSource::Hole(_) => unreachable!("a run with an address"),
                ReadSource::Memory(bytes) => bytes,
                ReadSource::Device(at, count, _pin) => {
                    self.read_pinned(purpose, at, count).await?.freeze()
                }
            };
            if single {
                return Ok(bytes);
            }
            let buffer =
                whole.get_or_insert_with(|| AlignedBuf::zeroed((blocks * BLOCK_SIZE) as usize));
            buffer.as_mut()[filled..filled + bytes.len()].copy_from_slice(&bytes);
            filled += bytes.len();
        }
        Ok(whole.unwrap_or_else(|| AlignedBuf::zeroed(0)).freeze())
    }

    /// Reads blocks of a pinned segment from the device and verifies each.
    pub(crate) async fn read_pinned(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        blocks: u64,
    ) -> Result<AlignedBuf, Error> {
        let buffer = self.buffer((blocks * BLOCK_SIZE) as usize);
        let read = self.read_device(purpose, pba, buffer);
        let (read, few) = join(read, self.few_checksums(purpose, pba, blocks)).await;
        let buffer = read.map_err(|error| fault::device(&format!("reading {pba}"), error))?;
        self.verify(purpose, pba, buffer.as_ref(), few.as_deref(), |_| ()).await?;
        Ok(buffer)
    }

    /// Compares blocks read from `pba` on, within one pinned segment, with their checksums. On
    /// success, `content` has received each block's content checksum, which does not depend on its
    /// address; it is called while the state is borrowed. `few` are checksums that no footer
    /// checksum covers: if one does not match, the segment's full checksums decide.
    pub(crate) async fn verify(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        bytes: &[u8],
        few: Option<&[u32]>,
        mut content: impl FnMut(u32),
    ) -> Result<(), Error> {
        let sum = self.device().abilities().block_checksum();
        let zone_blocks = self.state().space.zone_blocks;
        let (zone, offset) = (pba.zone(zone_blocks), pba.offset(zone_blocks));
        let range = offset..offset + bytes.len() as u64 / BLOCK_SIZE;
        let incarnation = self.state().space.get(zone).incarnation;
        // The first block that does not match.
        let mut compare = |expected: &[u32]| {
            assert_eq!(expected.len(), bytes.len() / BLOCK_BYTES, "each block is verified");
            let places = (0..).map(|index| pba.plus(index));
            let blocks = places.zip(expected).map(|(at, sum)| (at, sum ^ bind(at, incarnation)));
            let wrong = blocks
                .clone()
                .zip(bytes.chunks_exact(BLOCK_BYTES))
                .find(|((_, expected), block)| sum(block) != *expected)
                .map(|((at, _), _)| at);
            if wrong.is_none() {
                blocks.for_each(|(_, expected)| content(expected));
            }
            wrong
        };
        let compared = self.state().checksums_of(zone, range.clone()).map(&mut compare);
        let wrong = match compared {
            Some(wrong) => wrong,
            None if few.is_some_and(|few| compare(few).is_none()) => None,
            None => {
                // Use the loaded checksums directly: memory may have no room to keep them.
                let loaded = self.load_checksums(purpose, zone).await?;
                let expected = loaded.get(range).ok_or_else(|| {
                    fault::damaged(format!(
                        "{pba} (segment {}) has no checksum: it was never written",
                        zone.0
                    ))
                })?;
                compare(expected)
            }
        };
        wrong.map_or(Ok(()), |at| {
            if self.device().abilities().missing_from().is_some_and(|from| at >= from) {
                let what = format!(
                    "{at} (segment {}) is missing: the medium ends before it, and is shorter than it was",
                    zone.0
                );
                self.note_mismatch(purpose, at, &what);
                return Err(fault::damaged(what));
            }
            let what = format!(
                "{at} (segment {}) does not match its checksum: the medium returned other bytes \
                 than were written",
                zone.0
            );
            self.note_mismatch(purpose, at, &what);
            Err(fault::damaged(what + fault::SCRUB))
        })
    }
}

impl State {
    /// The checksums of some blocks of a segment, if they are in memory.
    fn checksums_of(&mut self, zone: ZoneId, range: Range<u64>) -> Option<&[u32]> {
        if let Some(open) = self.log.open_checksums(zone)
            && let Some(sums) = open.get(range.start as usize..range.end as usize)
        {
            return Some(sums);
        }
        self.checksums.get(zone)?.get(range)
    }
}
