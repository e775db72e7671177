//! The root: the place of the newest checkpoint.

use mjolnir_units::Pba;

use crate::format::{Decoder, Encoder, Malformed};

const MAGIC: &[u8; 8] = b"MJROOT\0\0";

/// The version of a store's format. Version 2: leaves of the map may share words on media. Version
/// 3: the root holds the durable sequence number and the opening that wrote it, and sizes are in
/// bytes. Version 4: callers name their transactions. Version 5: cuts, and bad segments. All older
/// versions are read.
const VERSION: u32 = 5;

const OLDEST: u32 = 1;

/// The first version whose roots have [`Root::durable`] and [`Root::opening`].
const WITH_DURABLE: u32 = 3;

/// The most chunks of a manifest: as many as fit in a device's root.
pub const MANIFEST_CHUNKS_MAX: usize = 240;

/// The store's root, as the device keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Identity of the container; a root of another container is refused.
    pub uuid: [u8; 16],
    /// Blocks in each segment.
    pub zone_blocks: u64,
    /// Counts checkpoints.
    pub checkpoint: u64,
    /// The recovery epoch: records of another epoch are not replayed.
    pub epoch: u64,
    /// The last log sequence number that the checkpoint contains.
    pub sequence: u64,
    /// The highest segment incarnation given out before the manifest was written.
    pub incarnation: u64,
    /// Bytes of the manifest.
    pub manifest_bytes: u64,
    /// Where the manifest lies: first block and blocks of each chunk.
    pub manifest: Vec<(Pba, u32)>,
    /// Every record up to this one was durable when the root was written: at least
    /// [`Root::sequence`].
    pub durable: u64,
    /// A random number of the opening of the store that wrote the root. An older copy of the store
    /// has other openings of the same epochs: a warm log counts only for a root of the same
    /// opening.
    pub opening: u64,
}

impl Root {
    /// Encodes the root.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.manifest.len() <= MANIFEST_CHUNKS_MAX);
        let mut out = Encoder::default();
        out.bytes(MAGIC);
        out.u32(VERSION);
        out.bytes(&self.uuid);
        out.u64(self.zone_blocks);
        out.u64(self.checkpoint);
        out.u64(self.epoch);
        out.u64(self.sequence);
        out.u64(self.incarnation);
        out.u64(self.manifest_bytes);
        out.u32(self.manifest.len() as u32);
        for (pba, blocks) in &self.manifest {
            out.u64(pba.0);
            out.u32(*blocks);
        }
        out.u64(self.durable);
        out.u64(self.opening);
        out.seal()
    }

    /// Decodes a root.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < 12 || &bytes[..8] != MAGIC {
            return Err(Malformed("it does not start as a root of a Mjolnir store".into()));
        }
        let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Malformed(format!(
                "its format is version {version}; this program reads versions {OLDEST} to {VERSION}"
            )));
        }
        let mut input = Decoder::unseal(bytes)?;
        input.take(12)?;
        let mut root = Root {
            uuid: input.uuid()?,
            zone_blocks: input.u64()?,
            checkpoint: input.u64()?,
            epoch: input.u64()?,
            sequence: input.u64()?,
            incarnation: input.u64()?,
            manifest_bytes: input.u64()?,
            manifest: Vec::new(),
            durable: 0,
            opening: 0,
        };
        for _ in 0..input.count(12)? {
            root.manifest.push((Pba(input.u64()?), input.u32()?));
        }
        if version >= WITH_DURABLE {
            root.durable = input.u64()?;
            // The first roots of version 3 ended here.
            root.opening = if input.0.is_empty() { 0 } else { input.u64()? };
        }
        root.durable = root.durable.max(root.sequence);
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Root {
        Root {
            uuid: [7; 16],
            zone_blocks: 64,
            checkpoint: 3,
            epoch: 2,
            sequence: 99,
            incarnation: 12,
            manifest_bytes: 5000,
            manifest: vec![(Pba(70), 1), (Pba(90), 1)],
            durable: 105,
            opening: 0x0123_4567_89ab_cdef,
        }
    }

    #[test]
    fn a_root_without_an_opening_as_the_first_of_version_3_is_read() {
        let mut bytes = sample().encode();
        bytes.truncate(bytes.len() - 8 - 4);
        bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
        let first = Root { opening: 0, ..sample() };
        assert_eq!(Root::decode(&Encoder(bytes).seal()), Ok(first));
    }

    #[test]
    fn a_root_survives_the_round_trip() {
        assert_eq!(Root::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn a_root_of_version_2_promises_what_it_contains() {
        let mut bytes = sample().encode();
        bytes.truncate(bytes.len() - 20);
        bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
        let old = Root::decode(&super::super::Encoder(bytes).seal()).unwrap();
        assert_eq!(old, Root { durable: 99, opening: 0, ..sample() });
    }

    #[test]
    fn a_root_of_version_1_is_read_and_one_of_a_newer_version_is_refused() {
        let of = |version: u32| {
            let mut bytes = sample().encode();
            bytes.truncate(bytes.len() - 20);
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            Root::decode(&Encoder(bytes).seal())
        };
        assert_eq!(of(1), Ok(Root { durable: 99, opening: 0, ..sample() }));
        let refused = of(VERSION + 1).unwrap_err().0;
        assert!(refused.contains("version 6; this program reads versions 1 to 5"), "{refused}");
    }

    #[test]
    fn the_longest_root_fits_the_device() {
        let longest = Root { manifest: vec![(Pba(1), 1); MANIFEST_CHUNKS_MAX], ..sample() };
        assert!(longest.encode().len() <= 4000);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = sample().encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Root::decode(&bad).is_err(), "bit {bit}");
        }
    }
}
