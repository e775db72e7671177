//! Which of the drives of a run.

use std::fmt;

/// What the first drive's superblocks say whose they are; also those of drives that are alone.
const FIRST: [u8; 16] = *b"mjolnir in study";

/// Which of the drives of a run, from 0: what tells it from the others in results and traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub u32);

impl DriveId {
    /// The seed of all that is drawn for this drive in a run of that seed. The first drive has the run's, so
    /// that it does what it does alone.
    pub fn seed(self, of_run: u64) -> u64 {
        of_run ^ u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// What its device is told from others by.
    pub(crate) fn uuid(self) -> [u8; 16] {
        let mut uuid = FIRST;
        for (byte, own) in uuid[12..].iter_mut().zip(self.0.to_be_bytes()) {
            *byte ^= own;
        }
        uuid
    }

    /// What its device is called.
    pub(crate) fn name(self, hardware: &str) -> String {
        match self.0 {
            0 => format!("the simulated drive {hardware}"),
            number => format!("the simulated drive {hardware}, number {number} of its run"),
        }
    }
}

impl fmt::Display for DriveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {}", self.0)
    }
}
