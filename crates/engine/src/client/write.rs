//! Writes: whole blocks are written without a copy, partial blocks by read-modify-write.

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::{Chunk, Error};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, TreeId};

use crate::drive::{Engine, shrunk};
use crate::space::Claim;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Writes bytes at any alignment. Returns the sequence number of the last record.
    pub(crate) async fn write_bytes(
        &self,
        tree: TreeId,
        offset: u64,
        data: Bytes,
    ) -> Result<u64, Error> {
        let mut at = offset;
        let mut rest = data;
        let mut sequence = 0;
        while !rest.is_empty() {
            let within = at % BLOCK_SIZE;
            if within == 0 && rest.len() >= BLOCK_BYTES {
                let whole = rest.len() - rest.len() % BLOCK_BYTES;
                let blocks = rest.split_to(whole);
                sequence = self.write_blocks(tree, at / BLOCK_SIZE, blocks).await?;
                at += whole as u64;
            } else {
                let count = (BLOCK_SIZE - within).min(rest.len() as u64) as usize;
                let part = rest.split_to(count);
                sequence = self.patch_block(tree, at / BLOCK_SIZE, within as usize, &part).await?;
                at += count as u64;
            }
        }
        Ok(sequence)
    }

    /// Writes whole blocks. Each block is atomic: a crash or an error in between leaves the earlier
    /// blocks written.
    pub(crate) async fn write_blocks(
        &self,
        tree: TreeId,
        lba: u64,
        data: Bytes,
    ) -> Result<u64, Error> {
        let mut done = 0;
        let mut sequence = 0;
        let mut rest = data;
        while !rest.is_empty() {
            let most = u64::from(self.state().log.group_blocks_max());
            self.admit((rest.len() as u64 / BLOCK_SIZE).min(most)).await?;
            let (blocks, at) = self
                .step(|state| {
                    let size = state.writable(tree)?;
                    if (lba + done) * BLOCK_SIZE + rest.len() as u64 > size {
                        return Err(shrunk().into());
                    }
                    state.write_step(Claim::Client, tree, lba + done, &rest)
                })
                .await?;
            sequence = at;
            done += blocks;
            rest = rest.slice((blocks * BLOCK_SIZE) as usize..);
        }
        Ok(sequence)
    }

    /// Changes part of one block: reads it, modifies it, and writes it back if its version is
    /// unchanged; otherwise starts over.
    async fn patch_block(
        &self,
        tree: TreeId,
        lba: u64,
        within: usize,
        part: &[u8],
    ) -> Result<u64, Error> {
        loop {
            self.admit(1).await?;
            let (before, content) = self.read_version(tree, lba).await?;
            let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
            if let Chunk::Data(bytes) = content {
                block.as_mut().copy_from_slice(&bytes);
            }
            block.as_mut()[within..within + part.len()].copy_from_slice(part);
            let block = block.freeze();
            let written = self
                .step(|state| {
                    let end = lba * BLOCK_SIZE + (within + part.len()) as u64;
                    if end > state.writable(tree)? {
                        return Err(shrunk().into());
                    }
                    if state.version_of(tree, lba)? != before {
                        return Ok(None);
                    }
                    let written = state.write_step(Claim::Client, tree, lba, &block)?;
                    Ok(Some(written.1))
                })
                .await?;
            if let Some(sequence) = written {
                return Ok(sequence);
            }
        }
    }
}
