//! All structures that the engine writes to media. `docs/internals/format.md` is the reference;
//! this module follows it. Decoders accept arbitrary bytes: they never panic, and never allocate
//! more than their input justifies.

mod codec;
#[cfg(test)]
mod corpus;
pub mod group;
pub mod manifest;
pub mod place;
pub mod record;
pub mod root;
pub mod segment;
pub mod transaction;

pub use codec::{Decoder, Encoder, Malformed, nearly};

/// The format version of all structures except roots and manifests. The engine writes and reads
/// only this version.
pub const VERSION: u32 = 1;

/// Binds a block's checksum to the place and the incarnation for which it was written. A block read
/// from elsewhere, or from an earlier incarnation of its segment, does not verify.
pub fn bind(pba: mjolnir_units::Pba, incarnation: u64) -> u32 {
    // SplitMix64's finalizer: every input bit reaches every output bit.
    let mut x = pba.0 ^ incarnation.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as u32
}
