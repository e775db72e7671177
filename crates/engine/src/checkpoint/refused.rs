//! Blocks of the map that the device refused: the next checkpoint writes them elsewhere.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::format::place::{LOST, Place};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Marks the nodes and pages dirty whose last place the device refused. They can be read from
    /// memory until they lie elsewhere. Returns the groups of which no node is left then.
    pub(super) async fn redirty_refused(&self) -> Result<Vec<(u64, ZoneId)>, Error> {
        let refused = self.state().log.refused_of_map();
        if refused.is_empty() {
            return Ok(refused);
        }
        let nodes = {
            let state = self.state();
            state.map.nodes_at(|address| state.is_place_refused(address.0))
        };
        for (index, id) in nodes.iter().copied().enumerate() {
            self.load_ahead(&nodes, index).await;
            self.step(|state| Ok(state.map.redirty(id)?)).await?;
        }
        let mut state = self.state();
        let pages: Vec<u32> = (0u32..)
            .zip(&state.table.pages)
            .filter(|(_, packed)| state.is_place_refused(**packed))
            .map(|(page, _)| page)
            .collect();
        for page in pages {
            state.map.redirty_page(page);
        }
        Ok(refused)
    }
}

impl State {
    /// Whether a place of the map lies behind the end of a segment that a failed append ended.
    fn is_place_refused(&self, packed: u64) -> bool {
        if packed == 0 || packed == LOST {
            return false;
        }
        let pba = Place::unpack(packed).pba;
        let zone = self.space.zone_of(pba);
        self.log.has_refused(zone)
            && pba.offset(self.space.zone_blocks) >= u64::from(self.space.get(zone).used)
    }

    /// The nodes and pages of these groups lie elsewhere now.
    pub(super) fn forget_refused_of_map(&mut self, refused: &[(u64, ZoneId)]) {
        let left = self.map.nodes_at(|address| self.is_place_refused(address.0));
        let mut zones: Vec<ZoneId> = Vec::new();
        for id in left {
            let place = self.map.address(id).map(|address| Place::unpack(address.0));
            zones.extend(place.map(|place| self.space.zone_of(place.pba)));
        }
        let gone: Vec<u64> =
            refused.iter().filter(|(_, zone)| !zones.contains(zone)).map(|(id, _)| *id).collect();
        self.forget_refused(&gone);
    }
}
