//! Takes a step, overcoming what is in its way: absent nodes are loaded, room and checkpoints are waited for.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::space::Hurdle;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Takes a step again and again, overcoming what stops it, until it is taken.
    pub(crate) async fn step<T>(
        &self,
        mut step: impl FnMut(&mut State) -> Result<T, Hurdle>,
    ) -> Result<T, Error> {
        // Else nodes that others bring could drive out one of those that it needs, again and again.
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
