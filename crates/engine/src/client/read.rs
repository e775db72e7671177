//! Reads of clients.

use futures_util::future::try_join_all;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::report::ReadPurpose;
use mjolnir_store::{Chunk, Chunks, Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Lba, TreeId};

use crate::drive::{Engine, Piece, Version};
use crate::yielding::yield_now;

/// Runs that a read may find for which room is kept for the next one.
const RUNS_ROOM_MAX: usize = 1024;

/// Bytes after whose copying others get their turn.
const LARGE_COPY: usize = 256 << 10;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads whole blocks of a tree.
    pub(crate) async fn read_blocks(
        &self,
        tree: TreeId,
        lba: u64,
        blocks: u64,
    ) -> Result<Chunks, Error> {
        let mut pieces = self
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
                let pieces = found.map(|()| self.pieces(state, &runs));
                if runs.capacity() <= RUNS_ROOM_MAX {
                    state.runs_room = runs;
                }
                Ok(pieces?)
            })
            .await?;
        if pieces.len() == 1
            && let Some(piece) = pieces.pop()
        {
            return Ok(Chunks::from_buf([self.read_piece(piece).await?]));
        }
        try_join_all(pieces.into_iter().map(|piece| self.read_piece(piece))).await.map(Chunks::from)
    }

    /// Reads one block, and tells which version of it that is.
    pub(crate) async fn read_version(
        &self,
        tree: TreeId,
        lba: u64,
    ) -> Result<(Option<Version>, Chunk), Error> {
        let (version, piece) = self
            .step(|state| {
                let version = state.version_of(tree, lba)?;
                let pba = version.map(|version| version.pba);
                Ok((version, self.pieces(state, &[Run { blocks: 1, pba }]).pop()))
            })
            .await?;
        let piece = piece.unwrap_or(Piece::Hole(1));
        Ok((version, self.read_piece(piece).await?))
    }

    /// Of what a client reads.
    async fn read_piece(&self, piece: Piece<D, R>) -> Result<Chunk, Error> {
        Ok(match piece {
            Piece::Hole(blocks) => Chunk::Zeroes(blocks * BLOCK_SIZE),
            Piece::Memory(bytes) => {
                // Itself it would hold all of the write that it is a part of, as long as whoever asked
                // for a little of it cares to.
                let mut copy = self.buffer(bytes.len());
                copy.as_mut().copy_from_slice(&bytes);
                if copy.len() >= LARGE_COPY {
                    yield_now().await;
                }
                Chunk::Data(copy.into())
            }
            Piece::Device(pba, blocks, pin) => {
                let buffer = self.read_pinned(ReadPurpose::Client, pba, blocks).await?;
                drop(pin);
                Chunk::Data(buffer.into())
            }
        })
    }
}
