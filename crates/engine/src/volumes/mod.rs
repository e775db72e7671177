//! Operators' requests: volumes, snapshots, clones, restore, diff, growing the device.

mod diff;
mod grow;
mod resize;

use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind, SECTOR_BYTES, TargetInfo, check_name};
use mjolnir_units::{ByteSize, TreeId};

use crate::drive::{Engine, State};
use crate::format::manifest::TreeKind;
use crate::format::record::Record;

/// The largest volume, in bytes: 256 TiB of sparse address space.
pub const VOLUME_BYTES_MAX: u64 = 256 << 40;

/// The most snapshots of several volumes that can be taken at one instant: their records share a
/// group's header.
pub const SNAPSHOTS_AT_ONCE_MAX: usize = 16;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Creates an empty, thin volume.
    pub async fn create_volume(&self, name: &str, bytes: u64) -> Result<TargetInfo, Error> {
        check_name(name)?;
        check_size(bytes)?;
        let tree = self.state().catalog.next_id()?;
        let record = Record::CreateVolume { tree, bytes, name: name.to_owned() };
        let sequence = self.log_record(record, |state| state.catalog.check_free(name)).await?;
        self.flush_to(sequence).await?;
        self.state().target(tree)
    }

    /// Deletes a volume, with its snapshots if `with_snapshots`. Reclaim frees its space over time.
    pub async fn delete_volume(&self, name: &str, with_snapshots: bool) -> Result<(), Error> {
        let tree = self.volume_named(name)?;
        self.state().check_deletion(tree)?;
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

    /// Renames a volume.
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

    /// Creates a writable copy of a volume or snapshot. Takes no space, and constant time.
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

    /// Takes a snapshot, which holds every write acknowledged before the call. It is durable on
    /// return.
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

    /// Takes snapshots of several volumes at one instant: all or none, through any crash. Each is
    /// given as volume and snapshot name. They are durable on return.
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

    /// Deletes a snapshot. Reclaim frees its space over time.
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

    /// Replaces the volume's content and size by the snapshot's. The snapshot stays.
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

    pub(crate) fn volume_named(&self, name: &str) -> Result<TreeId, Error> {
        self.state().find_volume(name)
    }
}

impl State {
    /// Refuses to delete a volume if a transaction holds it or one of its snapshots, before any of
    /// them is deleted.
    fn check_deletion(&self, volume: TreeId) -> Result<(), Error> {
        let trees = self.catalog.snapshots_of(volume).into_iter().chain([volume]);
        let mut records = trees.map(|tree| Record::Delete { tree });
        records.try_for_each(|record| self.transactions.check(&record, &self.catalog))
    }

    /// Refuses to go on if the name passed to another tree while the request waited.
    pub fn still_named(&self, name: &str, tree: TreeId) -> Result<(), Error> {
        if self.catalog.find(name)? == tree {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "{name} was deleted or renamed meanwhile, and another volume or snapshot has its name now"
            ),
        ))
    }

    /// Finds a volume by name; refuses a snapshot's name with advice.
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
