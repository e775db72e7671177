//! Loads the checksums of a sealed segment from its footer.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_store::report::ReadPurpose;
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::read::checksums::Sums;
use crate::drive::read::pins::Pin;
use crate::format::segment::Footer;
use crate::space::Segment;

/// A load of a segment's checksums in progress, until this is dropped.
struct Loading<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    zone: ZoneId,
}

impl<D: Device, R: Runtime> Drop for Loading<D, R> {
    fn drop(&mut self) {
        self.engine.state().checksums.end_load(self.zone);
        self.engine.notify();
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The checksums of some blocks of a pinned segment, unless they are in memory. If memory has
    /// no room for the whole segment's checksums, only part of the footer is read: a read of one
    /// block needs one checksum of many thousand.
    pub(crate) async fn few_checksums(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        blocks: u64,
    ) -> Option<Vec<u32>> {
        let (zone, range, at, slice, whole) = {
            let mut state = self.state();
            let zone_blocks = state.space.zone_blocks;
            let (zone, offset) = (pba.zone(zone_blocks), pba.offset(zone_blocks));
            let range = offset..offset + blocks;
            if let Some(sums) = state.checksums.peek(zone) {
                sums.prefetch(range);
                return None;
            }
            if state.log.open_checksums(zone).is_some() {
                return None;
            }
            let Segment { footer, used, .. } = *state.space.get(zone);
            if range.end > u64::from(footer) {
                return None;
            }
            let slice = Footer::slice(&range);
            let is_part = 2 * (slice.blocks.end - slice.blocks.start)
                < u64::from(used.saturating_sub(footer));
            let whole = !is_part || state.checksums.is_load_due(4 * u64::from(footer));
            let footer_at = zone.start(zone_blocks).plus(u64::from(footer));
            (zone, range, footer_at.plus(slice.blocks.start), slice, whole)
        };
        if whole {
            // Other readers wait for this load from now on. Boxed, since it is rare: its future
            // does not enlarge each read.
            let loaded = Box::pin(self.load_checksums(purpose, zone)).await.ok()?;
            return loaded.get(range).map(<[u32]>::to_vec);
        }
        self.wait_for_zone_writes(zone).await;
        let blocks = slice.blocks.end - slice.blocks.start;
        let buffer = self.buffer((blocks * BLOCK_SIZE) as usize);
        let read = self.read_device(purpose, at, buffer).await.ok()?;
        slice.checksums(read.as_ref())
    }

    /// A sealed segment's checksums: from memory, from its footer, or from its groups.
    pub(crate) async fn load_checksums(
        &self,
        purpose: ReadPurpose,
        zone: ZoneId,
    ) -> Result<Sums, Error> {
        if let Some(held) = self.state().checksums.get(zone) {
            return Ok(held.clone());
        }
        // A second reader waits for the load in progress.
        while !self.state().checksums.begin_load(zone) {
            self.wait_while(|state| state.checksums.is_loading(zone)).await;
            if let Some(loaded) = self.state().checksums.get(zone) {
                return Ok(loaded.clone());
            }
        }
        let _loading = Loading { engine: self.clone(), zone };
        self.read_checksums(purpose, zone).await
    }

    async fn read_checksums(&self, purpose: ReadPurpose, zone: ZoneId) -> Result<Sums, Error> {
        let (segment, info, _pin) = {
            let mut state = self.state();
            let pin = Pin::new(self, &mut state, zone);
            (state.space.get(zone).clone(), state.info.clone(), pin)
        };
        self.wait_for_zone_writes(zone).await;
        let start = zone.start(info.zone_blocks);
        if segment.footer != 0 && segment.footer < segment.used {
            let blocks = u64::from(segment.used - segment.footer);
            let mut buffer = Vec::new();
            let mut at = 0;
            while at < blocks {
                let count = (blocks - at).min(info.append_blocks_max);
                let from = start.plus(u64::from(segment.footer) + at);
                let piece = self.buffer((count * BLOCK_SIZE) as usize);
                let Ok(piece) = self.read_device(purpose, from, piece).await else { break };
                buffer.extend_from_slice(piece.as_ref());
                at += count;
            }
            match Footer::decode(&buffer) {
                Ok(footer) if footer.incarnation == segment.incarnation => {
                    return Ok(self.keep_checksums(zone, footer.checksums));
                }
                // The footer is damaged; the segment's groups hold the same checksums.
                _ if at == blocks => {
                    let footer_at = start.plus(u64::from(segment.footer));
                    let what =
                        format!("the footer of segment {} (at {footer_at}) is damaged", zone.0);
                    self.note_mismatch(purpose, footer_at, what);
                }
                _ => {}
            }
        }
        let end = if segment.footer != 0 { segment.footer } else { segment.used };
        let groups = self.walk_groups(purpose, zone, segment.incarnation, u64::from(end)).await?;
        let mut values = vec![0; end as usize];
        for header in &groups {
            let first = header.offset as usize + 1;
            if let Some(room) = values.get_mut(first..first + header.checksums.len()) {
                room.copy_from_slice(&header.checksums);
            }
        }
        Ok(self.keep_checksums(zone, values))
    }

    fn keep_checksums(&self, zone: ZoneId, values: Vec<u32>) -> Sums {
        let mut state = self.state();
        let kept = state.checksums.insert(zone, values);
        state.keep_within(&self.inner.options);
        kept
    }
}
