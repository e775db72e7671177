//! What the tests of this crate share.
#![allow(dead_code)] // Each test file uses some of it.

pub mod drive;

use std::time::Duration;

use mjolnir_units::Instant;
use mjolnir_workload::trace::{
    Format, ReadOptions, ReadReport, TraceError, TraceReader, TraceWriter, Volumes,
};
use mjolnir_workload::{Op, Request, VolumeId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Reads a whole trace.
pub fn read(
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(Vec<Request>, Vec<String>, ReadReport), TraceError> {
    let mut reader = TraceReader::open(bytes, "t", options)?;
    let mut requests = Vec::new();
    while let Some(request) = reader.next_request()? {
        requests.push(request);
    }
    assert!(reader.next_request().unwrap().is_none(), "the end stays the end");
    let names = reader.volumes().names().map(|(_, name)| name.to_owned()).collect();
    Ok((requests, names, reader.report().clone()))
}

/// Writes a whole trace.
pub fn write(
    requests: &[Request],
    volumes: &Volumes,
    format: Format,
    start: Option<u64>,
) -> (Vec<u8>, mjolnir_workload::trace::Losses) {
    let mut writer = TraceWriter::new(Vec::new(), format, start).unwrap();
    for request in requests {
        writer.write(request, volumes).unwrap();
    }
    writer.finish().unwrap()
}

pub fn request(ns: u64, volume: u32, op: Op, offset: u64, length: u64) -> Request {
    Request {
        time: Instant(ns),
        volume: VolumeId(volume),
        op,
        offset,
        length,
        stream: None,
        latency: None,
    }
}

pub fn volumes(names: &[&str]) -> Volumes {
    let mut volumes = Volumes::new();
    for name in names {
        volumes.intern(name.as_bytes()).unwrap();
    }
    volumes
}

/// Seeded draws.
pub struct Chance(Pcg64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(Pcg64::seed_from_u64(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A request that the format can hold without loss, `previous` ns after the start.
    pub fn request(&mut self, format: Format, volumes: u64, time: &mut u64) -> Request {
        let can = format.abilities();
        let unit = can.time_unit_ns.max(1);
        if can.time_unit_ns > 0 {
            *time += self.number() % 1_000_000_000_000 / unit * unit;
        }
        let ops = [
            (Op::Read, true),
            (Op::Write, true),
            (Op::Trim, can.trims),
            (Op::Flush, can.flushes),
            (Op::WriteZeroes, can.zeroes),
        ];
        let op = loop {
            let (op, held) = ops[self.below(5) as usize];
            if held {
                break op;
            }
        };
        let length =
            (self.number() % (1 << 30)).next_multiple_of(can.length_unit).max(can.length_unit);
        let offset = self.number() % (1 << 59) / can.address_unit * can.address_unit;
        let latency = can.latency_unit_ns > 0 && (format == Format::Msr || self.below(2) == 0);
        let latency = latency.then(|| {
            Duration::from_nanos(
                self.number() % (1 << 50) / can.latency_unit_ns * can.latency_unit_ns,
            )
        });
        Request {
            time: Instant(*time),
            volume: VolumeId(self.below(volumes) as u32),
            op,
            offset: if op == Op::Flush { 0 } else { offset },
            length: if op == Op::Flush { 0 } else { length },
            stream: (can.streams && self.below(3) == 0).then(|| self.below(256) as u8),
            latency,
        }
    }

    /// Of any size up to 2^60, small ones as likely as large ones.
    fn number(&mut self) -> u64 {
        let bits = self.below(61);
        self.bits() & ((1 << bits) - 1)
    }
}
