//! Warnings about a container that still works.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mjolnir_device::{DeviceError, ErrorKind};

use super::failure::size;

/// A problem with which a container still works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// One of the two labels is damaged; the other one serves. The next checkpoint replaces it, where
    /// it can be written.
    LabelDamaged {
        /// The container.
        name: String,
        /// Offset of the damaged label, in bytes.
        offset: u64,
    },
    /// One of the two roots is damaged; the other one serves. The next checkpoint replaces it.
    RootDamaged {
        /// The container.
        name: String,
        /// Offset of the damaged root, in bytes.
        offset: u64,
    },
    /// The file or device is shorter than its label says. It was opened for reading nevertheless,
    /// and the missing part reads as zeroes.
    Short(Short),
    /// The label counts fewer zones than the store has: it is from before the container grew. It
    /// was opened for reading nevertheless.
    LabelOutgrown {
        /// The container.
        name: String,
        /// The zones that the label counts.
        told: u32,
        /// The zones that it was opened with.
        zones: u32,
        /// The file or device is shorter than that.
        short: Option<Short>,
    },
    /// Free space is not given back to what the container lies on.
    KeepsSpace {
        /// The container.
        name: String,
        /// What the system said.
        why: String,
    },
}

/// A container whose file or device is shorter than its label says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// The container.
    pub name: String,
    /// How long it is, in bytes.
    pub actual: u64,
    /// How long it should be at least, in bytes.
    pub wanted: u64,
    /// Whether it is a regular file, which can be made longer.
    pub is_file: bool,
}

impl Short {
    /// What is wrong, in words.
    fn what(&self) -> String {
        let Short { name, actual, wanted, is_file } = self;
        let what = if *is_file { "file" } else { "device" };
        format!(
            "{name}: it is truncated: the {what} has {}, and its label says {}, so its last {} are missing",
            size(*actual),
            size(*wanted),
            size(wanted - actual)
        )
    }

    /// What makes it as long as it should be.
    fn mend(&self) -> String {
        let Short { name, wanted, is_file, .. } = self;
        match is_file {
            true => format!("`truncate -s {wanted} {name}` mends it"),
            false => format!(
                "enlarge the device to {wanted} bytes, or copy the store to one that has as many"
            ),
        }
    }

    /// Why a device is not made longer.
    pub(super) fn no_way_to_lengthen(&self) -> String {
        format!(
            "{}; what would lie past the end of a device cannot be written: {}",
            self.what(),
            self.mend()
        )
    }

    /// Why it is not opened.
    pub(super) fn refusal(&self) -> DeviceError {
        let Short { name, is_file, .. } = self;
        let accepts = match is_file {
            true => format!(", or let `mjolnir salvage {name}` go on without what is lost"),
            false => String::new(),
        };
        DeviceError::new(
            ErrorKind::Format,
            format!(
                "{}; `mjolnir check {name}` tells what they held: if that is nothing, {}; else copy it \
                 again from where it is whole, restore it from a backup{accepts}",
                self.what(),
                self.mend()
            ),
        )
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::LabelDamaged { name, offset } => write!(
                f,
                "{name}: the label at byte {offset} is damaged, one of two; the other one serves. Find \
                 out what wrote there, or whether the medium fails. The next checkpoint writes it \
                 anew: serve the store once, not --read-only. If that does not help, the medium takes \
                 no writes there: copy the store to another one"
            ),
            Warning::RootDamaged { name, offset } => write!(
                f,
                "{name}: the root at byte {offset} is damaged, one of two; the other one serves. A \
                 power cut leaves it so that comes while it is written; if there was none, find out \
                 what wrote there, or whether the medium fails. The next checkpoint writes it anew: \
                 serve the store once"
            ),
            Warning::Short(short) => write!(
                f,
                "{}; what is missing reads as zeroes here. If nothing is lost of it, {}",
                short.what(),
                short.mend()
            ),
            Warning::LabelOutgrown { name, told, zones, short } => {
                write!(
                    f,
                    "{name}: its label is from before it grew: it counts {told} segments, and the newest \
                     checkpoint {zones}"
                )?;
                let Some(Short { actual, wanted, is_file, .. }) = short else {
                    return write!(f, "; `mjolnir salvage {name}` writes it anew");
                };
                write!(
                    f,
                    ". It has {} of the {} that these take, so its last {} are missing, and read as zeroes here; ",
                    size(*actual),
                    size(*wanted),
                    size(wanted - actual)
                )?;
                match is_file {
                    true => write!(
                        f,
                        "`mjolnir salvage {name}` makes the file as long again and writes the label anew"
                    ),
                    false => write!(f, "enlarge the device, then run `mjolnir salvage {name}`"),
                }
            }
            Warning::KeepsSpace { name, why } => write!(
                f,
                "{name}: free space cannot be given back to what it lies on ({why}); it keeps what it has \
                 taken, and works"
            ),
        }
    }
}

impl Warning {
    /// Where it is, in bytes, if it is about a place that is mended by writing there.
    fn offset(&self) -> Option<u64> {
        match self {
            Warning::LabelDamaged { offset, .. } | Warning::RootDamaged { offset, .. } => {
                Some(*offset)
            }
            Warning::Short(_) | Warning::LabelOutgrown { .. } | Warning::KeepsSpace { .. } => None,
        }
    }
}

/// What was odd about a container when it was opened, and was not written anew since.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<Warning>>>);

impl Warnings {
    /// All of them.
    pub fn list(&self) -> Vec<Warning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add(&self, more: impl Iterator<Item = Warning>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
    }

    /// What is at `offset` was written anew.
    pub(super) fn mended(&self, offset: u64) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.retain(|warning| warning.offset() != Some(offset));
    }
}
