//! Conditions that tasks wait for: memory for the map, completed log writes, changes of state.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::ZoneId;

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::memory::dirty_bytes_max;
use crate::yielding::yield_now;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits while the map's nodes that wait for a checkpoint exceed their bound in memory. A
    /// checkpoint never leaves more dirty nodes than make the next one due, so the wait ends.
    pub(crate) async fn admit_nodes(&self) {
        let options = &self.inner.options;
        let busy =
            |state: &mut State| state.check_health().is_ok() && state.outruns_checkpoints(options);
        if busy(&mut self.state()) {
            self.wait_while(busy).await;
        }
    }

    /// Waits until `still` is false; checks it after each change of state. Listens before it
    /// checks, so no change is missed.
    pub(crate) async fn wait_while(&self, mut still: impl FnMut(&mut State) -> bool) {
        loop {
            let listener = self.inner.changed.listen();
            if !still(&mut self.state()) {
                return;
            }
            listener.await;
        }
    }

    /// Waits until all groups sent to a zone so far are written: headers and footers are read only
    /// from the device.
    pub(crate) async fn wait_for_zone_writes(&self, zone: ZoneId) {
        let last = self.state().log.last_group();
        self.wait_while(|state| {
            state.failed.is_none() && state.log.zone_waits_for_group(zone, last)
        })
        .await;
    }

    /// Waits while the engine's own unwritten data exceeds the bound for clients.
    pub(crate) async fn wait_while_dirty(&self) -> Result<(), Error> {
        let most = dirty_bytes_max(&self.inner.options);
        self.wait_while(|state| state.failed.is_none() && state.log.dirty_bytes_awaited() > most)
            .await;
        self.state().failed.clone().map_or(Ok(()), Err)
    }
}

/// Nodes freed before other tasks get a turn.
const NODES_A_SWEEP: usize = 256;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Frees the nodes that the last mark did not visit.
    pub(crate) async fn sweep(&self) {
        while self.state().map.sweep(NODES_A_SWEEP) {
            yield_now().await; // Other tasks run between steps.
        }
    }
}
