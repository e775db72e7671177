//! Runs a step until it succeeds: loads absent nodes, and waits for free segments and checkpoints.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::space::Hurdle;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Retries a step until it succeeds, removing each hurdle in between.
    pub(crate) async fn step<T>(
        &self,
        mut step: impl FnMut(&mut State) -> Result<T, Hurdle>,
    ) -> Result<T, Error> {
        // Loaded nodes are kept: otherwise, loads by other tasks could evict a node that this step
        // needs, again and again.
        let mut kept = Vec::new();
        loop {
            let outcome = step(&mut self.state());
            self.submit();
            match outcome {
                Ok(value) => return Ok(value),
                Err(Hurdle::Absent(absent)) => kept.push(self.load_node(absent.0).await?),
                Err(Hurdle::NoFreeSegment(claim)) => self.wait_for_segment(claim).await?,
                Err(Hurdle::CheckpointFirst(claim)) => self.wait_for_checkpoint(claim).await?,
                Err(Hurdle::Failed(error)) => return Err(error),
            }
        }
    }
}
