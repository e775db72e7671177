//! Calls for reclaim by name: `gc run` and its like.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::Collected;
use mjolnir_store::{Error, ErrorKind};

use crate::drive::Engine;
use crate::space::SegmentState;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Wins what can be won now, whatever the utilization, and returns how many segments it gave up; see
    /// [`collect_telling`](Self::collect_telling).
    pub async fn collect(&self) -> Result<u64, Error> {
        Ok(self.collect_telling().await?.segments)
    }

    /// Wins what can be won now, whatever the utilization: empties the segments that are sealed by now and
    /// pay, each once. Leaves clients most of the device meanwhile. Dropped before its end, it calls off the
    /// rest. Fails if it won nothing because a part of the map cannot be read, or because the device fails for
    /// the segments that could be won, and goes on failing.
    pub async fn collect_telling(&self) -> Result<Collected, Error> {
        let retries = self.state().reclaim.retries;
        match self.collect_once().await {
            Err(error) if error.kind == ErrorKind::Io => {
                match self.wait_for_retry(retries, |state| state.closing).await {
                    true => self.collect_once().await,
                    false => Err(error),
                }
            }
            outcome => outcome,
        }
    }

    async fn collect_once(&self) -> Result<Collected, Error> {
        self.state().check_health()?;
        let mut won = self.ask_for_all().await;
        let (more, failure) = {
            let mut state = self.state();
            state.check_health()?;
            state.update_reserve();
            let more = state.space.count(SegmentState::Retiring) > 0
                || state.checkpoint.running
                || state.checkpoint.is_compacting()
                || state.map.is_changed();
            (more, state.reclaim.failure.clone())
        };
        if more {
            self.checkpoint().await?;
        }
        (won.released, won.released_bytes) = self.release_all().await?;
        match failure {
            Some(Error { kind, message }) if won.segments == 0 => {
                Err(Error::new(kind, format!("reclaim fails: {message}")))
            }
            _ => Ok(won),
        }
    }
}
