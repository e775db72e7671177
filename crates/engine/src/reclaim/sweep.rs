//! Sweep: segments in which nothing is live are given up. They retire, and are free once a later checkpoint is
//! durable.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::reclaim::batch::Batch;
use crate::reclaim::mark::live::Live;
use crate::space::SegmentState;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Notes what the mark counted, and gives up the segments in which it found nothing live. Returns how many.
    pub(in crate::reclaim) async fn sweep_empty(&self, live: &mut Live) -> Result<usize, Error> {
        let empty = self.state().note_counts(live);
        if self.inner.options.paranoid {
            for zone in &empty {
                self.prove_unreferenced(*zone).await?;
            }
        }
        Ok(empty.len())
    }

    /// Gives up victims that were emptied. Returns how many.
    pub(in crate::reclaim) async fn sweep_victims(&self, batch: &Batch) -> Result<usize, Error> {
        if self.inner.options.paranoid {
            for victim in &batch.victims {
                self.prove_unreferenced(victim.zone).await?;
            }
        }
        {
            let mut state = self.state();
            batch.victims.iter().for_each(|victim| state.retire(victim.zone));
        }
        self.inner.checkpoint_wanted.notify(1);
        self.notify();
        Ok(batch.victims.len())
    }

    /// Walks the whole map and asserts that nothing refers to the zone.
    async fn prove_unreferenced(&self, zone: ZoneId) -> Result<(), Error> {
        // A walk with client operations in between could miss a reference that moves behind it;
        // what is absent is loaded first, then one step without an `.await` sees everything.
        let mut kept = Vec::new();
        loop {
            let outcome = {
                let state = self.state();
                let blocks = state.space.zone_blocks;
                state.map.find_reference(|pba| pba.zone(blocks) == zone)
            };
            match outcome {
                Ok(None) => return Ok(()),
                Ok(Some((leaf, pba))) => {
                    panic!("{zone} is given up, but leaf {} refers to {pba}", leaf.0)
                }
                Err(absent) => kept.push(self.load_node(absent.0).await?),
            }
        }
    }
}

impl State {
    /// Notes how many blocks of each segment are live, and retires the segments in which none is. Returns
    /// these. The candidates' bits stay; they are all that is needed from here on.
    fn note_counts(&mut self, live: &mut Live) -> Vec<ZoneId> {
        let mut retired = Vec::new();
        self.reclaim.released.end_mark(live.blocks, self.counters.client_write_blocks);
        for (zone, count) in std::mem::take(&mut live.counts) {
            let segment = self.space.get_mut(zone);
            if segment.state != SegmentState::Sealed {
                continue;
            }
            segment.live = Some(count);
            if count == 0 {
                let State { placement, space, log, .. } = self;
                placement.reclaimed(space.get(zone), 0, None, log.sequence);
                self.retire(zone);
                retired.push(zone);
            }
        }
        self.reclaim.asked.begin_work();
        self.reclaim.mark_bytes = live.bits_bytes();
        retired
    }

    /// Gives a segment up: nothing refers to it any more.
    fn retire(&mut self, zone: ZoneId) {
        let segment = self.space.get_mut(zone);
        (segment.state, segment.stuck) = (SegmentState::Retiring, None);
        let payload = segment.payload;
        let won = payload.saturating_sub(segment.live.unwrap_or(payload));
        self.reclaim.released.won(won.into());
        self.reclaim.counters.blocks_won += u64::from(won);
        self.reclaim.index.remove(zone);
        self.reclaim.asked.retired(self.space.get(zone));
        self.reclaim.counters.segments_retired += 1;
        self.reclaim.failure = None;
    }
}
