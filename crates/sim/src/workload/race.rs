//! Writes and reads that race for the same few blocks.
//!
//! Writes to different parts of one block must both survive; each read, and the end, must be what
//! some order of the writes gives. Checked block by block.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use futures_lite::future::{FutureExt, zip};
use mjolnir_store::{Durability, Store};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};
use mjolnir_vtime::Chance;

use super::Kind;
use super::data::Place;
use super::ground::{Ground, blocks_of, joined};
use crate::model::{describe_bytes, pattern_block, value_of};
use crate::{Contents, Key, Value, Violation};

impl<S: Store> Ground<S> {
    pub(super) async fn race(self: &Rc<Self>, chance: &mut Chance) -> Result<(), Violation> {
        let Some(mut place) = self.some_place(chance, true, true) else { return Ok(()) };
        place.length = place.length.min(chance.within(1..4) * BLOCK_SIZE);
        let Some(guard) = self.locks.try_take(place.change().into()) else { return Ok(()) };

        let racers: Vec<(Place, Vec<u8>)> = (0..chance.within(2..5))
            .map(|racer| {
                let grain = *chance.pick(&[1, 512, BLOCK_SIZE]);
                let first = chance.below(place.length / grain);
                let count = 1 + chance.below(place.length / grain - first);
                let part =
                    Place { offset: place.offset + first * grain, length: count * grain, ..place };
                let number = self.model.borrow().next_op();
                let mut data = Vec::new();
                for (index, (_, within, span)) in blocks_of(part.offset, part.length).enumerate() {
                    let seed = Contents::seed(number, racer * 16 + index as u64);
                    data.extend_from_slice(&pattern_block(seed)[within..within + span.len()]);
                }
                (part, data)
            })
            .collect();
        let blocks: Vec<u64> =
            blocks_of(place.offset, place.length).map(|(block, _, _)| block).collect();
        let (possible, ends): (Vec<_>, Vec<_>) =
            blocks.iter().map(|&block| self.outcomes(place, block, &racers)).unzip();
        let (op, id) = {
            let model = &mut *self.model.borrow_mut();
            let writes =
                blocks.iter().zip(&possible).zip(&ends).map(|((&block, possible), ends)| {
                    let guess = *ends.first().expect("some order of the writes exists");
                    let possible = possible.iter().copied().collect();
                    (Key::Block(place.target, block), guess, possible)
                });
            let what = format!("{} racing writes in {}", racers.len(), place.say(model));
            (model.invoke_racing(what, writes.collect()), model.id(place.target))
        };

        let mut race = async { Ok(()) }.boxed_local();
        for (part, data) in racers {
            let write = self.store.write(id, part.offset, Bytes::from(data), Durability::Buffered);
            race = async move {
                let (one, other) = zip(race, write).await;
                one.and(other)
            }
            .boxed_local();
        }
        let watch = async {
            let mut seen = Vec::new();
            for _ in 0..2 {
                seen.push(self.store.read(id, place.offset, place.length).await);
            }
            seen
        };
        let (result, seen) = zip(race, watch).await;
        for read in seen.into_iter().flatten() {
            let bytes = joined(read);
            for ((&block, possible), got) in
                blocks.iter().zip(&possible).zip(bytes.chunks(BLOCK_BYTES))
            {
                let before = self.model.borrow().block(place.target, block);
                if value_of(got) != before && !possible.contains(&value_of(got)) {
                    return Err(Violation::new(format!(
                        "during {op} a read of block {block} returned {}, which no order of the \
                         writes gives",
                        describe_bytes(got)
                    )));
                }
            }
        }
        if result.is_err() {
            self.settle(&op, guard, false, result).await?;
            return Ok(());
        }
        let Some(bytes) = self.read(place.target, place.offset, place.length).await? else {
            guard.keep_for_ever();
            return Ok(());
        };
        let outcome: Vec<Value> = bytes.chunks(BLOCK_BYTES).map(value_of).collect();
        for (((&block, ends), value), got) in
            blocks.iter().zip(&ends).zip(&outcome).zip(bytes.chunks(BLOCK_BYTES))
        {
            if !ends.contains(value) {
                return Err(Violation::new(format!(
                    "after {op} block {block} holds {}, which no order of the writes gives",
                    describe_bytes(got)
                )));
            }
        }
        self.model.borrow_mut().acked_racing(&op, &outcome);
        self.count(Kind::Race);
        Ok(())
    }

    /// What a block may hold once some, and once all, of the racing writes are done.
    fn outcomes(
        &self,
        place: Place,
        block: u64,
        racers: &[(Place, Vec<u8>)],
    ) -> (BTreeSet<Value>, BTreeSet<Value>) {
        let model = &mut *self.model.borrow_mut();
        let start = model.block(place.target, block);
        let touching: Vec<(usize, &[u8])> = racers
            .iter()
            .filter_map(|(part, data)| {
                let (_, within, span) =
                    blocks_of(part.offset, part.length).find(|(other, _, _)| *other == block)?;
                Some((within, &data[span]))
            })
            .collect();
        let (mut possible, mut ends) = (BTreeSet::new(), BTreeSet::new());
        let mut states = BTreeSet::from([(0u32, start)]);
        while let Some((done, value)) = states.pop_first() {
            if done != 0 {
                possible.insert(value);
            }
            if done + 1 == 1 << touching.len() {
                ends.insert(value);
            }
            for (index, (within, bytes)) in touching.iter().enumerate() {
                if done & (1 << index) == 0 {
                    let next = model.contents.overlay(value, *within, bytes);
                    states.insert((done | 1 << index, next));
                }
            }
        }
        (possible, ends)
    }
}
