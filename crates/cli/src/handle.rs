//! Requests, carried out. The only way to a store's commands, at rest or served.

use std::rc::Rc;
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_host::{HostError, HostErrorKind, HostRuntime, Recorder, WarmReport, Warnings};
use mjolnir_store::report::{Collected, Growth, RecoveryReport};
use mjolnir_store::{
    Durability, Error, ErrorKind, Maintenance, Member, Op, SECTOR_BYTES, Store, TargetInfo,
    TransactionId, VolumeRange,
};
use mjolnir_units::ByteSize;

use crate::arguments::Place;
use crate::output::count;
use crate::payload::Payload;
use crate::recovered::Waiting;
use crate::request::{CheckOf, RangeOp, Request, Response, ScrubOf, StatsOf, Target};
use crate::users::{Reserved, Users};

/// Extents in one page of a difference.
const DIFF_EXTENTS: usize = 4096;

/// How long the end of a client may take to be heard of.
const PARTING: Duration = Duration::from_secs(1);

/// How the store was opened.
#[derive(Clone, Default)]
pub struct Circumstances {
    /// It is being served.
    pub served: Option<Serving>,
    /// What is odd about its container.
    pub warnings: Warnings,
    /// What its last server left, and where this one's acknowledged changes lie.
    pub warm: WarmReport,
}

impl Circumstances {
    /// What is odd about the store's container, in words.
    fn warnings(&self) -> Vec<String> {
        self.warnings.list().iter().map(ToString::to_string).collect()
    }

    /// What waits in a warm log. None in one that is open for writing.
    fn waiting(&self, recovery: &RecoveryReport) -> Option<Waiting> {
        let writes = self.served.as_ref().is_some_and(|serving| !serving.read_only);
        if writes { None } else { Waiting::of(recovery, &self.warm) }
    }
}

/// What there is of clients.
#[derive(Clone)]
pub struct Serving {
    /// What can record them.
    pub recorder: Rc<Recorder>,
    /// What they use.
    pub users: Rc<Users>,
    /// The store takes no changes, whoever uses it.
    pub read_only: bool,
    /// The server's.
    pub runtime: HostRuntime,
}

/// Carries out a request. `progress` hears the part done of long ones, 0 to 1.
pub async fn handle<S: Maintenance + Member>(
    store: &S,
    circumstances: &Circumstances,
    request: Request,
    progress: &dyn Fn(f64),
) -> Result<Response, Error> {
    let done = |()| Response::Done {};
    let target = |info: TargetInfo| {
        Response::Target(Target { name: info.name, bytes: info.size, mapped_bytes: None })
    };
    let _reserved = reserve(store, circumstances, &request).await?;
    match request {
        Request::CreateVolume { name, bytes } => {
            store.create_volume(&name, bytes).await.map(target)
        }
        Request::DeleteVolume { name, snapshots, .. } => {
            store.delete_volume(&name, snapshots).await.map(done)
        }
        Request::RenameVolume { name, new } => store.rename_volume(&name, &new).await.map(target),
        Request::ResizeVolume { name, bytes, shrink, .. } => {
            if !shrink {
                refuse_to_shrink(store, &name, bytes).await?;
            }
            store.resize_volume(&name, bytes, shrink).await.map(target)
        }
        Request::ListVolumes { mapped } => {
            list(store, mapped, |target| !target.name.contains('@')).await
        }
        Request::CreateSnapshot { volume, name } => {
            store.create_snapshot(&volume, &name).await.map(target)
        }
        Request::CreateSnapshots { snapshots } => {
            let taken = store.create_snapshots(&snapshots).await?;
            let target =
                |info: TargetInfo| Target { name: info.name, bytes: info.size, mapped_bytes: None };
            Ok(Response::Targets(taken.into_iter().map(target).collect()))
        }
        Request::DeleteSnapshot { volume, name, .. } => {
            store.delete_snapshot(&volume, &name).await.map(done)
        }
        Request::RestoreSnapshot { volume, name, .. } => {
            store.restore_snapshot(&volume, &name).await.map(target)
        }
        Request::ListSnapshots { volume, mapped } => {
            let of = match volume {
                Some(volume) => format!("{}@", named(store, &volume)?.name),
                None => String::new(),
            };
            list(store, mapped, |target| target.name.contains('@') && target.name.starts_with(&of))
                .await
        }
        Request::Diff { old, new, from } => {
            store.diff(&old, &new, from, DIFF_EXTENTS).await.map(Response::Diff)
        }
        Request::Clone { source, new } => store.clone_volume(&source, &new).await.map(target),
        Request::Ranges { ops } => {
            let ops = ops.iter().map(|op| resolve(store, op)).collect::<Result<_, _>>()?;
            store.atomic(ops, Durability::Durable).await.map(done)
        }
        Request::ListTransactions {} => Ok(Response::Transactions(store.transactions())),
        Request::Commit { id } => store.commit(id).await.map(done),
        Request::Abort { id } => {
            must_know(store, id)?;
            store.abort(id).await.map(done)
        }
        Request::Forget { id } => {
            must_know(store, id)?;
            store.forget(id).await?;
            store.flush().await.map(done)
        }
        Request::Collect {} => {
            let Collected { segments, moved_bytes, released_bytes, .. } = store.reclaim().await?;
            let stats = store.stats();
            Ok(Response::Collected {
                segments,
                bytes: segments * stats.segment_bytes,
                free_bytes: stats.space.free_bytes,
                reserved_bytes: Some(stats.space.reserved_bytes),
                moved_bytes: Some(moved_bytes),
                released_bytes: Some(released_bytes),
                interrupted: false,
            })
        }
        Request::Stats {} => {
            let served = circumstances.served.is_some();
            let serving = circumstances.served.as_ref();
            let recording = serving.and_then(|serving| serving.recorder.recording());
            let (warnings, stats) = (circumstances.warnings(), store.stats());
            let waiting = circumstances.waiting(&store.recovery());
            let warm_log = circumstances.warm.path.clone();
            let of = StatsOf { served, recording, warnings, waiting, warm_log, stats };
            Ok(Response::Stats(Box::new(of)))
        }
        Request::Scrub { retry_bad } => {
            let report = store.scrub(progress).await?;
            let bad_tried = if retry_bad { Some(store.retry_bad().await?) } else { None };
            let (warnings, waiting) =
                (circumstances.warnings(), circumstances.waiting(&store.recovery()));
            Ok(Response::Scrub(ScrubOf { warnings, waiting, bad_tried, report }))
        }
        Request::Check {} => check(store, circumstances, progress).await,
        Request::Grow { bytes } => {
            let Growth { bytes, added } = store.grow(bytes).await?;
            Ok(Response::Grown { bytes, added_bytes: Some(added) })
        }
        Request::Checkpoint {} => store.checkpoint().await.map(done),
        Request::StartRecording { file, force } => {
            let recorder = recorder(circumstances)?;
            recorder.start(&file, force).await.map_err(of_host)?;
            Ok(Response::Recording(recorder.recording().unwrap_or_default()))
        }
        Request::StopRecording {} => {
            recorder(circumstances)?.stop().await.map(Response::Recording).map_err(of_host)
        }
    }
}

fn recorder(circumstances: &Circumstances) -> Result<&Recorder, Error> {
    circumstances.served.as_ref().map(|serving| &*serving.recorder).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the store is not being served, so there are no clients to record",
        )
    })
}

fn of_host(error: HostError) -> Error {
    let kind = match error.kind {
        HostErrorKind::Invalid => ErrorKind::Invalid,
        HostErrorKind::Busy => ErrorKind::Busy,
        HostErrorKind::Exists => ErrorKind::Exists,
        HostErrorKind::Unwritable | HostErrorKind::Io => ErrorKind::Io,
    };
    Error::new(kind, error.context)
}

async fn list<S: Maintenance + Member>(
    store: &S,
    mapped: bool,
    wanted: impl Fn(&TargetInfo) -> bool,
) -> Result<Response, Error> {
    let mut targets = Vec::new();
    for info in store.targets().into_iter().filter(wanted) {
        let mapped_bytes = match mapped {
            true => match store.mapped_from(&info.name, 0).await {
                Ok(bytes) => Some(bytes),
                // Deleted since the list was made.
                Err(error) if error.kind == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            },
            false => None,
        };
        targets.push(Target { name: info.name, bytes: info.size, mapped_bytes });
    }
    Ok(Response::Targets(targets))
}

/// Refuses a smaller size, and says what would be lost. One that no volume can have is left to the
/// store.
async fn refuse_to_shrink<S: Maintenance + Member>(
    store: &S,
    name: &str,
    bytes: u64,
) -> Result<(), Error> {
    let size = named(store, name)?.size;
    if bytes >= size || bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) || name.contains('@') {
        return Ok(());
    }
    let lost = match store.mapped_from(name, bytes).await? {
        0 => "nothing is stored past that".to_owned(),
        lost => format!("{} stored past that would be lost", ByteSize(lost)),
    };
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{name} has {}, and {} is smaller: {lost}; `mjolnir volume resize --shrink` accepts it",
            ByteSize(size),
            ByteSize(bytes)
        ),
    ))
}

/// Refuses what clients would not expect of the targets that they use, unless it is forced. One that
/// has just ended is given the time that it takes to hear of it, and who comes next waits until the
/// request is done.
async fn reserve<S: Maintenance + Member>(
    store: &S,
    circumstances: &Circumstances,
    request: &Request,
) -> Result<Vec<Reserved>, Error> {
    let Some(serving) = circumstances.served.as_ref().filter(|serving| !serving.read_only) else {
        return Ok(Vec::new());
    };
    let begun = serving.runtime.now();
    loop {
        let affected: Vec<_> = store
            .targets()
            .into_iter()
            .filter_map(|target| Some((what_becomes_of(&target, request)?, target)))
            .collect();
        let used = affected.iter().find(|(_, target)| serving.users.of(target.id) > 0);
        let Some((what, target)) = used else {
            let reserve = |(_, target): &(_, TargetInfo)| serving.users.clone().reserve(target.id);
            return Ok(affected.iter().map(reserve).collect());
        };
        if serving.runtime.now().since(begun) >= PARTING {
            let users = count(serving.users.of(target.id) as u64, "client");
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} is in use by {users}, and {what}; disconnect them first, or add --force",
                    target.name
                ),
            ));
        }
        serving.runtime.sleep(PARTING / 50).await;
    }
}

/// What an unforced request would do to the clients of a volume or snapshot, if they are not to
/// expect it.
fn what_becomes_of(target: &TargetInfo, request: &Request) -> Option<&'static str> {
    let (target, size) = (target.name.as_str(), target.size);
    let past = "their requests past its new end would fail";
    let (fails, changes) = ("their requests would fail", "its content would change below them");
    let snapshot_of = |volume: &str| target.split_once('@').is_some_and(|(of, _)| of == volume);
    match request {
        Request::DeleteVolume { name, snapshots, force: false } => {
            (target == name || *snapshots && snapshot_of(name)).then_some(fails)
        }
        Request::ResizeVolume { name, bytes, shrink: true, force: false } => {
            (target == name && *bytes < size).then_some(past)
        }
        Request::DeleteSnapshot { volume, name, force: false } => {
            (target.split_once('@') == Some((volume.as_str(), name.as_str()))).then_some(fails)
        }
        Request::RestoreSnapshot { volume, force: false, .. } => {
            (target == volume).then_some(changes)
        }
        _ => None,
    }
}

async fn check<S: Maintenance + Member>(
    store: &S,
    circumstances: &Circumstances,
    progress: &dyn Fn(f64),
) -> Result<Response, Error> {
    let mut report = store.check(progress).await?;
    let odd = circumstances.warnings();
    let warnings = odd.len() as u64;
    report.problems.splice(0..0, odd);
    let mut left_out = vec!["the data itself (`mjolnir scrub` reads it)".to_owned()];
    let online = circumstances.served.is_some();
    if online {
        left_out.push(
            "opening the store as after a restart (run `mjolnir check` once it is not served)"
                .to_owned(),
        );
    }
    let waiting = circumstances.waiting(&store.recovery());
    Ok(Response::Check(Box::new(CheckOf { online, left_out, warnings, waiting, report })))
}

/// Refuses an operator's order for a transaction that the store does not know: it may be mistyped.
fn must_know(store: &impl Member, id: TransactionId) -> Result<(), Error> {
    match store.transactions().iter().any(|known| known.id == id) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no transaction {id}; `transaction list` names those that there are"),
        )),
    }
}

/// A target by a name that must be given.
fn named<S: Store>(store: &S, name: &str) -> Result<TargetInfo, Error> {
    if name.is_empty() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the name of the volume is missing; `mjolnir volume list` names all there are",
        ));
    }
    store.find(name)
}

fn resolve<S: Store>(store: &S, op: &RangeOp) -> Result<Op, Error> {
    let ends = |from: &VolumeRange, to: &Place| {
        Ok::<_, Error>((named(store, &from.target)?.id, named(store, &to.volume)?.id))
    };
    Ok(match op {
        RangeOp::Clone { from: source, to: place } => {
            let (from, to) = ends(source, place)?;
            let (from_offset, to_offset, length) = (source.offset, place.offset, source.length);
            Op::Clone { from, from_offset, to, to_offset, length }
        }
        RangeOp::Move { from: source, to: place } => {
            let (from, to) = ends(source, place)?;
            let (from_offset, to_offset, length) = (source.offset, place.offset, source.length);
            Op::Move { from, from_offset, to, to_offset, length }
        }
        RangeOp::Write { from: Payload::Bytes(data), to } => {
            let (offset, data) = (to.offset, data.clone());
            Op::Write { to: named(store, &to.volume)?.id, offset, data }
        }
        RangeOp::Write { .. } => {
            return Err(Error::new(ErrorKind::Invalid, "what is to be written did not come along"));
        }
        RangeOp::Trim(range) => Op::Trim {
            of: named(store, &range.target)?.id,
            offset: range.offset,
            length: range.length,
        },
    })
}
