//! Logs again what the device refused, and repoints the map to it.
//!
//! The records keep their numbers, so a crash in between finds them here or there. What clients did
//! meanwhile may have brought the old addresses to other leaves of the map, by clones, moves and
//! snapshots. An address that is not written yet is younger than the last durable checkpoint. So all
//! leaves that may have it changed since then: they are dirty, or were written by the checkpoint
//! under way. These are searched, until one step finds none that is left.

use std::collections::BTreeSet;
use std::time::Duration;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{NodeId, Relocations, Repointer};
use mjolnir_store::{Error, ErrorKind};

use crate::drive::engine::Engine;
use crate::drive::state::State;
use crate::space::{Claim, Hurdle};
use crate::yielding::yield_now;

/// A pause after a leaf could not be read.
const REST_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Leaves looked at before other tasks get a turn.
const LEAVES_A_STEP: usize = 256;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that logs again what the device refused.
    pub(crate) async fn log_again_task(self) {
        loop {
            let listener = self.inner.refused.listen();
            let (ends, idle) = {
                let state = self.state();
                let idle = !state.log.is_any_record_refused();
                (state.failed.is_some() || (state.stopping && idle), idle)
            };
            if ends {
                return;
            }
            if idle {
                listener.await;
                continue;
            }
            drop(listener);
            if self.outlast(false).await.is_err() {
                return;
            }
            if let Err(error) = self.log_refused_again().await {
                self.fail(error);
            }
        }
    }

    /// Logs again all records that were refused so far.
    async fn log_refused_again(&self) -> Result<(), Error> {
        let ids = self.state().log.refused_records();
        let mut moves = Relocations::builder();
        // Streams that have been told where segments ended.
        let mut told = BTreeSet::new();
        for id in &ids {
            let moved = self
                .step(|state| {
                    let State { log, space, .. } = state;
                    if space.needs_root() {
                        return Err(Hurdle::Failed(Error::new(
                            ErrorKind::Io,
                            "the device failed to write to too many segments in a row",
                        )));
                    }
                    for stream in log.streams_for_refused(*id) {
                        let is_told = told.contains(&stream) || log.log_cuts(space, stream).is_ok();
                        if is_told {
                            told.insert(stream);
                            if let Ok(moved) = log.log_again(space, *id, stream) {
                                return Ok(moved);
                            }
                        }
                    }
                    Err(Hurdle::NoFreeSegment(Claim::Again))
                })
                .await?;
            for (from, blocks, to) in moved {
                moves.add(from, blocks, to);
            }
        }
        self.repoint_refused(&ids, &moves.build()).await?;
        self.state().counters.groups_logged_again += ids.len() as u64;
        self.notify();
        Ok(())
    }

    /// Has the map name the new addresses, and forgets the old ones in the step that finds no
    /// reference to them any more.
    async fn repoint_refused(&self, ids: &[u64], moves: &Relocations) -> Result<(), Error> {
        let mut repointer = Repointer::new(moves, false);
        let mut kept = Vec::new();
        // Leaves that are lost to damage.
        let mut lost = BTreeSet::new();
        let mut leaves = self.leaves_to_repoint(moves).await;
        loop {
            for (index, id) in leaves.iter().copied().enumerate() {
                self.load_ahead(&leaves, index).await;
                match self.load_node(id).await {
                    Ok(keep) => kept.push(keep),
                    Err(error) if error.kind == ErrorKind::Damaged => {
                        lost.insert(id);
                        continue;
                    }
                    Err(error) if self.state().failed.is_some() => return Err(error),
                    // It is among the leaves of the next round.
                    Err(_) => {
                        self.runtime().sleep(REST_AFTER_FAILURE).await;
                        continue;
                    }
                }
                self.step(|state| Ok(state.map.repoint_by(&mut repointer, id)?)).await?;
                if index % LEAVES_A_STEP == LEAVES_A_STEP - 1 {
                    yield_now().await;
                }
            }
            // In one step with the forgetting: clients may have moved references about meanwhile.
            let mut state = self.state();
            leaves = state.changed_leaves();
            leaves.retain(|id| !lost.contains(id) && state.may_refer(*id, moves));
            if leaves.is_empty() {
                state.forget_refused(ids);
                return Ok(());
            }
        }
    }

    /// The leaves that refer to moved blocks, or may, as far as one look at each tells.
    async fn leaves_to_repoint(&self, moves: &Relocations) -> Vec<NodeId> {
        let changed = self.state().changed_leaves();
        let mut found = Vec::new();
        for leaves in changed.chunks(LEAVES_A_STEP) {
            {
                let state = self.state();
                found.extend(leaves.iter().copied().filter(|id| state.may_refer(*id, moves)));
            }
            yield_now().await;
        }
        found
    }
}

impl State {
    /// Nothing refers to the addresses of these groups any more.
    pub fn forget_refused(&mut self, ids: &[u64]) {
        let State { log, space, .. } = self;
        log.forget_refused(space, ids);
    }

    /// The nodes that changed since the map was frozen for the last durable checkpoint.
    fn changed_leaves(&self) -> Vec<NodeId> {
        let mut changed = self.map.dirty_nodes();
        changed.extend(&self.checkpoint.frozen);
        changed.sort();
        changed.dedup();
        changed
    }

    /// Whether a leaf refers to moved blocks, or is not in memory.
    fn may_refer(&self, id: NodeId, moves: &Relocations) -> bool {
        match self.map.leaf(id) {
            Ok(None) => false,
            Ok(Some(leaf)) => leaf
                .extents()
                .any(|(_, blocks, pba)| pba.is_some_and(|pba| moves.touches(pba, blocks))),
            Err(_) => true,
        }
    }
}
