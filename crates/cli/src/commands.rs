//! The commands that ask a store something: from the command line to requests.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mjolnir_host::{HostRuntime, run as run_host};

use crate::arguments::{
    GcCommand, RangeCommand, RecordCommand, SnapshotCommand, SnapshotName, StoreCommand,
    TransactionCommand, VolumeCommand,
};
use crate::collect;
use crate::difference;
use crate::door::Door;
use crate::failure::Failure;
use crate::meter::Meter;
use crate::output;
use crate::payload::Payload;
use crate::request::{RangeOp, Refusal, Request};
use crate::show::{self, View};

/// The longest file of operations that is read, in bytes.
const OPS_BYTES_MAX: u64 = 1 << 20;

/// Carries out a command on a store, at rest or served, and prints the answer.
pub fn run(command: StoreCommand, json: bool) -> Result<(), Failure> {
    let (store, request, view) = plan(command)?;
    run_host(async |runtime: HostRuntime| {
        let mut door = Door::open(&store, &request, &runtime).await?;
        let outcome = converse(&mut door, &store, request, view, json, &runtime).await;
        // The first failure is the one to tell.
        let closed = door.close().await;
        outcome.and_then(|()| closed.map_err(Failure::from))
    })
}

async fn converse(
    door: &mut Door,
    store: &Path,
    request: Request,
    view: View,
    json: bool,
    runtime: &HostRuntime,
) -> Result<(), Failure> {
    if let Request::Diff { old, new, .. } = request {
        return difference::print(door, old, new, json).await;
    }
    if request == (Request::Collect {}) {
        return collect::run(door, store, json, runtime).await;
    }
    let meter = Meter::new(json, runtime);
    let advice = advice(&request);
    let response = door.ask(request, &|part| meter.show(part)).await;
    meter.clear();
    let response = response.map_err(|refusal| explain(refusal, advice))?;
    let sound = show::is_sound(&response);
    match json {
        true => output::print_json(&show::inside(&response)?)?,
        false => output::print(&show::text(store, &response, view))?,
    }
    if sound { Ok(()) } else { Err(Failure::told()) }
}

/// What a command line adds to a refusal of its kind.
fn advice(request: &Request) -> Option<(&'static str, &'static str)> {
    match request {
        Request::DeleteVolume { snapshots: false, .. } => {
            Some(("busy", "`mjolnir volume delete --snapshots` does both"))
        }
        Request::StartRecording { force: false, .. } => {
            Some(("exists", "--force replaces an older recording"))
        }
        _ => None,
    }
}

fn explain(refusal: Refusal, advice: Option<(&str, &str)>) -> Failure {
    match advice {
        Some((kind, advice)) if kind == refusal.kind => {
            Failure::new(format!("{} ({advice})", refusal.message))
        }
        _ => Failure::new(refusal.message),
    }
}

/// Which store to ask what, and how to show the answer.
fn plan(command: StoreCommand) -> Result<(PathBuf, Request, View), Failure> {
    let plain = |store, request| Ok((store, request, View::Whole));
    match command {
        StoreCommand::Volume(command) => match command {
            VolumeCommand::Create { store, name, size } => {
                plain(store, Request::CreateVolume { name, bytes: size })
            }
            VolumeCommand::List { store, mapped } => plain(store, Request::ListVolumes { mapped }),
            VolumeCommand::Delete { store, name, snapshots, force } => {
                plain(store, Request::DeleteVolume { name, snapshots, force })
            }
            VolumeCommand::Rename { store, name, new } => {
                plain(store, Request::RenameVolume { name, new })
            }
            VolumeCommand::Resize { store, name, size, shrink, force } => {
                plain(store, Request::ResizeVolume { name, bytes: size, shrink, force })
            }
        },
        StoreCommand::Snapshot(command) => match command {
            SnapshotCommand::Create { store, snapshots } => {
                let named = |of: SnapshotName| (of.volume, of.name);
                let mut snapshots: Vec<_> = snapshots.into_iter().map(named).collect();
                match snapshots.len() {
                    1 => {
                        let (volume, name) = snapshots.remove(0);
                        plain(store, Request::CreateSnapshot { volume, name })
                    }
                    _ => plain(store, Request::CreateSnapshots { snapshots }),
                }
            }
            SnapshotCommand::List { store, volume, mapped } => {
                plain(store, Request::ListSnapshots { volume, mapped })
            }
            SnapshotCommand::Delete { store, snapshot, force } => {
                let (volume, name) = (snapshot.volume, snapshot.name);
                plain(store, Request::DeleteSnapshot { volume, name, force })
            }
            SnapshotCommand::Restore { store, snapshot, force } => {
                let (volume, name) = (snapshot.volume, snapshot.name);
                plain(store, Request::RestoreSnapshot { volume, name, force })
            }
            SnapshotCommand::Diff { store, old, new } => {
                let volume = || old.split('@').next().unwrap_or_default().to_owned();
                let new = new.unwrap_or_else(volume);
                plain(store, Request::Diff { old, new, from: 0 })
            }
        },
        StoreCommand::Clone { store, source, new } => plain(store, Request::Clone { source, new }),
        StoreCommand::Range(command) => {
            let (store, ops) = match command {
                RangeCommand::Clone { store, source, to } => {
                    (store, vec![RangeOp::Clone { from: source, to }])
                }
                RangeCommand::Move { store, source, to } => {
                    (store, vec![RangeOp::Move { from: source, to }])
                }
                RangeCommand::Trim { store, range } => (store, vec![RangeOp::Trim(range)]),
                RangeCommand::Write { store, file, to } => {
                    (store, vec![RangeOp::Write { from: Payload::File(file), to }])
                }
                RangeCommand::Atomic { store, ops, file: None } => (store, ops),
                RangeCommand::Atomic { store, file: Some(file), .. } => (store, read_ops(&file)?),
            };
            plain(store, Request::Ranges { ops })
        }
        StoreCommand::Transaction(command) => match command {
            TransactionCommand::List { store } => plain(store, Request::ListTransactions {}),
            TransactionCommand::Commit { store, id } => plain(store, Request::Commit { id }),
            TransactionCommand::Abort { store, id } => plain(store, Request::Abort { id }),
            TransactionCommand::Forget { store, id } => plain(store, Request::Forget { id }),
        },
        StoreCommand::Record(RecordCommand::Start { store, file, force }) => {
            // The server has a working directory of its own.
            let file = std::path::absolute(&file).map_err(|error| {
                Failure::new(format!("recording to {}: {error}", file.display()))
            })?;
            plain(store, Request::StartRecording { file, force })
        }
        StoreCommand::Record(RecordCommand::Stop { store }) => {
            plain(store, Request::StopRecording {})
        }
        StoreCommand::Gc(GcCommand::Run { store }) => plain(store, Request::Collect {}),
        StoreCommand::Gc(GcCommand::Status { store }) => {
            Ok((store, Request::Stats {}, View::Reclaim))
        }
        StoreCommand::Stats { store } => plain(store, Request::Stats {}),
        StoreCommand::Scrub { store, retry_bad } => plain(store, Request::Scrub { retry_bad }),
        StoreCommand::Check { store } => plain(store, Request::Check {}),
        StoreCommand::Grow { store, size } => plain(store, Request::Grow { bytes: size }),
        StoreCommand::Checkpoint { store } => plain(store, Request::Checkpoint {}),
    }
}

fn read_ops(file: &Path) -> Result<Vec<RangeOp>, Failure> {
    let name = file.display();
    let failed = |why: String| Failure::new(format!("reading operations from {name}: {why}"));
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => io::stdin().take(OPS_BYTES_MAX).read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|file| file.take(OPS_BYTES_MAX).read_to_string(&mut text)),
    };
    read.map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| {
        failed(format!(
            "{error}; write a list such as [{{\"clone\": {{\"from\": \"v:0+4K\", \"to\": \
             \"w:8K\"}}}}, {{\"trim\": \"v:0+1M\"}}]"
        ))
    })
}
