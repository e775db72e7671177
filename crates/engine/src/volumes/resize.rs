//! Resizing a volume. If its new end lies within a block, that block holds zeroes past the end: the
//! removed bytes never come back when the volume grows, or in a copy of the block.

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::{Chunk, Error, ErrorKind, TargetInfo};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, ByteSize, TreeId};

use crate::drive::{Engine, State, Version};
use crate::format::record::Record;
use crate::space::Hurdle;
use crate::volumes::check_size;

/// The block that contains the volume's new end.
struct Tail {
    /// The version that was read.
    version: Option<Version>,
    /// The block's new content, if it has nonzero bytes past the new end.
    cut: Option<Bytes>,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Grows a volume, or shrinks it if `shrink`: bytes past a smaller size are lost. A size may be
    /// any multiple of 512 bytes.
    pub async fn resize_volume(
        &self,
        name: &str,
        bytes: u64,
        shrink: bool,
    ) -> Result<TargetInfo, Error> {
        check_size(bytes)?;
        let tree = self.volume_named(name)?;
        let sequence = loop {
            let size = self.state().check_resize(name, tree, bytes, shrink)?;
            let is_cut = bytes < size && !bytes.is_multiple_of(BLOCK_SIZE);
            let tail = if is_cut { Some(self.read_tail(tree, bytes).await?) } else { None };
            let staged = match tail.as_ref().and_then(|tail| tail.cut.clone()) {
                None => None,
                Some(block) => Some(self.stage_small(block).await?),
            };
            let staging = staged.as_ref().map(|staged| staged.tree);
            let mut changed = false;
            let logged = self
                .log_record_if(Record::Resize { tree, bytes, tail: staging }, |state| {
                    changed = state.check_resize(name, tree, bytes, shrink)? != size;
                    if !changed && let Some(tail) = &tail {
                        changed = state.version_of(tree, bytes / BLOCK_SIZE)? != tail.version;
                    }
                    if changed { Err(Hurdle::Failed(resized())) } else { Ok(()) }
                })
                .await;
            if changed {
                continue;
            }
            let sequence = logged?;
            if let Some(staged) = staged {
                staged.taken_over();
            }
            break sequence;
        };
        self.flush_to(sequence).await?;
        self.state().target(tree)
    }

    async fn read_tail(&self, tree: TreeId, bytes: u64) -> Result<Tail, Error> {
        let within = (bytes % BLOCK_SIZE) as usize;
        let (version, content) = self.read_version(tree, bytes / BLOCK_SIZE).await?;
        let cut = match content {
            Chunk::Data(data) if data[within..].iter().any(|byte| *byte != 0) => {
                let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
                block.as_mut()[..within].copy_from_slice(&data[..within]);
                Some(block.freeze())
            }
            _ => None,
        };
        Ok(Tail { version, cut })
    }
}

impl State {
    /// Refuses a size that would lose bytes, unless `shrink`. Returns the present size.
    fn check_resize(
        &self,
        name: &str,
        tree: TreeId,
        bytes: u64,
        shrink: bool,
    ) -> Result<u64, Error> {
        self.still_named(name, tree)?;
        let size = self.size(tree)?;
        if shrink || bytes >= size {
            return Ok(size);
        }
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{name} has {}, and {} is smaller: the bytes past that would be lost",
                ByteSize(size),
                ByteSize(bytes)
            ),
        ))
    }
}

fn resized() -> Error {
    Error::new(ErrorKind::Busy, "the volume changed while it was resized")
}
