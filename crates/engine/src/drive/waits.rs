//! What tasks wait for: until the map has room, until the log is written, until something changed.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::ZoneId;

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::memory::dirty_bytes_max;
use crate::yielding::yield_now;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits while checkpoints have more of the map to write than memory has room for. More than
    /// one is due for is never left by the last one, so this ends.
    pub(crate) async fn admit_nodes(&self) {
        let options = &self.inner.options;
        let busy =
            |state: &mut State| state.check_health().is_ok() && state.outruns_checkpoints(options);
        if busy(&mut self.state()) {
            self.wait_while(busy).await;
        }
    }

    /// Waits until something changed. Listen first, look then, so that nothing is missed: pass
    /// what was looked at as `still`.
    pub(crate) async fn wait_while(&self, mut still: impl FnMut(&mut State) -> bool) {
        loop {
            let listener = self.inner.changed.listen();
            if !still(&mut self.state()) {
                return;
            }
            listener.await;
        }
    }

    /// Waits until what was sent to a zone so far is on the device: headers and footers are read from
    /// there alone.
    pub(crate) async fn wait_for_zone_writes(&self, zone: ZoneId) {
        let last = self.state().log.last_group();
        self.wait_while(|state| {
            state.failed.is_none() && state.log.zone_waits_for_group(zone, last)
        })
        .await;
    }

    /// Keeps the engine's own unwritten data within the bound that clients keep to.
    pub(crate) async fn wait_while_dirty(&self) -> Result<(), Error> {
        let most = dirty_bytes_max(&self.inner.options);
        self.wait_while(|state| state.failed.is_none() && state.log.dirty_bytes > most).await;
        self.state().failed.clone().map_or(Ok(()), Err)
    }
}

/// Nodes that are freed before clients get their turn.
const NODES_A_SWEEP: usize = 256;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Gives back the memory of what the last mark did not visit.
    pub(crate) async fn sweep(&self) {
        while self.state().map.sweep(NODES_A_SWEEP) {
            yield_now().await; // Clients get their turn between steps.
        }
    }
}
