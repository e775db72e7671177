//! Loads the map's nodes that a manifest names.

use std::pin::pin;

use futures_util::{StreamExt, stream};
use mjolnir_device::{Device, Runtime};
use mjolnir_map::Map;
use mjolnir_store::report::{DamagedPlace, LogLoss, ReadPurpose};
use mjolnir_store::{Error, ErrorKind};

use crate::catalog::Entry;
use crate::drive::Engine;
use crate::fault;
use crate::format::manifest::{Manifest, TreeEntry};
use crate::format::place::{LOST, Place};
use crate::recovery::refusal::refusal;

/// Reads in flight at once.
const READS: usize = 32;

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) async fn load_map(
        &self,
        manifest: &Manifest,
        loss: &mut LogLoss,
    ) -> Result<(), Error> {
        let salvage = self.inner.options.salvage;
        let info = self.state().info.clone();
        let mut pages = Vec::with_capacity(manifest.pages.len());
        let mut lost_pages = Vec::new();
        let read = async |packed: &u64| {
            let place = Place::unpack(*packed);
            place.check(&info)?;
            Ok::<_, Error>(
                self.read_verified(ReadPurpose::Recovery, place.pba, place.blocks()).await,
            )
        };
        let reads = manifest.pages.iter().filter(|packed| **packed != 0);
        let mut reads = pin!(stream::iter(reads).map(read).buffered(READS));
        for (index, packed) in (0u32..).zip(&manifest.pages) {
            let mut page = [0u64; mjolnir_map::TABLE_PAGE];
            if *packed != 0 {
                let place = Place::unpack(*packed);
                match reads.next().await.expect("each page is read")? {
                    Ok(bytes) => {
                        let from = place.offset as usize;
                        let image = &bytes[from..from + place.bytes as usize];
                        for (slot, word) in page.iter_mut().zip(image.chunks_exact(8)) {
                            *slot = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                        }
                    }
                    Err(error) if error.kind == ErrorKind::Damaged => {
                        let place = DamagedPlace {
                            zone: place.pba.zone(info.zone_blocks).0,
                            block: place.pba.offset(info.zone_blocks),
                            what: format!(
                                "page {index} of the node table, which says where {} nodes of the \
                                 map lie, cannot be read: {}",
                                mjolnir_map::TABLE_PAGE,
                                error.message
                            ),
                        };
                        if !salvage {
                            return Err(refusal(&place));
                        }
                        page = [LOST; mjolnir_map::TABLE_PAGE];
                        page[0] = if index == 0 { 0 } else { LOST };
                        lost_pages.push(index);
                        loss.places.push(place);
                    }
                    Err(error) => return Err(error),
                }
            }
            for packed in page.into_iter().filter(|packed| *packed != 0 && *packed != LOST) {
                Place::unpack(packed).check(&info)?;
            }
            pages.push(page);
        }
        let mut roots = Vec::new();
        for entry in &manifest.trees {
            let root = <&[u8; mjolnir_map::ROOT_BYTES]>::try_from(entry.root.as_slice())
                .map_err(|_| "its root has another length".to_owned())
                .and_then(|bytes| mjolnir_map::root_decode(bytes).map_err(|why| why.to_string()))
                .map_err(|why| fault::damaged(format!("tree {}: {why}", entry.tree.0)))?;
            roots.push((entry.tree, root));
        }
        let map = Map::load(roots, pages)
            .map_err(|why| fault::damaged(format!("the map cannot be loaded: {why}")))?;
        let mut state = self.state();
        state.map = map;
        // Lost pages are written again with the known entries, so that the store next opens without
        // the damage.
        lost_pages.into_iter().for_each(|page| state.map.redirty_page(page));
        for entry in &manifest.trees {
            let TreeEntry { kind, created, short, .. } = entry.clone();
            state.catalog.insert(entry.tree, Entry { kind, created, short });
        }
        state.catalog.reserve_ids(manifest.next_tree);
        state.transactions.prepared = manifest.prepared.clone();
        state.transactions.committed = manifest.committed.iter().copied().collect();
        Ok(())
    }
}
