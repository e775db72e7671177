//! Lists differences between two snapshots, and the mapped extents of a volume, page by page.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::{DiffExtent, DiffPage, Error, Mapping, Store};
use mjolnir_units::{BLOCK_SIZE, Lba};

use crate::client::EXTENTS_AT_ONCE;
use crate::drive::Engine;
use crate::yielding::yield_now;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Lists where `new` differs from `old`, from byte `from` on, up to `limit` extents. Subtrees
    /// that both share are skipped unread.
    pub async fn diff(
        &self,
        old: &str,
        new: &str,
        from: u64,
        limit: usize,
    ) -> Result<DiffPage, Error> {
        let (old, new) = {
            let state = self.state();
            (state.catalog.find(old)?, state.catalog.find(new)?)
        };
        self.step(|state| {
            state.target(old)?;
            state.target(new)?;
            let diff = state.map.diff(old, new, Lba(from / BLOCK_SIZE), limit.max(1))?;
            // Adjacent ranges are merged: their addresses on the medium do not matter here.
            let mut extents: Vec<DiffExtent> = Vec::with_capacity(diff.ranges.len());
            for range in &diff.ranges {
                let (offset, data) = (range.lba.0 * BLOCK_SIZE, range.pba.is_some());
                let length = state.clip(new, range.lba.0, range.blocks);
                match extents.last_mut() {
                    Some(last) if last.offset + last.length == offset && last.data == data => {
                        last.length += length;
                    }
                    _ => extents.push(DiffExtent { offset, length, data }),
                }
            }
            Ok(DiffPage { extents, next: diff.next.map(|lba| lba.0 * BLOCK_SIZE) })
        })
        .await
    }

    /// The mapped bytes of a target, for listings.
    pub async fn mapped(&self, name: &str) -> Result<u64, Error> {
        self.mapped_from(name, 0).await
    }

    /// As [`mapped`](Self::mapped), at or past byte `offset`.
    pub async fn mapped_from(&self, name: &str, offset: u64) -> Result<u64, Error> {
        let tree = self.state().catalog.find(name)?;
        let mut at = offset;
        let mut bytes = 0;
        loop {
            // With many snapshots, every step may succeed without waiting.
            yield_now().await;
            let size = self.state().size(tree)?;
            if at >= size {
                return Ok(bytes);
            }
            for extent in Store::extents(self, tree, at, size - at, EXTENTS_AT_ONCE).await? {
                at += extent.length;
                bytes += if extent.mapping == Mapping::Data { extent.length } else { 0 };
            }
        }
    }
}
