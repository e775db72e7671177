//! A prepared transaction, as encoded in records and manifests.

use mjolnir_units::TreeId;

use crate::format::record::{Record, Remap};
use crate::format::{Decoder, Encoder, Malformed};

/// The most changes of a transaction.
pub const CHANGES_MAX: usize = u8::MAX as usize;

/// A transaction that is neither committed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The id, chosen by the caller.
    pub id: u128,
    /// The staged tree with the transaction's payload; it has at least one block.
    pub staging: TreeId,
    /// The changes that a commit applies, in order; every one [is a change](Record::is_change).
    pub changes: Vec<Record>,
}

impl Prepared {
    /// A prepared vector of version 3 and older; its staged tree served as its name.
    pub fn of_vector(staging: TreeId, remaps: Vec<Remap>) -> Self {
        let changes = remaps.into_iter().map(Record::Remap).collect();
        Prepared { id: staging.0.into(), staging, changes }
    }

    pub(super) fn encode(&self, out: &mut Encoder) {
        out.u128(self.id);
        out.u32(self.staging.0);
        out.u8(self.changes.len() as u8);
        self.changes.iter().for_each(|change| change.encode(out));
    }

    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (id, staging) = (input.u128()?, TreeId(input.u32()?));
        let mut changes = Vec::new();
        for _ in 0..input.u8()? {
            // Kinds are checked before their fields are read, so nothing nests.
            let kind = input.0.first().copied();
            let change = match kind {
                Some(5 | 18) => return Err(no_part(kind)),
                _ => Record::decode(input)?,
            };
            if !change.is_change() {
                return Err(no_part(kind));
            }
            changes.push(change);
        }
        Ok(Prepared { id, staging, changes })
    }
}

fn no_part(kind: Option<u8>) -> Malformed {
    Malformed(format!("a record of kind {} is no part of a transaction", kind.unwrap_or(0)))
}
