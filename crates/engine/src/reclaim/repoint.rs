//! Repoint: the leaves that refer to victims name the new places.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{Relocations, Repointer};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::ZoneId;

use crate::drive::Engine;
use crate::reclaim::batch::Batch;
use crate::space::Claim;
use crate::yielding::yield_now;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Replaces every reference into the victims that were copied. Ends in a step in which no touched leaf is
    /// unchecked and every leaf of the index has been repointed. Spares a victim if a leaf still refers to a
    /// block of it that did not move.
    ///
    /// Returns whether there was room for the leaves. If not, all victims are spared.
    pub(in crate::reclaim) async fn repoint(
        &self,
        batch: &mut Batch,
        moves: &Relocations,
    ) -> Result<bool, Error> {
        match self.repoint_all(batch, moves).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::NoSpace && self.state().failed.is_none() => {
                batch.victims.drain(..).for_each(|victim| self.spare(victim.zone, &error));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn repoint_all(&self, batch: &mut Batch, moves: &Relocations) -> Result<(), Error> {
        let mut repointer = Repointer::new(moves, batch.twins);
        let mut pending = self.referrers(batch);
        loop {
            let leaves = self.next_referrers(batch, &mut pending);
            if leaves.is_empty() {
                return Ok(());
            }
            for (index, id) in leaves.iter().copied().enumerate() {
                self.make_room_for_leaves().await?;
                self.load_ahead(&leaves, index).await;
                let repointed = self
                    .step(|state| {
                        state.map.prefetch_leaves(&leaves[index + 1..]);
                        let done = state.map.repoint_by(&mut repointer, id)?;
                        state.reclaim.counters.leaves_repointed += u64::from(done.blocks > 0);
                        let left: BTreeSet<ZoneId> =
                            done.left.iter().map(|pba| state.space.zone_of(*pba)).collect();
                        Ok(left)
                    })
                    .await;
                match repointed {
                    Ok(left) => {
                        for zone in left {
                            let why = "a leaf of the map still refers to blocks that did not move";
                            self.spare_one_of(batch, zone, &Error::new(ErrorKind::Damaged, why));
                        }
                    }
                    Err(error) => self.spare_referred_by(batch, id, error)?,
                }
            }
            yield_now().await; // Clients get their turn between steps.
        }
    }

    /// Takes a checkpoint if more dirty leaves might leave no room for one: blocks that many
    /// diverged snapshots share are named by as many leaves. What is repointed so far may stay so.
    async fn make_room_for_leaves(&self) -> Result<(), Error> {
        self.admit_nodes().await;
        if !self.state().space.needs_checkpoint(Claim::Reclaim) {
            return Ok(());
        }
        self.checkpoint_within_task().await?;
        if self.state().space.needs_checkpoint(Claim::Reclaim) {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "there is no room to write all the leaves of the map that name the segment",
            ));
        }
        Ok(())
    }
}
