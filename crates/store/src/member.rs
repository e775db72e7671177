//! A store as a member of a larger one: a participant in transactions over several stores.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Error, ErrorKind, Op, Volumes};

/// The most transactions prepared at once in a store.
pub const PREPARED_MAX: usize = 64;

/// The most transactions that a store remembers as committed until told to forget them.
pub const COMMITTED_MAX: usize = 1024;

/// A store that can prepare changes, and commit or abort them later: the participant of a two-phase commit.
///
/// A coordinator chooses an id, prepares its changes on every member, writes down its decision, and commits on
/// every member. After a crash it asks each member for the [`state`](Member::transaction) of the id. Members
/// presume abort: an id that a member does not know was never prepared there, or was aborted.
///
/// # Contract
///
/// * Each operation is durable when it returns, except `forget`, which is durable with the next
///   flush.
/// * A prepared transaction is not in force. It survives any crash. Until it is committed or
///   aborted, it *holds* its targets: none of them can be deleted, resized, restored or renamed,
///   and the names that it will give are taken. Clients continue to read and write the targets; a
///   commit applies to their content at that time.
/// * So a commit of a prepared transaction cannot be refused. It fails only if the device fails,
///   and can be repeated then.
/// * A commit happens wholly or not at all, its changes in their order.
/// * Ids are never reused by the caller while the store remembers them.
#[allow(async_fn_in_trait)] // One thread by design.
pub trait Member: Volumes {
    /// Prepares changes under an id that the caller chose.
    ///
    /// # Errors
    ///
    /// [`Exists`](ErrorKind::Exists) if the id is prepared or remembered as committed;
    /// [`Busy`](ErrorKind::Busy) if another transaction holds a target or a name, or if
    /// [`PREPARED_MAX`] are prepared or [`COMMITTED_MAX`] remembered already;
    /// [`Unsupported`](ErrorKind::Unsupported) for a shrink to a size that is no multiple of the
    /// block size; else the error that the change by itself would return.
    async fn prepare(&self, id: TransactionId, changes: Vec<Change>) -> Result<(), Error>;

    /// Applies a prepared transaction, and remembers it as committed. Does nothing if it is
    /// committed already.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if the store does not know the id.
    async fn commit(&self, id: TransactionId) -> Result<(), Error>;

    /// Drops a prepared transaction. An unknown transaction counts as aborted.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it was committed.
    async fn abort(&self, id: TransactionId) -> Result<(), Error>;

    /// Forgets a committed transaction. Call it when every member has committed, so that no query
    /// for it can follow.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) if it is prepared and neither committed nor aborted.
    async fn forget(&self, id: TransactionId) -> Result<(), Error>;

    /// The state of a transaction. A power cut may undo the answer while a `prepare`, `commit` or `abort` of the
    /// transaction is under way: repeat that call, or flush, before you rely on the answer.
    fn transaction(&self, id: TransactionId) -> TransactionState;

    /// All transactions that the store knows: the prepared ones in the order of their preparation, then the committed
    /// ones.
    fn transactions(&self) -> Vec<TransactionInfo>;
}

/// A transaction's id, chosen by its coordinator: a random number will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u128);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TransactionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.len() <= 32 && text.chars().all(|c| c.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(TransactionId).ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                format!("{text:?} is no transaction id; one has 1 to 32 hexadecimal digits"),
            )
        })
    }
}

impl Serialize for TransactionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransactionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A change of a transaction. Names and ids are those at the time of the prepare: no change can
/// name a target that another change of the same transaction makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A change of bytes, as in an atomic vector.
    Bytes(Op),
    /// See [`Volumes::create_volume`].
    CreateVolume {
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// See [`Volumes::delete_volume`]. Earlier changes must delete its snapshots.
    DeleteVolume {
        /// Its name.
        name: String,
    },
    /// See [`Volumes::resize_volume`].
    ResizeVolume {
        /// Its name.
        name: String,
        /// Its new size.
        bytes: u64,
        /// Whether the new size may be smaller.
        shrink: bool,
    },
    /// See [`Volumes::rename_volume`].
    RenameVolume {
        /// Its name.
        name: String,
        /// Its new name.
        new: String,
    },
    /// See [`Volumes::clone_volume`].
    CloneVolume {
        /// A volume or snapshot.
        source: String,
        /// The name of the copy.
        new: String,
    },
    /// See [`Volumes::create_snapshot`].
    CreateSnapshot {
        /// Of this volume.
        volume: String,
        /// Its name there.
        name: String,
    },
    /// See [`Volumes::delete_snapshot`].
    DeleteSnapshot {
        /// Of this volume.
        volume: String,
        /// Its name there.
        name: String,
    },
    /// See [`Volumes::restore_snapshot`].
    RestoreSnapshot {
        /// The volume.
        volume: String,
        /// The snapshot's name there.
        name: String,
    },
}

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransactionState {
    /// It waits for a commit or an abort.
    Prepared,
    /// It was committed and not forgotten.
    Committed,
    /// It was never prepared, or it was aborted or forgotten.
    Unknown,
}

/// A transaction at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionInfo {
    /// Its id.
    pub id: TransactionId,
    /// Prepared or committed.
    pub state: TransactionState,
    /// Its changes in words, if it is prepared.
    pub changes: Vec<String>,
    /// Bytes of data staged for it.
    pub staged_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_printed() {
        for id in [TransactionId(0), TransactionId(0xabc), TransactionId(u128::MAX)] {
            assert_eq!(id.to_string().parse::<TransactionId>().unwrap(), id);
        }
        for text in ["", "+1", "xyz", "0x12", &"1".repeat(33)] {
            let error = text.parse::<TransactionId>().unwrap_err();
            assert!(error.message.contains("is no transaction id"), "{error}");
        }
    }
}
