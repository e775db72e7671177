//! The `salvage` command: a store whose log is damaged opens again, without what is lost.
//!
//! A command of its own, and no option of `check`, so that `check` never changes a store.

use std::path::Path;

use mjolnir_engine::{LogLoss, OpenOptions};
use mjolnir_host::{DeviceOptions, HostRuntime, Opened, Warm, Warning, run as run_host};
use mjolnir_store::{Error, ErrorKind};
use serde_json::json;

use crate::door;
use crate::failure::Failure;
use crate::output;
use crate::show;

/// Says what is lost, then makes it so.
pub fn run(store: &Path, json: bool) -> Result<(), Failure> {
    door::must_exist(store)?;
    if door::knock(store)?.is_some() {
        return Err(Failure::from(Error::new(
            ErrorKind::Busy,
            format!(
                "{0} is being served, so it opened and there is nothing to salvage; `mjolnir \
                 check {0}` looks for damage",
                store.display()
            ),
        )));
    }
    run_host(async |runtime: HostRuntime| {
        let open = async |read_only, salvage, salvage_only| {
            let options =
                OpenOptions { read_only, salvage, salvage_only, ..OpenOptions::default() };
            let device = DeviceOptions::default();
            // It is opened several times, and odd each time.
            let tell = |warning: &Warning| {
                if !salvage {
                    door::warn(warning);
                }
            };
            let opened =
                door::open_patiently(store, device, &options, &Warm::TakeOver, &runtime, tell)
                    .await;
            opened.map(|Opened { engine, .. }| engine)
        };
        match open(true, false, None).await {
            Ok(engine) => {
                engine.close().await?;
                return tell(store, None, json);
            }
            // Where a block gives an error that may mean anything, the next opening tells.
            Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::Io) => {}
            Err(error) => return Err(Failure::from(error)),
        }
        let engine = open(true, true, None).await?;
        let loss = engine.log_loss();
        engine.close().await?;
        drop(engine); // Its hold on the store goes with it.
        if !json && let Some(loss) = &loss {
            output::print(&show::log_loss(loss))?;
        }
        let loss = loss.unwrap_or_default();
        open(false, true, Some(loss.clone())).await?.close().await?;
        tell(store, Some(loss), json)
    })
}

/// How it ended; with what is lost for programs, which people have read by then.
fn tell(store: &Path, loss: Option<LogLoss>, json: bool) -> Result<(), Failure> {
    let name = store.display();
    if json {
        return output::print_json(&json!({ "salvaged": loss.is_some(), "log": loss }));
    }
    output::print(&match loss {
        None => format!(
            "{name} opens as it is, so there was nothing to salvage; `mjolnir check {name}` and \
             `mjolnir scrub {name}` tell whether data in it is damaged\n"
        ),
        Some(_) => format!(
            "{name} opens again, without that; `mjolnir check {name}` and `mjolnir scrub {name}` \
             tell whether more is damaged\n"
        ),
    })
}
