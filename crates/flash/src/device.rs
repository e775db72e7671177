//! Device files: which drive is simulated, as TOML.

mod check;
mod embedded;

use std::path::Path;

use mjolnir_policy::placement::Shape;
use serde::Deserialize;

use crate::controller::ControllerSpec;
use crate::ftl::FtlSpec;
use crate::nand::{Faults, Geometry, Timing};

/// A drive: its NAND, its controller, and its firmware.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// A short name.
    pub name: String,
    /// What drive it stands for, in a sentence.
    pub description: String,
    /// The parts of its NAND.
    pub nand: Geometry,
    /// What its NAND takes.
    pub timing: Timing,
    /// Its controller.
    pub controller: ControllerSpec,
    /// Its firmware FTL.
    pub ftl: FtlSpec,
    /// How often its NAND fails.
    #[serde(default)]
    pub faults: Faults,
}

/// Why a device cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No device of that name is shipped, and there is no such file.
    #[error(
        "no device is called {name:?}, and there is no file of that path; {nearest:?} comes nearest \
         (there are: {})", names.join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The name that differs least from it.
        nearest: &'static str,
        /// Every shipped device.
        names: Vec<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read device file {path}: {why}")]
    Unreadable {
        /// The path.
        path: String,
        /// What the operating system says.
        why: String,
    },
    /// The file is no TOML, or a field is missing or of the wrong type.
    #[error("device file {source_name}: {why}")]
    Malformed {
        /// Path or name of the file.
        source_name: String,
        /// Where in the file, and what is wrong.
        why: String,
    },
    /// A field that no device has.
    #[error("device file {source_name}: there is no field {field:?}; {nearest:?} comes nearest")]
    UnknownField {
        /// Path or name of the file.
        source_name: String,
        /// The field, with its tables.
        field: String,
        /// The known field that differs least from it.
        nearest: &'static str,
    },
    /// A field has a value that no drive can have.
    #[error("device file {source_name}: {field} = {value}: {why}")]
    Impossible {
        /// Path or name of the file.
        source_name: String,
        /// The field, with its tables.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, and what would do.
        why: String,
    },
}

impl Device {
    /// The names of the devices that are shipped.
    pub fn names() -> impl Iterator<Item = &'static str> {
        embedded::DEVICES.iter().map(|(name, _)| *name)
    }

    /// A shipped device by its name, or a device file by its path, read with `read_file`: this
    /// crate does no I/O of its own.
    pub fn load(
        name_or_path: &str,
        read_file: impl FnOnce(&Path) -> std::io::Result<String>,
    ) -> Result<Device, DeviceError> {
        if let Ok(device) = Device::shipped(name_or_path) {
            return Ok(device);
        }
        match read_file(Path::new(name_or_path)) {
            Ok(text) => Device::parse(name_or_path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Device::shipped(name_or_path)
            }
            Err(error) => Err(DeviceError::Unreadable {
                path: name_or_path.to_owned(),
                why: error.to_string(),
            }),
        }
    }

    /// A shipped device by its name.
    pub fn shipped(name: &str) -> Result<Device, DeviceError> {
        match embedded::DEVICES.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Device::parse(name, text),
            None => Err(DeviceError::Unknown {
                name: name.to_owned(),
                nearest: check::nearest(name, Device::names()),
                names: Device::names().collect(),
            }),
        }
    }

    /// A device from the text of a device file; `source_name` is what errors call it.
    pub fn parse(source_name: &str, text: &str) -> Result<Device, DeviceError> {
        let malformed = |why: String| DeviceError::Malformed {
            source_name: source_name.to_owned(),
            why: why.trim_end().to_owned(),
        };
        let table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| malformed(e.to_string()))?;
        check::fields(source_name, &table)?;
        let device: Device = toml::from_str(text).map_err(|e| malformed(e.to_string()))?;
        device.check(source_name)?;
        Ok(device)
    }

    /// A device from what a device file holds, changed or not; `source_name` is what errors call it.
    /// Its values are not checked: call [`check`](Device::check), or
    /// [`check_hardware`](Device::check_hardware) where other firmware runs on it.
    pub fn from_table(source_name: &str, table: toml::Table) -> Result<Device, DeviceError> {
        check::fields(source_name, &table)?;
        let device: Device = table.try_into().map_err(|why: toml::de::Error| {
            let why = why.to_string().trim_end().to_owned();
            DeviceError::Malformed { source_name: source_name.to_owned(), why }
        })?;
        Ok(device)
    }

    /// The device file of a shipped device.
    pub fn shipped_text(name: &str) -> Option<&'static str> {
        embedded::DEVICES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Bytes that the drive offers to its host.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_pages() * u64::from(self.nand.page_bytes)
    }

    /// Pages that the drive offers to its host.
    pub fn logical_pages(&self) -> u64 {
        let planes = u64::from(self.nand.planes());
        planes * u64::from(self.usable_blocks_per_plane()) * u64::from(self.data_pages_per_block())
    }

    /// Erase blocks of each plane whose worth of pages is offered to the host.
    pub fn usable_blocks_per_plane(&self) -> u32 {
        let blocks = self.nand.blocks_per_plane;
        // A hair above, so that 0.15 of 2000 is 300 although 0.15 is not quite 0.15 in binary.
        let reserved = (self.ftl.over_provisioning * f64::from(blocks) + 1e-6) as u32;
        blocks - reserved.min(blocks)
    }

    /// The most streams that a placement policy may have: append points of a plane for which its
    /// spare erase blocks have room. One stays free while a victim moves, and one keeps cleaning
    /// from being futile.
    pub fn streams_max(&self) -> u32 {
        let reserved = self.nand.blocks_per_plane - self.usable_blocks_per_plane();
        reserved.saturating_sub(self.low_watermark_blocks() + 1)
    }

    /// What its placement policy is made for: pages are its blocks, and the planes' erase blocks
    /// of one number together a segment, for a stream is open in each of them.
    pub fn placement_shape(&self) -> Shape {
        let planes = u64::from(self.nand.planes());
        Shape {
            segment_blocks: planes * u64::from(self.data_pages_per_block()),
            segments: self.nand.blocks_per_plane.into(),
            ..Shape::default()
        }
    }

    /// Pages of each erase block that hold data.
    pub fn data_pages_per_block(&self) -> u32 {
        self.nand.pages_per_block - u32::from(self.ftl.summary_page)
    }

    /// Free erase blocks in a plane at which, or below which, cleaning begins.
    pub fn low_watermark_blocks(&self) -> u32 {
        ((self.ftl.low_watermark * f64::from(self.nand.blocks_per_plane) + 1e-6) as u32).max(1)
    }
}
