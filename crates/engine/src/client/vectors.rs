//! Atomic vectors: payload is staged in a hidden tree, then one record applies all operations.

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_store::{Error, ErrorKind, Op};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, TreeId};

use crate::drive::{Engine, State, blocks_of};
use crate::format::record::{REMAPS_MAX, Record, Remap};
use crate::space::Claim;

/// The most payload in one atomic vector.
pub(crate) const ATOMIC_BYTES_MAX: u64 = 64 << 20;

/// Placeholder id for the staged tree until it exists. No client's tree has this id.
const STAGED: TreeId = TreeId(0);

fn no_tree_0() -> Error {
    Error::new(ErrorKind::NotFound, "there is no volume with the id 0")
}

/// A staged tree that no record has taken over yet. Dropping this deletes the tree, however the
/// operation ends; after a crash, recovery deletes it.
pub(crate) struct Staged<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    pub tree: TreeId,
    taken_over: bool,
}

impl<D: Device, R: Runtime> Staged<D, R> {
    pub fn taken_over(mut self) {
        self.taken_over = true;
    }
}

impl<D: Device, R: Runtime> Drop for Staged<D, R> {
    fn drop(&mut self) {
        if !self.taken_over {
            let (engine, tree) = (self.engine.clone(), self.tree);
            self.engine.spawn(async move {
                // On failure the store takes no more changes, and the next recovery deletes the
                // tree.
                let _ = engine.log_record(Record::Delete { tree }, |_| Ok(())).await;
            });
        }
    }
}

pub(crate) fn place_staged(remaps: Vec<Remap>, staging: Option<TreeId>) -> Vec<Remap> {
    let place = |remap| match remap {
        Remap::Move { from: STAGED, from_lba, to, to_lba, bytes } => {
            let from = staging.expect("a vector with writes is staged");
            Remap::Move { from, from_lba, to, to_lba, bytes }
        }
        other => other,
    };
    remaps.into_iter().map(place).collect()
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Converts operations into remaps from a staged tree, and the payload to stage.
    pub(crate) fn check_vector(&self, ops: Vec<Op>) -> Result<(Vec<Remap>, Vec<Bytes>), Error> {
        if ops.len() > REMAPS_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} operations do not fit one atomic vector; at most {REMAPS_MAX} do",
                    ops.len()
                ),
            ));
        }
        let lba_of = |what: &str, value: u64| {
            if value.is_multiple_of(BLOCK_SIZE) {
                return Ok(value / BLOCK_SIZE);
            }
            Err(Error::new(
                ErrorKind::Invalid,
                format!("{what} {value} is not a multiple of the block size, {BLOCK_SIZE}"),
            ))
        };
        let (mut remaps, mut writes, mut staged) = (Vec::new(), Vec::new(), 0);
        for op in ops {
            remaps.push(match op {
                Op::Write { to, offset, data } => {
                    let to_lba = lba_of("the offset", offset)?;
                    let bytes = data.len() as u64;
                    if bytes == 0 {
                        // Nothing to stage, but the target is still checked.
                        remaps.push(Remap::Trim { tree: to, lba: to_lba, bytes });
                        continue;
                    }
                    let remap = Remap::Move { from: STAGED, from_lba: staged, to, to_lba, bytes };
                    staged += blocks_of(bytes);
                    writes.extend(in_blocks(data));
                    remap
                }
                Op::Trim { of, offset, length } => {
                    Remap::Trim { tree: of, lba: lba_of("the offset", offset)?, bytes: length }
                }
                Op::Clone { from, from_offset, to, to_offset, length } => Remap::Clone {
                    from,
                    from_lba: lba_of("the offset", from_offset)?,
                    to,
                    to_lba: lba_of("the offset", to_offset)?,
                    bytes: length,
                },
                Op::Move { from, .. } if from == STAGED => {
                    return Err(self.state().target(from).err().unwrap_or_else(no_tree_0));
                }
                Op::Move { from, from_offset, to, to_offset, length } => {
                    self.state().target(from)?;
                    Remap::Move {
                        from,
                        from_lba: lba_of("the offset", from_offset)?,
                        to,
                        to_lba: lba_of("the offset", to_offset)?,
                        bytes: length,
                    }
                }
            });
        }
        if staged * BLOCK_SIZE > ATOMIC_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} bytes do not fit one atomic vector; at most {ATOMIC_BYTES_MAX} do",
                    staged * BLOCK_SIZE
                ),
            ));
        }
        let mut state = self.state();
        state.check_remaps(&remaps)?;
        Ok((remaps, writes))
    }

    /// Writes payload to a tree hidden from clients.
    pub(crate) async fn stage(&self, writes: &[Bytes], blocks: u64) -> Result<Staged<D, R>, Error> {
        let tree = self.state().catalog.next_id()?;
        self.log_record(Record::Stage { tree, blocks }, |_| Ok(())).await?;
        let staged = Staged { engine: self.clone(), tree, taken_over: false };
        let mut lba = 0;
        for data in writes {
            self.write_blocks(tree, lba, data.clone()).await?;
            lba += data.len() as u64 / BLOCK_SIZE;
        }
        Ok(staged)
    }

    /// Writes one block to a tree hidden from clients, for a change that takes no space in the end. A
    /// full store accepts it.
    pub(crate) async fn stage_small(&self, block: Bytes) -> Result<Staged<D, R>, Error> {
        let tree = self.state().catalog.next_id()?;
        self.log_record(Record::Stage { tree, blocks: 1 }, |_| Ok(())).await?;
        let staged = Staged { engine: self.clone(), tree, taken_over: false };
        self.admit(1).await?;
        self.step(|state| state.write_step(Claim::Small, tree, 0, &block)).await?;
        Ok(staged)
    }
}

impl State {
    /// Refuses a remap if its tree is gone, read-only or too short, or if it covers part of a block
    /// other than the last block of each volume.
    pub(crate) fn check_remaps(&mut self, remaps: &[Remap]) -> Result<(), Error> {
        for remap in remaps {
            match *remap {
                Remap::Trim { tree, lba, bytes } => self.check_changed(tree, lba, bytes)?,
                Remap::Clone { from, from_lba, to, to_lba, bytes } => {
                    let offset = from_lba.saturating_mul(BLOCK_SIZE);
                    self.check_read(from, offset, bytes)?;
                    self.check_tail(from, offset, bytes)?;
                    self.check_changed(to, to_lba, bytes)?;
                }
                Remap::Move { from, from_lba, to, to_lba, bytes } => {
                    if from != STAGED && !self.is_staged(from) {
                        self.check_changed(from, from_lba, bytes)?;
                    }
                    self.check_changed(to, to_lba, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn check_changed(&self, tree: TreeId, lba: u64, bytes: u64) -> Result<(), Error> {
        let offset = lba.saturating_mul(BLOCK_SIZE);
        self.check_write(tree, offset, bytes)?;
        self.check_tail(tree, offset, bytes)
    }

    /// Refuses a partial block, unless it is all of a volume's last block. Staged blocks are padded
    /// with zeroes.
    fn check_tail(&self, tree: TreeId, offset: u64, bytes: u64) -> Result<(), Error> {
        if bytes.is_multiple_of(BLOCK_SIZE) {
            return Ok(());
        }
        let Ok(target) = self.target(tree) else { return Ok(()) };
        if offset + bytes == target.size {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the length {bytes} is not a multiple of the block size, {BLOCK_SIZE}, and the range does \
                 not reach to the end of {}, {} bytes",
                target.name, target.size
            ),
        ))
    }
}

/// The blocks to stage: a partial block at the end is padded with zeroes.
fn in_blocks(mut data: Bytes) -> impl Iterator<Item = Bytes> {
    let whole = data.split_to(data.len() / BLOCK_BYTES * BLOCK_BYTES);
    let mut padded = AlignedBuf::zeroed(if data.is_empty() { 0 } else { BLOCK_BYTES });
    padded.as_mut()[..data.len()].copy_from_slice(&data);
    [whole, padded.freeze()].into_iter().filter(|piece| !piece.is_empty())
}
