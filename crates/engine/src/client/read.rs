//! Client reads.

use futures_util::future::try_join_all;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::report::ReadPurpose;
use mjolnir_store::{Chunk, Chunks, Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Lba, TreeId};

use crate::drive::{Engine, ReadSource, Version};
use crate::yielding::yield_now;

/// Capacity of the run buffer that is kept for the next read, in runs.
const RUNS_ROOM_MAX: usize = 1024;

/// A copy of at least this many bytes yields to other tasks afterwards.
const LARGE_COPY: usize = 256 << 10;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads whole blocks of a tree.
    pub(crate) async fn read_blocks(
        &self,
        tree: TreeId,
        lba: u64,
        blocks: u64,
    ) -> Result<Chunks, Error> {
        let mut sources = self
            .step(|state| {
                if state.map.blocks(tree).is_none_or(|size| lba + blocks > size) {
                    return Err(Error::new(
                        ErrorKind::NotFound,
                        "the volume or snapshot was deleted or shrunk during a read",
                    )
                    .into());
                }
                let mut runs = std::mem::take(&mut state.runs_room);
                runs.clear();
                let found = state.map.lookup(tree, Lba(lba), blocks, &mut runs);
                let sources = found.map(|()| self.sources(state, &runs));
                if runs.capacity() <= RUNS_ROOM_MAX {
                    state.runs_room = runs;
                }
                Ok(sources?)
            })
            .await?;
        if sources.len() == 1
            && let Some(source) = sources.pop()
        {
            return Ok(Chunks::from_buf([self.read_source(source).await?]));
        }
        try_join_all(sources.into_iter().map(|source| self.read_source(source)))
            .await
            .map(Chunks::from)
    }

    /// Reads one block and its version.
    pub(crate) async fn read_version(
        &self,
        tree: TreeId,
        lba: u64,
    ) -> Result<(Option<Version>, Chunk), Error> {
        let (version, source) = self
            .step(|state| {
                let version = state.version_of(tree, lba)?;
                let pba = version.map(|version| version.pba);
                Ok((version, self.sources(state, &[Run { blocks: 1, pba }]).pop()))
            })
            .await?;
        let source = source.unwrap_or(ReadSource::Hole(1));
        Ok((version, self.read_source(source).await?))
    }

    /// Reads one source of a client's read.
    async fn read_source(&self, source: ReadSource<D, R>) -> Result<Chunk, Error> {
        Ok(match source {
            ReadSource::Hole(blocks) => Chunk::Zeroes(blocks * BLOCK_SIZE),
            ReadSource::Memory(bytes) => {
                // Copied: the slice itself would keep the whole write's buffer alive for as long as
                // the client holds a few bytes of it.
                let mut copy = self.buffer(bytes.len());
                copy.as_mut().copy_from_slice(&bytes);
                if copy.len() >= LARGE_COPY {
                    yield_now().await;
                }
                Chunk::Data(copy.into())
            }
            ReadSource::Device(pba, blocks, pin) => {
                let buffer = self.read_pinned(ReadPurpose::Client, pba, blocks).await?;
                drop(pin);
                Chunk::Data(buffer.into())
            }
        })
    }
}
