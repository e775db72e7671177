//! Where a warm log is kept, delays an acknowledgement until the change survives this process.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::Engine;
use crate::report::WarmState;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Whether acknowledged changes survive the end of the process.
    pub fn warm_log(&self) -> WarmState {
        self.state().warm_log.clone()
    }

    /// If a warm log is kept, waits until all records logged so far survive the process.
    pub(crate) async fn outlive(&self) -> Result<(), Error> {
        let owed = {
            let mut guard = self.state();
            let state = &mut *guard;
            let Some(owed) = state.log.kept.owed() else { return Ok(()) };
            state.log.close_logged_groups(&mut state.space);
            state.counters.outlive_waits += 1;
            owed
        };
        self.submit();
        self.wait_while(|state| state.log.kept.owes(owed) && state.check_health().is_ok()).await;
        let state = self.state();
        match state.log.kept.owes(owed) {
            true => state.check_health(),
            false => Ok(()),
        }
    }
}
