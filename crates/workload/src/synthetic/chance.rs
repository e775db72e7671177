//! Draws from a seeded generator.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::mix::mix;

/// A seeded source of choices. Its algorithm is part of what a seed means: changing it changes
/// every workload.
#[derive(Clone, Debug)]
pub(super) struct Chance(Pcg64);

impl Chance {
    /// The source for one purpose of one job: sources of different purposes are independent, so
    /// that what one part draws does not shift what another does.
    pub(super) fn new(seed: u64, job: u64, purpose: u64) -> Self {
        let low = mix(seed ^ mix(job ^ mix(purpose)));
        let high = mix(low);
        let stream = mix(high);
        Chance(Pcg64::new(
            u128::from(high) << 64 | u128::from(low),
            u128::from(stream) << 64 | u128::from(mix(stream)),
        ))
    }

    /// 64 fresh bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is above 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 (included) to 1 (not included).
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}
