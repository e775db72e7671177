//! Making a file that was cut short as long again as its label says.

use std::io;
use std::path::Path;

use mjolnir_device::{DeviceError, ErrorKind};

use super::failure::Failure;
use super::open::{Acquired, acquire, length, read_block, refuse_stump, reserve};
use super::{FileDevice, Kind, Short};
use crate::container::{Found, LABELS_AT, Label, choose_label};

impl FileDevice {
    /// Makes the file at `path` as long as its label says, durably, if it is shorter: what was missing reads
    /// as zeroes from then on. Tells how short it was.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) if another process has it open, [`Format`](ErrorKind::Format) if it is no
    /// container that this program can read, [`Invalid`](ErrorKind::Invalid) if it is a block device, which
    /// nothing here can enlarge, [`NoSpace`](ErrorKind::NoSpace) if space is to be reserved and there is none,
    /// else [`Io`](ErrorKind::Io). The file then is as long as it was.
    pub fn lengthen(path: &Path) -> Result<Option<Short>, DeviceError> {
        let name = path.display().to_string();
        let failure = Failure { what: "lengthening", name: name.as_str().into(), offset: None };
        let Acquired { file, kind, claims: _claims } =
            acquire(path, std::fs::OpenOptions::new().write(true), true)?;
        let actual = length(&file, kind).map_err(|error| failure.of_read(&error))?;
        refuse_stump(&file, &name, actual)?;
        let found = LABELS_AT.map(|offset| match read_block(&file, offset) {
            Ok(block) => Label::decode(block.as_ref()),
            Err(_) => Found::Damaged,
        });
        let (label, _) = choose_label(&name, found)?;
        let wanted = label.file_bytes();
        if actual >= wanted {
            return Ok(None);
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
            // What could not be had as a whole is given back.
            let _ = file.set_len(actual);
            failure.of_write(&error)
        })?;
        Ok(Some(short))
    }
}
