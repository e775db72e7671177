//! Acknowledges a change once it would outlive this process, where a warm log is kept.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::Engine;
use crate::report::WarmState;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Whether what is acknowledged survives the end of the process.
    pub fn warm_log(&self) -> WarmState {
        self.state().warm_log.clone()
    }

    /// Waits until what was logged so far survives the process, if anything is to.
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
        self.wait_while(|state| state.log.kept.owes(owed) && state.failed.is_none()).await;
        self.state().failed.clone().map_or(Ok(()), Err)
    }
}
