//! Extends a file that was cut short to the length in its label, and rewrites a label that the
//! device has outgrown.

use std::fs::File;
use std::io;
use std::path::Path;

use mjolnir_device::{DeviceError, ErrorKind};

use super::failure::Failure;
use super::labels::Labels;
use super::open::{Acquired, acquire, length, read_block, refuse_stump, reserve};
use super::{Claim, FileDevice, Kind, Short, Warnings};
use crate::container::{Found, LABELS_AT, Label, choose_label};
use crate::io::Target;

impl FileDevice {
    /// Extends the file at `path` durably to the length in its label, if it is shorter: the missing
    /// part reads as zeroes from then on. Returns how short the file was. If the label counts fewer
    /// than `zones_least` zones, it is rewritten with `zones_least` once the file is long enough.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) if another process has it open, [`Format`](ErrorKind::Format) if
    /// it is no container that this program can read, [`Invalid`](ErrorKind::Invalid) if it is a
    /// block device, which this program cannot enlarge, [`NoSpace`](ErrorKind::NoSpace) if space is
    /// to be reserved and there is none, else [`Io`](ErrorKind::Io). On an error the file keeps its
    /// length.
    pub fn lengthen(path: &Path, zones_least: u32) -> Result<Option<Short>, DeviceError> {
        let name = path.display().to_string();
        let failure = Failure { what: "lengthening", name: name.as_str().into(), offset: None };
        let Acquired { file, kind, claims } =
            acquire(path, std::fs::OpenOptions::new().write(true), true)?;
        let actual = length(&file, kind).map_err(|error| failure.of_read(&error))?;
        refuse_stump(&file, &name, actual)?;
        let found = LABELS_AT.map(|offset| match read_block(&file, offset) {
            Ok(block) => Label::decode(block.as_ref()),
            Err(_) => Found::Damaged,
        });
        let (old, _) = choose_label(&name, found.clone())?;
        let label = old.clone().with_zones(&name, old.zones.max(zones_least))?;
        let wanted = label.file_bytes();
        let relabel = |file: File, claims: Vec<Claim>| {
            let unsound = found.map(|found| found != Found::Label(old.clone()));
            let (is_old, warnings) = (label != old, Warnings::default());
            let mut labels = Labels { label: old, unsound, mend: false, warnings };
            let target = Target::with_claims(file, claims);
            let replaced = if is_old { labels.replace(label.clone(), &target) } else { Ok(()) };
            replaced.map_err(|error| failure.of_write(&error))
        };
        if actual >= wanted {
            return relabel(file, claims).map(|()| None);
        }
        let short = Short { name, actual, wanted, is_file: kind == Kind::File };
        if !short.is_file {
            return Err(DeviceError::new(ErrorKind::Invalid, short.no_way_to_lengthen()));
        }
        let lengthen = || {
            file.set_len(wanted)?;
            if label.preallocated {
                reserve(&file, actual, wanted - actual)?;
            }
            file.sync_all()
        };
        lengthen().map_err(|error: io::Error| {
            // Partly obtained space is returned.
            let _ = file.set_len(actual);
            failure.of_write(&error)
        })?;
        relabel(file, claims).map(|()| Some(short))
    }
}
