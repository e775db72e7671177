//! The formats, with their names and abilities.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::words::nearest;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Our own recordings.
    Mjolnir,
    /// fio's iolog, version 2: no times but the waits it may hold.
    FioV2,
    /// fio's iolog, version 3.
    FioV3,
    /// MSR Cambridge: `filetime,host,disk,Read|Write,offset,size,response`.
    Msr,
    /// The cut of MSR Cambridge that SSD studies pass around: `ms device offset size flag`.
    Millisecond,
    /// Storage Performance Council: `asu,lba,size,opcode,seconds`.
    Spc,
    /// What `blkparse` prints by default.
    Blkparse,
    /// VMware's vscsiStats, records of 32 bytes, as CloudPhysics uses them.
    Vscsi1,
    /// VMware's vscsiStats, records of 40 bytes.
    Vscsi2,
    /// DiskSim's ASCII: `ms device block count flags`.
    DiskSim,
    /// MQSim's ASCII: `ns device sector count flag`.
    MqSim,
    /// Alibaba Cloud: `device,R|W,offset,length,microseconds`.
    Alibaba,
    /// Tencent Cloud: `seconds,sector,sectors,0|1,volume`.
    Tencent,
    /// SYSTOR '17: `seconds,response,R|W,lun,offset,size`.
    Systor,
}

/// What a format can hold, beyond reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Whether we write it.
    pub written: bool,
    /// Nanoseconds in its unit of time; 0 if it holds no times.
    pub time_unit_ns: u64,
    /// Bytes in its unit of addresses.
    pub address_unit: u64,
    /// Bytes in its unit of lengths.
    pub length_unit: u64,
    /// Trims.
    pub trims: bool,
    /// Flushes.
    pub flushes: bool,
    /// Writes of zeroes.
    pub zeroes: bool,
    /// Stream hints.
    pub streams: bool,
    /// Nanoseconds in its unit of latencies; 0 if it holds none.
    pub latency_unit_ns: u64,
    /// What it can call a volume.
    pub names: Names,
}

/// What a format can call a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// It knows one volume only.
    None,
    /// A number.
    Numbers,
    /// A name without separators.
    Words,
    /// Any name.
    Any,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 14] = [
        Format::Mjolnir,
        Format::FioV2,
        Format::FioV3,
        Format::Msr,
        Format::Millisecond,
        Format::Spc,
        Format::Blkparse,
        Format::Vscsi1,
        Format::Vscsi2,
        Format::DiskSim,
        Format::MqSim,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
    ];

    /// Its name, for the command line and reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Mjolnir => "mjolnir",
            Format::FioV2 => "fio-v2",
            Format::FioV3 => "fio-v3",
            Format::Msr => "msr",
            Format::Millisecond => "millisecond",
            Format::Spc => "spc",
            Format::Blkparse => "blkparse",
            Format::Vscsi1 => "vscsi1",
            Format::Vscsi2 => "vscsi2",
            Format::DiskSim => "disksim",
            Format::MqSim => "mqsim",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
        }
    }

    /// One line about it.
    pub fn describe(self) -> &'static str {
        match self {
            Format::Mjolnir => "our own recordings: compact, with trims, flushes and stream hints",
            Format::FioV2 => "fio iolog version 2: file action offset length",
            Format::FioV3 => "fio iolog version 3: microseconds file action offset length",
            Format::Msr => "MSR Cambridge: filetime,host,disk,type,offset,size,response",
            Format::Millisecond => "cut of MSR Cambridge: milliseconds device offset size flag",
            Format::Spc => "Storage Performance Council: asu,lba,size,opcode,seconds",
            Format::Blkparse => "blkparse's default text",
            Format::Vscsi1 => "VMware vscsiStats, binary records of 32 bytes",
            Format::Vscsi2 => "VMware vscsiStats, binary records of 40 bytes",
            Format::DiskSim => "DiskSim ASCII: milliseconds device block blocks flags",
            Format::MqSim => "MQSim ASCII: nanoseconds device sector sectors flag",
            Format::Alibaba => "Alibaba Cloud: device,opcode,offset,length,microseconds",
            Format::Tencent => "Tencent Cloud: seconds,sector,sectors,type,volume",
            Format::Systor => "SYSTOR '17: seconds,response,type,lun,offset,size",
        }
    }

    /// What times, addresses and lengths are counted in.
    pub fn units(self) -> &'static str {
        match self {
            Format::Mjolnir => {
                "time in ns since the recording's start, offsets and lengths in bytes"
            }
            Format::FioV2 => {
                "no times but those of waits (µs since the wait before), offsets and lengths in bytes"
            }
            Format::FioV3 => "time in µs since the start, offsets and lengths in bytes",
            Format::Msr => {
                "time in 100 ns since 1601 (UTC), offsets and lengths in bytes, latency in 100 ns"
            }
            Format::Millisecond => "time in ms, offsets and lengths in bytes",
            Format::Spc => "time in s, addresses in sectors of 512 bytes, lengths in bytes",
            Format::Blkparse => "time in s, addresses and lengths in sectors of 512 bytes",
            Format::Vscsi1 => "time in µs, addresses in sectors of 512 bytes, lengths in bytes",
            Format::Vscsi2 => {
                "time in µs, addresses in sectors of 512 bytes, lengths in bytes, latency in µs"
            }
            Format::DiskSim => "time in ms, addresses and lengths in sectors of 512 bytes",
            Format::MqSim => "time in ns, addresses and lengths in sectors of 512 bytes",
            Format::Alibaba => "time in µs since 1970 (UTC), offsets and lengths in bytes",
            Format::Tencent => {
                "time in s since 1970 (UTC), addresses and lengths in sectors of 512 bytes"
            }
            Format::Systor => {
                "time in s since 1970 (UTC), offsets and lengths in bytes, latency in s"
            }
        }
    }

    /// What it can hold.
    pub fn abilities(self) -> Abilities {
        let plain = Abilities {
            written: true,
            time_unit_ns: 1,
            address_unit: 1,
            length_unit: 1,
            trims: false,
            flushes: false,
            zeroes: false,
            streams: false,
            latency_unit_ns: 0,
            names: Names::Numbers,
        };
        match self {
            Format::Mjolnir => Abilities {
                trims: true,
                flushes: true,
                zeroes: true,
                streams: true,
                latency_unit_ns: 1,
                names: Names::Any,
                ..plain
            },
            Format::FioV2 => Abilities {
                time_unit_ns: 0,
                trims: true,
                flushes: true,
                names: Names::Words,
                ..plain
            },
            Format::FioV3 => Abilities {
                time_unit_ns: 1_000,
                trims: true,
                flushes: true,
                names: Names::Words,
                ..plain
            },
            Format::Msr => {
                Abilities { time_unit_ns: 100, latency_unit_ns: 100, names: Names::Words, ..plain }
            }
            Format::Millisecond => plain,
            Format::Spc => Abilities { address_unit: 512, ..plain },
            Format::Blkparse => Abilities {
                address_unit: 512,
                length_unit: 512,
                trims: true,
                flushes: true,
                ..plain
            },
            Format::Vscsi1 | Format::Vscsi2 => Abilities {
                written: false,
                time_unit_ns: 1_000,
                address_unit: 512,
                flushes: true,
                names: Names::None,
                ..plain
            },
            Format::DiskSim | Format::MqSim => {
                Abilities { address_unit: 512, length_unit: 512, ..plain }
            }
            Format::Alibaba => Abilities { time_unit_ns: 1_000, ..plain },
            Format::Tencent => Abilities {
                time_unit_ns: 1_000_000_000,
                address_unit: 512,
                length_unit: 512,
                ..plain
            },
            Format::Systor => Abilities { latency_unit_ns: 1, ..plain },
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A word that names no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Format::ALL.map(Format::name);
        write!(f, "{:?} is no trace format", self.0)?;
        match nearest(&self.0, names) {
            Some(name) => write!(f, ": did you mean {name}?"),
            None => write!(f, ": known are {}", names.join(", ")),
        }
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
