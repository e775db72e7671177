//! Values of the command line, with errors that say how to write them.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use mjolnir_store::VolumeRange;
use mjolnir_units::ByteSize;

use crate::payload::Payload;
use crate::request::RangeOp;

/// A size with its unit, in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>().map(|size| size.0).map_err(|error| error.to_string())
}

/// The least memory budget for serving a store.
const MEMORY_MIN: u64 = 16 << 20;

/// A memory budget.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < MEMORY_MIN {
        return Err(format!(
            "{text} is too little to serve a store with; give {} at least",
            ByteSize(MEMORY_MIN)
        ));
    }
    Ok(bytes)
}

/// A part of a whole, written `50%` or `0.5`.
pub fn part(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let value = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    value.filter(|value| (0.0..=1.0).contains(value)).ok_or_else(|| {
        format!("{text:?} is not a part of a whole: write a percentage from 0% to 100%")
    })
}

/// A snapshot, written `VOLUME@NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotName {
    /// The volume.
    pub volume: String,
    /// Name of the snapshot within it.
    pub name: String,
}

impl FromStr for SnapshotName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (volume, name) = text.split_once('@').ok_or_else(|| {
            format!("{text:?} is not a snapshot: write VOLUME@NAME, such as v@monday")
        })?;
        Ok(SnapshotName { volume: volume.to_owned(), name: name.to_owned() })
    }
}

/// The destination of a range, written `VOLUME:OFFSET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The volume.
    pub volume: String,
    /// First byte.
    pub offset: u64,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (volume, offset) = text
            .rsplit_once(':')
            .ok_or_else(|| format!("{text:?} is not a place: write VOLUME:OFFSET, such as w:8K"))?;
        let offset = size(offset).map_err(|why| format!("in {text:?}: {why}"))?;
        Ok(Place { volume: volume.to_owned(), offset })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.volume, self.offset)
    }
}

/// An operation of an atomic vector, such as `clone:v:0+4K=w:8K`.
pub fn parse_op(text: &str) -> Result<RangeOp, String> {
    let shape = || {
        format!(
            "{text:?} is not an operation: write clone:SOURCE=PLACE, move:SOURCE=PLACE, \
             trim:RANGE or write:FILE=PLACE, such as clone:v:0+4K=w:8K"
        )
    };
    let (verb, rest) = text.split_once(':').ok_or_else(shape)?;
    let both = || -> Result<(VolumeRange, Place), String> {
        let (from, to) = rest.split_once('=').ok_or_else(shape)?;
        Ok((from.parse()?, to.parse()?))
    };
    match verb {
        "clone" => both().map(|(from, to)| RangeOp::Clone { from, to }),
        "move" => both().map(|(from, to)| RangeOp::Move { from, to }),
        "write" => {
            // Splits at the last `=`: a file's name may contain one.
            let (file, to) = rest.rsplit_once('=').ok_or_else(shape)?;
            Ok(RangeOp::Write { from: Payload::File(file.into()), to: to.parse()? })
        }
        "trim" => Ok(RangeOp::Trim(rest.parse()?)),
        _ => Err(shape()),
    }
}

/// An address to listen on for NBD clients, written `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// A socket file.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl FromStr for NbdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(NbdAddress::Unix(path.into())),
            Some(("tcp", address)) => {
                let found = address.to_socket_addrs().map(|mut found| found.next());
                match found {
                    Ok(Some(address)) => Ok(NbdAddress::Tcp(address)),
                    Ok(None) => Err(format!("{text:?}: the host has no address")),
                    Err(error) => Err(format!(
                        "{text:?} is no TCP address ({error}): write tcp:HOST:PORT, such as \
                         tcp:127.0.0.1:10809"
                    )),
                }
            }
            _ => Err(format!(
                "{text:?} is no address: write unix:PATH or tcp:HOST:PORT, such as unix:s.sock"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read() {
        let range = |text: &str| text.parse::<VolumeRange>().unwrap();
        assert_eq!(
            parse_op("clone:v@monday:0+4K=w:8K").unwrap(),
            RangeOp::Clone {
                from: range("v@monday:0+4K"),
                to: Place { volume: "w".into(), offset: 8192 }
            }
        );
        assert_eq!(parse_op("trim:v:0+1M").unwrap(), RangeOp::Trim(range("v:0+1M")));
        let write = parse_op("write:a=b:c.bin=v:8K").unwrap();
        let to = Place { volume: "v".into(), offset: 8192 };
        assert_eq!(write, RangeOp::Write { from: Payload::File("a=b:c.bin".into()), to });
        for odd in [
            "clone:v:0+4K",
            "write:a.bin",
            "write:a.bin=v",
            "swap:v:0+4K=w:0",
            "trim",
            "move:v:0=w:0",
        ] {
            let error = parse_op(odd).unwrap_err();
            assert!(error.contains("is not a"), "{odd}: {error}");
        }
    }

    #[test]
    fn parts_are_percentages() {
        assert_eq!(part("50%"), Ok(0.5));
        assert_eq!(part("0.25"), Ok(0.25));
        for odd in ["", "50", "-1%", "101%", "NaN", "x%"] {
            assert!(part(odd).unwrap_err().contains(&format!("{odd:?}")));
        }
    }

    #[test]
    fn addresses_name_their_kind() {
        assert_eq!("unix:a:b".parse(), Ok(NbdAddress::Unix("a:b".into())));
        let tcp: NbdAddress = "tcp:127.0.0.1:10809".parse().unwrap();
        assert_eq!(tcp, NbdAddress::Tcp(([127, 0, 0, 1], 10809).into()));
        for odd in ["", "unix:", "s.sock", "tcp:1.2.3.4", "udp:1.2.3.4:5"] {
            assert!(odd.parse::<NbdAddress>().unwrap_err().contains(odd));
        }
    }

    #[test]
    fn snapshots_need_their_volume() {
        let name: SnapshotName = "v@monday".parse().unwrap();
        assert_eq!((name.volume.as_str(), name.name.as_str()), ("v", "monday"));
        assert!("v".parse::<SnapshotName>().unwrap_err().contains("VOLUME@NAME"));
    }
}
