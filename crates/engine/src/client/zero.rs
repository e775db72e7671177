//! Zeroing: whole blocks become holes. A block whose rest holds only zeroes becomes a hole, too. A
//! range that already reads as zeroes is not written.

use std::ops::Range;

use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::{Chunk, Error};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, TreeId};

use crate::drive::Engine;
use crate::format::record::{Record, Remap};
use crate::space::Claim;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Trims the whole blocks within a range, and the volume's last block if the range reaches the
    /// volume's end. Returns the sequence number of the record (the newest number if nothing is
    /// trimmed) and the bytes trimmed.
    pub(crate) async fn trim_within(
        &self,
        tree: TreeId,
        offset: u64,
        end: u64,
    ) -> Result<(u64, Range<u64>), Error> {
        loop {
            let size = self.state().writable(tree)?;
            let start = offset.next_multiple_of(BLOCK_SIZE).min(end);
            let stop = if end == size { end } else { end / BLOCK_SIZE * BLOCK_SIZE };
            if start >= stop {
                return Ok((self.state().log.sequence, start..start));
            }
            let remap = Remap::Trim { tree, lba: start / BLOCK_SIZE, bytes: stop - start };
            let mut is_resized = false;
            let logged = self
                .log_record(Record::Remap(remap), |state| {
                    is_resized = state.writable(tree)? != size;
                    state.check_remaps(&[remap])
                })
                .await;
            match logged {
                // The volume's last block may be another one now.
                Err(_) if is_resized && end <= self.state().writable(tree)? => {}
                logged => return Ok((logged?, start..stop)),
            }
        }
    }

    /// Makes bytes at any alignment read as zeroes. The zeroes are durable once the log is durable
    /// up to the returned sequence number.
    pub(crate) async fn zero_bytes(
        &self,
        tree: TreeId,
        offset: u64,
        length: u64,
    ) -> Result<u64, Error> {
        let end = offset + length;
        // The trim comes first: it frees space, which the edges may need on a full store.
        let (mut sequence, trimmed) = self.trim_within(tree, offset, end).await?;
        for edge in [offset..trimmed.start, trimmed.end..end].into_iter().filter(|e| !e.is_empty())
        {
            let lba = edge.start / BLOCK_SIZE;
            let within = |at: u64| (at - lba * BLOCK_SIZE) as usize;
            let part = within(edge.start)..within(edge.end);
            sequence = sequence.max(self.zero_part(tree, lba, part).await?);
        }
        Ok(sequence)
    }

    /// Zeroes part of one block: reads it, and changes it if its version is unchanged; otherwise
    /// starts over. On a full store, the block's other bytes may still be rewritten where trims are
    /// accepted.
    async fn zero_part(&self, tree: TreeId, lba: u64, part: Range<usize>) -> Result<u64, Error> {
        loop {
            let (before, content) = self.read_version(tree, lba).await?;
            let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
            let content = match &content {
                Chunk::Data(content) if !is_zero(&content[part.clone()]) => content,
                // The record that zeroed these bytes may be the newest one.
                _ => return Ok(self.state().log.sequence),
            };
            let (head, tail) = (&content[..part.start], &content[part.end..]);
            let changed = if is_zero(head) && is_zero(tail) {
                self.log_step(|state| {
                    // The volume's last block may be partial.
                    let left = state.writable(tree)?.saturating_sub(lba * BLOCK_SIZE);
                    let bytes = left.min(BLOCK_SIZE);
                    let trim = Record::Remap(Remap::Trim { tree, lba, bytes });
                    match state.version_of(tree, lba)? == before {
                        true => state.log_together(std::slice::from_ref(&trim)).map(Some),
                        false => Ok(None),
                    }
                })
                .await?
            } else {
                let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
                block.as_mut()[..part.start].copy_from_slice(head);
                block.as_mut()[part.end..].copy_from_slice(tail);
                let block = block.freeze();
                self.admit(1).await?;
                self.step(|state| {
                    state.writable(tree)?;
                    if state.version_of(tree, lba)? != before {
                        return Ok(None);
                    }
                    let written = state.write_step(Claim::Small, tree, lba, &block)?;
                    Ok(Some(written.1))
                })
                .await?
            };
            if let Some(sequence) = changed {
                return Ok(sequence);
            }
        }
    }
}
