//! Replays the records logged after the checkpoint, in the order of their numbers, up to the first
//! gap.

use std::collections::BTreeMap;

use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::LogLoss;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{Lba, Pba, TreeId};

use crate::drive::Engine;
use crate::fault;
use crate::format::record::Record;
use crate::recovery::arrivals::Arrivals;
use crate::recovery::dropped::Dropped;
use crate::recovery::refusal::WAYS_ON;
use crate::recovery::rescue::copies_of;
use crate::space::Hurdle;
use crate::yielding::yield_now;

/// Number of records whose paths through the map are loaded ahead of their replay.
const PREFETCH_RECORDS: usize = 4096;

/// A record and the place of its payload.
pub(crate) struct Logged<'a> {
    pub sequence: u64,
    /// Incarnation of the record's segment.
    pub incarnation: u64,
    pub record: &'a Record,
    pub payload: Pba,
    /// The index of its group among the groups to be checked for arrival.
    pub unsure: Option<usize>,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Replays the records from number `next` on, up to the first one that is missing or whose
    /// group did not arrive whole. Returns that number.
    pub(crate) async fn replay_log(
        &self,
        mut next: u64,
        logged: &[Logged<'_>],
        arrivals: &Arrivals<'_>,
        loss: &mut LogLoss,
    ) -> Result<u64, Error> {
        let salvage = self.inner.options.salvage;
        let (mut rest, mut prefetched) = (logged, 0);
        while let copies = copies_of(rest, |of| of.sequence)
            && copies.first().is_some_and(|first| first.sequence == next)
        {
            if prefetched == 0 {
                let ahead = rest.iter().take(PREFETCH_RECORDS).map(|of| of.record);
                self.prefetch(ahead.flat_map(ends).collect()).await;
                yield_now().await; // Meanwhile later groups are verified.
                prefetched = PREFETCH_RECORDS;
            }
            rest = &rest[copies.len()..];
            prefetched = prefetched.saturating_sub(copies.len());
            let mut arrived = None;
            for copy in copies {
                let is_here = match copy.unsure {
                    Some(group) => arrivals.has_arrived(group).await,
                    None => true,
                };
                if is_here {
                    arrived = Some(copy);
                    break;
                }
            }
            let Some(Logged { record, payload, .. }) = arrived else { break };
            match self.replay(next, record, *payload).await {
                Err(error) if salvage && error.kind == ErrorKind::Damaged => {
                    // The record changes a part of the map that cannot be read. Leaving out later
                    // records would not bring that part back.
                    self.note_unreplayed(next, record, &error, loss);
                }
                Err(error) if error.kind == ErrorKind::Damaged => {
                    return Err(fault::damaged(format!(
                        "record {next} of the log cannot be applied: {}; {WAYS_ON}",
                        error.message
                    )));
                }
                outcome => outcome?,
            }
            next += 1;
        }
        Ok(next)
    }

    /// Notes a record that changes an unreadable part of the map: its changes are lost in any case.
    fn note_unreplayed(&self, sequence: u64, record: &Record, error: &Error, loss: &mut LogLoss) {
        let mut own = LogLoss { whole_to: sequence - 1, ..LogLoss::default() };
        own.note_dropped(&BTreeMap::from([(sequence, record.clone())]), &self.state());
        loss.changes.push(format!("record {sequence} could not be applied: {}", error.message));
        loss.changes.extend(own.changes);
        loss.ranges.extend(own.ranges);
        loss.dropped_records += 1;
    }

    async fn replay(&self, sequence: u64, record: &Record, payload: Pba) -> Result<(), Error> {
        self.step(|state| match record {
            Record::Write { tree, lba, blocks } => {
                let fits = state
                    .map
                    .blocks(*tree)
                    .is_some_and(|size| lba.saturating_add(u64::from(*blocks)) <= size);
                if !fits {
                    return Err(Hurdle::Failed(fault::damaged(format!(
                        "record {sequence} writes blocks {lba}+{blocks} of tree {}, which has no \
                         such blocks",
                        tree.0
                    ))));
                }
                if *blocks > 0 {
                    state.map.write(*tree, Lba(*lba), payload, u64::from(*blocks))?;
                }
                Ok(())
            }
            Record::Moved { .. } | Record::Cut { .. } => Ok(()),
            other => {
                if let Record::CreateVolume { tree, .. }
                | Record::CreateSnapshot { tree, .. }
                | Record::CloneVolume { tree, .. }
                | Record::Stage { tree, .. } = other
                    && state.map.contains(*tree)
                {
                    return Err(Hurdle::Failed(fault::damaged(format!(
                        "record {sequence} creates tree {} again",
                        tree.0
                    ))));
                }
                state.apply(other, sequence).map_err(|hurdle| match hurdle {
                    // Applying the record succeeded when it was logged: an earlier record was not
                    // applied.
                    Hurdle::Failed(error) => fault::damaged(error.message).into(),
                    hurdle => hurdle,
                })
            }
        })
        .await
    }
}

/// Blocks whose leaves a record's replay most likely needs: the first and the last that it writes.
fn ends(record: &Record) -> impl Iterator<Item = (TreeId, u64)> + use<> {
    let written = match record {
        Record::Write { tree, lba, blocks } if *blocks > 0 => {
            Some([(*tree, *lba), (*tree, lba.saturating_add(u64::from(*blocks) - 1))])
        }
        _ => None,
    };
    written.into_iter().flatten()
}
