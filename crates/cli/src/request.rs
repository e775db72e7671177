//! What can be asked of a store, and what it answers: one line of JSON each on the control socket.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use mjolnir_host::Recording;
use mjolnir_store::DiffPage;
use mjolnir_store::report::{BadTried, CheckReport, ScrubReport, Stats};
use mjolnir_store::{Error, TransactionId, TransactionInfo, VolumeRange};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::arguments::Place;
use crate::payload::Payload;
use crate::recovered::Waiting;

/// A request to a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Make a volume of `bytes` bytes.
    CreateVolume { name: String, bytes: u64 },
    /// Delete a volume, and its snapshots if `snapshots`; one that is in use only if `force`.
    DeleteVolume {
        name: String,
        snapshots: bool,
        #[serde(default)]
        force: bool,
    },
    /// Give a volume another name.
    RenameVolume { name: String, new: String },
    /// Give a volume another size, in bytes; a smaller one only if `shrink`, and while it is in use only if
    /// `force`.
    ResizeVolume {
        name: String,
        bytes: u64,
        #[serde(default)]
        shrink: bool,
        #[serde(default)]
        force: bool,
    },
    /// All volumes, with their mapped bytes if `mapped`.
    ListVolumes { mapped: bool },
    /// Take a snapshot.
    CreateSnapshot { volume: String, name: String },
    /// Take snapshots of several volumes at one instant, each given as the volume and the snapshot's name.
    CreateSnapshots { snapshots: Vec<(String, String)> },
    /// Delete a snapshot; one that is in use only if `force`.
    DeleteSnapshot {
        volume: String,
        name: String,
        #[serde(default)]
        force: bool,
    },
    /// Give a volume the content of its snapshot; one that is in use only if `force`.
    RestoreSnapshot {
        volume: String,
        name: String,
        #[serde(default)]
        force: bool,
    },
    /// Snapshots of one volume or of all, with their mapped bytes if `mapped`.
    ListSnapshots { volume: Option<String>, mapped: bool },
    /// What differs between two targets, from byte `from` on; answered in pages.
    Diff { old: String, new: String, from: u64 },
    /// Make a writable copy of a volume or snapshot.
    Clone { source: String, new: String },
    /// Apply operations on ranges, in order, wholly or not at all, durably.
    Ranges { ops: Vec<RangeOp> },
    /// All transactions that the store knows.
    ListTransactions {},
    /// Put a prepared transaction in force.
    Commit { id: TransactionId },
    /// Drop a prepared transaction.
    Abort { id: TransactionId },
    /// Forget that a transaction was committed.
    Forget { id: TransactionId },
    /// Reclaim all that can be won.
    Collect {},
    /// The store at a glance.
    Stats {},
    /// Read and verify everything; then try the segments that are out of use if `retry_bad`.
    Scrub {
        #[serde(default)]
        retry_bad: bool,
    },
    /// Check the structure.
    Check {},
    /// Enlarge the store to `bytes` bytes in all.
    Grow { bytes: u64 },
    /// Write a checkpoint.
    Checkpoint {},
    /// Record what clients of the server do; in place of an older recording if `force`.
    StartRecording { file: PathBuf, force: bool },
    /// End the recording.
    StopRecording {},
}

impl Request {
    /// Whether it writes to the store.
    pub fn changes(&self) -> bool {
        use Request::*;
        !matches!(
            self,
            ListVolumes { .. }
                | ListSnapshots { .. }
                | ListTransactions {}
                | Diff { .. }
                | Stats {}
                | Scrub { retry_bad: false }
                | Check {}
                | StartRecording { .. }
                | StopRecording {}
        )
    }

    /// Whether it is given up when whoever asked is gone: what it won by then is won, and the rest is of no
    /// use to anybody.
    pub fn ends_with_caller(&self) -> bool {
        matches!(self, Request::Collect {} | Request::Scrub { .. } | Request::Check {})
    }

    /// Whether the answer says what is odd about what holds the store.
    pub fn warns(&self) -> bool {
        matches!(self, Request::Stats {} | Request::Scrub { .. } | Request::Check {})
    }
}

/// An operation on ranges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RangeOp {
    /// Share blocks.
    Clone {
        /// Whose.
        #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
        from: VolumeRange,
        /// With what.
        #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
        to: Place,
    },
    /// Move blocks.
    Move {
        /// Which.
        #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
        from: VolumeRange,
        /// Where to.
        #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
        to: Place,
    },
    /// Write bytes.
    Write {
        /// Which. On the control socket it is announced by its length, and all follow the request
        /// in order, once the server has said [`Message::Send`].
        from: Payload,
        /// Where to.
        #[serde(serialize_with = "write_text", deserialize_with = "read_text")]
        to: Place,
    },
    /// Make a range a hole.
    Trim(#[serde(serialize_with = "write_text", deserialize_with = "read_text")] VolumeRange),
}

fn write_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn read_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// A volume or snapshot in a listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `volume`, or `volume@snapshot`.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes that are mapped, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mapped_bytes: Option<u64>,
}

/// What a store answers. `--json` prints what is inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// It is done.
    Done {},
    /// It is done, and this is what it came to.
    Target(Target),
    /// What there is, by name.
    Targets(Vec<Target>),
    /// A part of a difference.
    Diff(DiffPage),
    /// Transactions, the prepared ones first.
    Transactions(Vec<TransactionInfo>),
    /// What reclaim won.
    Collected {
        /// Segments given up.
        segments: u64,
        /// Their bytes.
        bytes: u64,
        /// Bytes that are free now.
        free_bytes: u64,
        /// Of those, what is kept for reclaim and checkpoints; none if the server does not say.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reserved_bytes: Option<u64>,
        /// Bytes that were moved for it; none if the server does not say.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        moved_bytes: Option<u64>,
        /// Bytes that what the store lies on got back; none if the server does not say.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        released_bytes: Option<u64>,
        /// It was interrupted, and this is what was won by then.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        interrupted: bool,
    },
    /// The store at a glance.
    Stats(Box<StatsOf>),
    /// What a scrub found.
    Scrub(ScrubOf),
    /// What a check found.
    Check(Box<CheckOf>),
    /// What a recording has come to.
    Recording(Recording),
    /// The store has grown.
    Grown {
        /// Its bytes now, without the frame of the container.
        bytes: u64,
        /// Of those, what was added, by a growth before this one too if that was cut short; none if the
        /// server does not say.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        added_bytes: Option<u64>,
    },
}

/// The store at a glance, and whether it is being served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatsOf {
    /// Whether a server answered; else counts are of one command alone.
    pub served: bool,
    /// The recording of the server's clients that is being made, or else the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recording: Option<Recording>,
    /// What is odd about what holds the store, and how to mend it; the store works.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// What waits in the warm log of a server that died, if anything does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting: Option<Waiting>,
    /// Where the server keeps what it acknowledged and has not written yet, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub warm_log: Option<PathBuf>,
    /// All there is to tell.
    #[serde(flatten)]
    pub stats: Stats,
}

/// What a scrub found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubOf {
    /// What is odd about what holds the store, and how to mend it; the store works.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// What waits in the warm log of a server that died, if anything does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting: Option<Waiting>,
    /// What came of trying the segments that were out of use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bad_tried: Option<BadTried>,
    /// What was found.
    #[serde(flatten)]
    pub report: ScrubReport,
}

/// What a check found, and what it could not look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckOf {
    /// Whether the store was being served meanwhile.
    pub online: bool,
    /// What was left out, in words.
    pub left_out: Vec<String>,
    /// How many of the problems, the first ones, are of the container alone: the store works, and
    /// they say how to mend them.
    #[serde(default)]
    pub warnings: u64,
    /// What waits in the warm log of a server that died, if anything does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting: Option<Waiting>,
    /// What was found.
    #[serde(flatten)]
    pub report: CheckReport,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Programs decide by this: `invalid`, `not-found`, `exists`, `no-space` and so on.
    pub kind: String,
    /// People read this.
    pub message: String,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        use mjolnir_store::ErrorKind::*;
        let kind = match error.kind {
            Invalid => "invalid",
            NotFound => "not-found",
            Exists => "exists",
            ReadOnly => "read-only",
            NoSpace => "no-space",
            Busy => "busy",
            Damaged => "damaged",
            Io => "io",
            Format => "format",
            Unsupported => "unsupported",
            Closed => "closed",
        };
        Refusal { kind: kind.to_owned(), message: error.message }
    }
}

/// A line from the server: at most one that asks for what a request announced, any number of
/// progress lines, then one of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// The request is taken; send what it announced.
    Send {},
    /// The part of the work that is done, 0 to 1.
    Progress(f64),
    /// It was done.
    Answer(Response),
    /// It was not done.
    Refused(Refusal),
}

impl From<Result<Response, Refusal>> for Message {
    fn from(outcome: Result<Response, Refusal>) -> Self {
        match outcome {
            Ok(response) => Message::Answer(response),
            Err(refusal) => Message::Refused(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_readable_in_files() {
        let text = r#"[{"clone": {"from": "v:0+4K", "to": "w:8K"}}, {"trim": "v:0+1M"},
            {"write": {"from": "a.bin", "to": "v:8K"}}, {"write": {"from": 4096, "to": "v:8K"}}]"#;
        let ops: Vec<RangeOp> = serde_json::from_str(text).unwrap();
        assert_eq!(ops[1], RangeOp::Trim("v:0+1M".parse().unwrap()));
        let to: Place = "v:8K".parse().unwrap();
        let write = |from| RangeOp::Write { from, to: to.clone() };
        assert_eq!(ops[2], write(Payload::File("a.bin".into())));
        assert_eq!(ops[3], write(Payload::Announced(4096)));
        let odd = r#"[{"trim": "v:0"}]"#;
        let error = serde_json::from_str::<Vec<RangeOp>>(odd).unwrap_err().to_string();
        assert!(error.contains("VOLUME:OFFSET+LENGTH"), "{error}");
    }

    #[test]
    fn what_is_sent_is_what_arrives() {
        let requests = [
            Request::Stats {},
            Request::ListSnapshots { volume: None, mapped: true },
            Request::Ranges {
                ops: vec![RangeOp::Move {
                    from: "v:0+4K".parse().unwrap(),
                    to: "w:4K".parse().unwrap(),
                }],
            },
        ];
        for request in requests {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        let warnings = vec!["a label is damaged".to_owned()];
        let stats = StatsOf {
            served: true,
            recording: None,
            warnings,
            waiting: None,
            warm_log: None,
            stats: Stats::default(),
        };
        let message = Message::Answer(Response::Stats(Box::new(stats)));
        let line = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message);
    }
}
