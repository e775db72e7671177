//! Applies a client's remap and logs its record, in one step.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::{Engine, State};
use crate::format::record::Record;
use crate::space::Hurdle;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Applies a record without payload and logs it, in one step. `check` sees the state of that
    /// step. Returns the sequence number.
    pub(crate) async fn log_record(
        &self,
        record: Record,
        mut check: impl FnMut(&mut State) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        self.log_record_if(record, |state| Ok(check(state)?)).await
    }

    /// As [`log_record`](Self::log_record); `check` may read the map.
    pub(crate) async fn log_record_if(
        &self,
        record: Record,
        mut check: impl FnMut(&mut State) -> Result<(), Hurdle>,
    ) -> Result<u64, Error> {
        self.log_step(|state| {
            state.check_health()?;
            check(state)?;
            state.log_together(std::slice::from_ref(&record))
        })
        .await
    }

    /// Takes a step that applies records without payload.
    pub(crate) async fn log_step<T>(
        &self,
        step: impl FnMut(&mut State) -> Result<T, Hurdle>,
    ) -> Result<T, Error> {
        self.admit_nodes().await;
        let logged = self.step(step).await;
        if self.state().should_choose_anew() {
            self.call_reclaim();
        }
        logged
    }
}
