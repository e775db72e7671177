//! The manifest: a checkpoint's list of segments, trees and the node table.

use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::drive::{Engine, State};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::place::Place;
use crate::format::root::MANIFEST_CHUNKS_MAX;
use crate::space::{Claim, Hurdle, MAP_STREAM, SegmentState};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Writes the manifest, and a copy if the root has room to name it: no other structure is as
    /// precious. Returns the chunks of the first, then of the copy.
    pub(crate) async fn write_manifests(&self, bytes: &[u8]) -> Result<Vec<(Pba, u32)>, Error> {
        let mut chunks = self.write_manifest(bytes).await?;
        if 2 * chunks.len() > MANIFEST_CHUNKS_MAX / 2 {
            return Ok(chunks);
        }
        let copy = self.write_manifest(bytes).await?;
        if chunks.len() + copy.len() <= MANIFEST_CHUNKS_MAX {
            chunks.extend(copy);
        } else {
            let mut state = self.state();
            for (pba, blocks) in copy {
                let bytes = u64::from(blocks) * BLOCK_SIZE;
                state.space.add_map_bytes(Place { pba, offset: 0, bytes }, -1);
            }
        }
        Ok(chunks)
    }

    async fn write_manifest(&self, bytes: &[u8]) -> Result<Vec<(Pba, u32)>, Error> {
        let mut padded = AlignedBuf::zeroed(bytes.len().next_multiple_of(BLOCK_BYTES));
        padded.as_mut()[..bytes.len()].copy_from_slice(bytes);
        let mut rest = padded.freeze();
        let mut chunks: Vec<(Pba, u32)> = Vec::new();
        while !rest.is_empty() {
            let (at, fit) = self
                .step(|state| {
                    let wanted = (rest.len() / BLOCK_BYTES) as u32;
                    let (at, fit) = state
                        .log
                        .allocate(&mut state.space, MAP_STREAM, 0, wanted)
                        .map_err(|_| Hurdle::NoFreeSegment(Claim::Map))?;
                    let bytes = u64::from(fit) * BLOCK_SIZE;
                    state.log.push_bare(MAP_STREAM, rest.slice(..bytes as usize));
                    state.space.add_map_bytes(Place { pba: at, offset: 0, bytes }, 1);
                    Ok((at, fit))
                })
                .await?;
            rest = rest.slice(fit as usize * BLOCK_BYTES..);
            chunks.push((at, fit));
        }
        if chunks.len() > MANIFEST_CHUNKS_MAX {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the store's manifest is too long for its root; use larger segments",
            ));
        }
        Ok(chunks)
    }
}

impl State {
    /// The manifest's entries for segments and the node table.
    pub(crate) fn manifest(&self, scan: &[ZoneId], freed: &[ZoneId]) -> Manifest {
        let segments = self
            .space
            .zones()
            .filter(|(zone, segment)| {
                !matches!(segment.state, SegmentState::Free | SegmentState::Bad)
                    && !freed.contains(zone)
            })
            .map(|(zone, segment)| SegmentEntry {
                zone,
                stream: segment.stream,
                incarnation: segment.incarnation,
                used: segment.used,
                payload: segment.payload,
                footer: segment.footer,
                sealed: segment.sealed,
            })
            .collect();
        let mut free = self.space.free_order();
        free.extend(freed.iter().filter(|zone| !self.space.is_bad(**zone)));
        Manifest {
            zones: self.space.segments.len() as u32,
            segments,
            free,
            scan: scan.to_vec(),
            bad: self.space.bad().map(|(zone, bad)| (zone, bad.failures)).collect(),
            pages: self.table.pages.clone(),
            ..Manifest::default()
        }
    }
}
