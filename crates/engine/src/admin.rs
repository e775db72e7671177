//! What an operator does: volumes, snapshots, clones, restore, diff, growing the device.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind, Mapping, Store, TargetInfo, check_name};
use mjolnir_units::{BLOCK_SIZE, ByteSize, Lba, TreeId};

use crate::engine::{Engine, State};
use crate::fault;
use crate::format::manifest::TreeKind;
use crate::format::record::Record;
use crate::open::check_segments;
use crate::reclaim::yield_now;
use crate::store_impl::EXTENTS_AT_ONCE;

/// The largest volume, in bytes: 256 TiB of sparse address space.
pub const VOLUME_BYTES_MAX: u64 = 256 << 40;
/// What the size of a volume is a multiple of: disks and their images have sectors of this size.
pub const SECTOR_BYTES: u64 = 512;

/// Snapshots of several volumes that can be taken at one instant: their records share a group's header.
pub const SNAPSHOTS_AT_ONCE_MAX: usize = 16;

/// A range that differs between two targets, and what the newer one has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiffExtent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether the newer one has data there (else a hole).
    pub data: bool,
}

/// A part of a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiffPage {
    /// What differs, in address order.
    pub extents: Vec<DiffExtent>,
    /// Where to go on, if there may be more.
    pub next: Option<u64>,
}

/// What growing a store came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// What the store has now, in bytes.
    pub bytes: u64,
    /// Of those, what was added since whoever asked for a growth last had this answer, or since the
    /// checkpoint that the store was opened by: what one added that was cut short counts.
    pub added: u64,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Makes an empty, thin volume.
    pub async fn create_volume(&self, name: &str, bytes: u64) -> Result<TargetInfo, Error> {
        check_name(name)?;
        check_size(bytes)?;
        let tree = self.state().catalog.next_id()?;
        let record = Record::CreateVolume { tree, bytes, name: name.to_owned() };
        let sequence = self.log_record(record, |state| state.catalog.check_free(name)).await?;
        self.flush_to(sequence).await?;
        self.state().target(tree)
    }

    /// Removes a volume, with its snapshots if told so. Its space comes back by and by.
    pub async fn delete_volume(&self, name: &str, with_snapshots: bool) -> Result<(), Error> {
        let tree = self.volume_named(name)?;
        loop {
            let snapshots = self.state().catalog.snapshots_of(tree);
            let Some(snapshot) = snapshots.first().copied() else { break };
            if !with_snapshots {
                return Err(Error::new(
                    ErrorKind::Busy,
                    format!(
                        "{name} has {}; delete its snapshots first, or ask for them to be deleted \
                         with it",
                        match snapshots.len() {
                            1 => "a snapshot".to_owned(),
                            several => format!("{several} snapshots"),
                        }
                    ),
                ));
            }
            let record = Record::Delete { tree: snapshot };
            self.log_record(record, |state| state.still_named(name, tree)).await?;
        }
        let sequence = self
            .log_record(Record::Delete { tree }, |state| {
                state.still_named(name, tree)?;
                match state.catalog.snapshots_of(tree).is_empty() {
                    true => Ok(()),
                    false => Err(Error::new(
                        ErrorKind::Busy,
                        format!("{name} got a snapshot while it was being deleted"),
                    )),
                }
            })
            .await?;
        self.flush_to(sequence).await?;
        self.call_reclaim();
        Ok(())
    }

    /// Gives a volume another name.
    pub async fn rename_volume(&self, name: &str, new: &str) -> Result<TargetInfo, Error> {
        check_name(new)?;
        let tree = self.volume_named(name)?;
        let record = Record::Rename { tree, name: new.to_owned() };
        let sequence = self
            .log_record(record, |state| {
                state.still_named(name, tree)?;
                state.catalog.check_free(new)
            })
            .await?;
        self.flush_to(sequence).await?;
        self.state().target(tree)
    }

    /// Makes a writable copy of a volume or snapshot. Takes no space and no time.
    pub async fn clone_volume(&self, source: &str, new: &str) -> Result<TargetInfo, Error> {
        check_name(new)?;
        let of = self.state().catalog.find(source)?;
        let tree = self.state().catalog.next_id()?;
        let record = Record::CloneVolume { tree, of, name: new.to_owned() };
        let sequence = self
            .log_record(record, |state| {
                state.target(of)?;
                state.catalog.check_free(new)
            })
            .await?;
        self.flush_to(sequence).await?;
        self.state().target(tree)
    }

    /// Takes a snapshot, which holds every write acknowledged before. Durable when it returns.
    pub async fn create_snapshot(&self, volume: &str, name: &str) -> Result<TargetInfo, Error> {
        check_name(name)?;
        let of = self.volume_named(volume)?;
        let tree = self.state().catalog.next_id()?;
        let record = Record::CreateSnapshot { tree, of, name: name.to_owned() };
        let full = format!("{volume}@{name}");
        let sequence = self
            .log_record(record, |state| {
                state.still_named(volume, of)?;
                state.catalog.check_free(&full)
            })
            .await?;
        self.flush_to(sequence).await?;
        self.state().target(tree)
    }

    /// Takes snapshots of several volumes, each given with the snapshot's name, at one instant: all of
    /// them or none, through any crash. Durable when it returns.
    pub async fn create_snapshots(
        &self,
        snapshots: &[(String, String)],
    ) -> Result<Vec<TargetInfo>, Error> {
        if snapshots.is_empty() || snapshots.len() > SNAPSHOTS_AT_ONCE_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} snapshots cannot be taken at once; 1 to {SNAPSHOTS_AT_ONCE_MAX} can",
                    snapshots.len()
                ),
            ));
        }
        let mut records = Vec::with_capacity(snapshots.len());
        let mut wanted = Vec::with_capacity(snapshots.len());
        for (volume, name) in snapshots {
            check_name(name)?;
            let of = self.volume_named(volume)?;
            let full = format!("{volume}@{name}");
            if wanted.iter().any(|(_, _, other)| *other == full) {
                return Err(Error::new(ErrorKind::Invalid, format!("{full} is named twice")));
            }
            let tree = self.state().catalog.next_id()?;
            records.push(Record::CreateSnapshot { tree, of, name: name.clone() });
            wanted.push((tree, (volume, of), full));
        }
        let sequence = self
            .log_step(|state| {
                state.check_health()?;
                for (_, (volume, of), full) in &wanted {
                    state.still_named(volume, *of)?;
                    state.catalog.check_free(full)?;
                }
                state.log_together(&records)
            })
            .await?;
        self.flush_to(sequence).await?;
        let state = self.state();
        wanted.into_iter().map(|(tree, _, _)| state.target(tree)).collect()
    }

    /// Removes a snapshot. Its space comes back by and by.
    pub async fn delete_snapshot(&self, volume: &str, name: &str) -> Result<(), Error> {
        let full = format!("{volume}@{name}");
        let tree = self.state().catalog.find(&full)?;
        let sequence = self
            .log_record(Record::Delete { tree }, |state| state.still_named(&full, tree))
            .await?;
        self.flush_to(sequence).await?;
        self.call_reclaim();
        Ok(())
    }

    /// Gives the volume the content and size that the snapshot has. The snapshot stays.
    pub async fn restore_snapshot(&self, volume: &str, name: &str) -> Result<TargetInfo, Error> {
        let tree = self.volume_named(volume)?;
        let full = format!("{volume}@{name}");
        let from = self.state().catalog.find(&full)?;
        let sequence = self
            .log_record(Record::Restore { tree, from }, |state| {
                state.still_named(volume, tree)?;
                state.still_named(&full, from)
            })
            .await?;
        self.flush_to(sequence).await?;
        self.call_reclaim();
        self.state().target(tree)
    }

    /// What `new` has that differs from `old`, from byte `from` on, up to `limit` extents. Parts
    /// that both share are skipped without a look.
    pub async fn diff(
        &self,
        old: &str,
        new: &str,
        from: u64,
        limit: usize,
    ) -> Result<DiffPage, Error> {
        let (old, new) = {
            let state = self.state();
            (state.catalog.find(old)?, state.catalog.find(new)?)
        };
        self.step(|state| {
            state.target(old)?;
            state.target(new)?;
            let diff = state.map.diff(old, new, Lba(from / BLOCK_SIZE), limit.max(1))?;
            // Neighbours are one: where they lie on the medium is nobody's concern.
            let mut extents: Vec<DiffExtent> = Vec::with_capacity(diff.ranges.len());
            for range in &diff.ranges {
                let (offset, data) = (range.lba.0 * BLOCK_SIZE, range.pba.is_some());
                let length = state.clip(new, range.lba.0, range.blocks);
                match extents.last_mut() {
                    Some(last) if last.offset + last.length == offset && last.data == data => {
                        last.length += length;
                    }
                    _ => extents.push(DiffExtent { offset, length, data }),
                }
            }
            Ok(DiffPage { extents, next: diff.next.map(|lba| lba.0 * BLOCK_SIZE) })
        })
        .await
    }

    /// What is mapped of a target, for listings: data bytes and the number of extents.
    pub async fn mapped(&self, name: &str) -> Result<u64, Error> {
        self.mapped_from(name, 0).await
    }

    /// As [`mapped`](Self::mapped), of what lies at `offset` or past it.
    pub async fn mapped_from(&self, name: &str, offset: u64) -> Result<u64, Error> {
        let tree = self.state().catalog.find(name)?;
        let mut at = offset;
        let mut bytes = 0;
        loop {
            // Of many snapshots, each may be there at once.
            yield_now().await;
            let size = self.state().size(tree)?;
            if at >= size {
                return Ok(bytes);
            }
            for extent in Store::extents(self, tree, at, size - at, EXTENTS_AT_ONCE).await? {
                at += extent.length;
                bytes += if extent.mapping == Mapping::Data { extent.length } else { 0 };
            }
        }
    }

    /// Uses a device (or file) that has grown, or makes the file larger: `bytes` in all.
    ///
    /// Repeated after it was cut short it does what was left to do, and tells all that was added. Where
    /// nothing was left it adds nothing, which is no error.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if that is less than the store has or more than it can have, else
    /// what the device said.
    pub async fn grow(&self, bytes: u64) -> Result<Growth, Error> {
        self.state().check_health()?;
        let info = self.device().info();
        let zone_bytes = info.zone_blocks * BLOCK_SIZE;
        // Once the device has them, the store has.
        check_segments(&info, bytes / zone_bytes)?;
        if bytes < info.bytes() {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: {} are less than the {} that the store has, and a store does not shrink",
                    info.name,
                    ByteSize(bytes),
                    ByteSize(info.bytes())
                ),
            ));
        }
        let zones = self
            .device()
            .grow(bytes)
            .await
            .map_err(|error| fault::device("growing the device", error))?;
        {
            let mut state = self.state();
            state.info = self.device().info();
            state.space.grow(zones);
        }
        self.inner.reset_wanted.notify(1);
        self.notify();
        self.checkpoint().await?;
        // In the step that answers: if this is cut short, the next one tells what was added.
        let mut state = self.state();
        let told = std::mem::replace(&mut state.space.told_zones, zones);
        let added = u64::from(zones.saturating_sub(told)) * zone_bytes;
        Ok(Growth { bytes: u64::from(zones) * zone_bytes, added })
    }

    pub(crate) fn volume_named(&self, name: &str) -> Result<TreeId, Error> {
        self.state().find_volume(name)
    }
}

impl State {
    /// Refuses to go on if, while a request waited, the name passed to another tree.
    pub fn still_named(&self, name: &str, tree: TreeId) -> Result<(), Error> {
        if self.catalog.find(name)? == tree {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("{name} was deleted or renamed meanwhile, and another has its name now"),
        ))
    }

    /// A volume by name; a snapshot's name is refused with advice.
    pub fn find_volume(&self, name: &str) -> Result<TreeId, Error> {
        let tree = self.catalog.find(name)?;
        match self.catalog.get(tree).map(|entry| &entry.kind) {
            Some(TreeKind::Volume(_)) => Ok(tree),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("{name} is a snapshot; this works on volumes (clone it to get one)"),
            )),
        }
    }
}

/// Refuses a size that no volume can have.
pub(crate) fn check_size(bytes: u64) -> Result<(), Error> {
    if bytes == 0 || bytes > VOLUME_BYTES_MAX || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "a volume cannot have {bytes} bytes; choose a multiple of {SECTOR_BYTES} from \
                 {SECTOR_BYTES} bytes to {}",
                ByteSize(VOLUME_BYTES_MAX)
            ),
        ));
    }
    Ok(())
}
