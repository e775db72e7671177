//! The `salvage` command: a store whose log is damaged, or whose file is too short, or whose label is from before it
//! grew, opens again, without what is lost.
//!
//! A command of its own, and no option of `check`, so that `check` never changes a store.

use std::cell::RefCell;
use std::path::Path;

use mjolnir_engine::OpenOptions;
use mjolnir_host::{
    DeviceOptions, HostRuntime, Opened, Short, Warm, Warning, lengthen_store, run as run_host,
};
use mjolnir_store::report::LogLoss;
use mjolnir_store::{Error, ErrorKind};
use serde_json::json;

use crate::door;
use crate::failure::Failure;
use crate::output;
use crate::recovered;
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
        let size = RefCell::new(Size::default());
        let open = async |read_only, salvage, salvage_only| {
            let options =
                OpenOptions { read_only, salvage, salvage_only, ..OpenOptions::default() };
            let device = DeviceOptions { short: read_only, ..DeviceOptions::default() };
            // It is opened several times, and odd each time.
            let tell = |warning: &Warning| match warning {
                Warning::Short(_) => size.borrow_mut().is_short = true,
                Warning::LabelOutgrown { told, zones, short, .. } => {
                    let (relabeled, is_short) = (Some((*told, *zones)), short.is_some());
                    *size.borrow_mut() = Size { is_short, relabeled };
                }
                _ if salvage => {}
                _ => door::warn(warning),
            };
            // What was acknowledged behind a loss counts no more than what was written there.
            let warm = if salvage && !read_only { Warm::Off } else { Warm::TakeOver };
            let opened = door::open_patiently(store, device, &options, &warm, &runtime, tell).await;
            opened.map(|Opened { engine, given_up, .. }| {
                given_up.iter().for_each(recovered::tell_given_up);
                engine
            })
        };
        match open(true, false, None).await {
            Ok(engine) => {
                engine.close().await?;
                drop(engine); // Its hold on the store goes with it.
                return tell(store, None, &mend(store, size.take())?, json);
            }
            // Where a block gives an error that may mean anything, the next opening tells.
            Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::Io) => {}
            Err(error) => return Err(Failure::from(error)),
        }
        let engine = open(true, true, None).await?;
        let loss = engine.log_loss();
        engine.close().await?;
        drop(engine);
        if !json && let Some(loss) = &loss {
            output::print(&show::log_loss(loss))?;
        }
        let loss = loss.unwrap_or_default();
        // It holds zeroes there from now on, as what was opened did.
        let mended = mend(store, size.take())?;
        open(false, true, Some(loss.clone())).await?.close().await?;
        tell(store, Some(loss), &mended, json)
    })
}

/// What was wrong with the size of a store.
#[derive(Default)]
struct Size {
    is_short: bool,
    /// The segments that its label counted, and those that it has.
    relabeled: Option<(u32, u32)>,
}

/// What was done about that.
struct Mended {
    lengthened: Option<Short>,
    relabeled: Option<(u32, u32)>,
}

/// Makes a file that is shorter than its label says as long again, and the label as the store was: nothing is
/// written to a store of which a part is missing.
fn mend(store: &Path, Size { is_short, relabeled }: Size) -> Result<Mended, Failure> {
    let lengthened = match is_short || relabeled.is_some() {
        true => lengthen_store(store, relabeled.map_or(0, |(_, segments)| segments))?,
        false => None,
    };
    Ok(Mended { lengthened, relabeled })
}

/// How it ended; with what is lost for programs, which people have read by then.
fn tell(
    store: &Path,
    loss: Option<LogLoss>,
    Mended { lengthened, relabeled }: &Mended,
    json: bool,
) -> Result<(), Failure> {
    let name = store.display();
    let is_mended = lengthened.is_some() || relabeled.is_some();
    if json {
        let salvaged = loss.is_some() || is_mended;
        let lengthened =
            lengthened.as_ref().map(|short| json!({ "from": short.actual, "to": short.wanted }));
        let relabeled = relabeled.map(|(from, to)| json!({ "from": from, "to": to }));
        return output::print_json(&json!({
            "salvaged": salvaged, "log": loss, "lengthened": lengthened, "relabeled": relabeled,
        }));
    }
    if let Some((from, to)) = relabeled {
        output::print(&format!(
            "the label of {name} was written anew: it is from before the store grew, and counted {from} segments \
             instead of {to}\n"
        ))?;
    }
    if let Some(short) = lengthened {
        output::print(&format!(
            "{name} was made as long again as its label says, {} instead of {} bytes: reads of data that lay there \
             fail from now on\n",
            short.wanted, short.actual
        ))?;
    }
    let way_out = format!("; if anything is: {}", show::mend(store));
    output::print(&match (loss, is_mended) {
        (None, true) => format!(
            "{name} opens again; `mjolnir scrub {name}` tells whether data is lost{way_out}\n"
        ),
        (None, false) => format!(
            "{name} opens as it is, so there was nothing to salvage; `mjolnir check {name}` and \
             `mjolnir scrub {name}` tell whether data in it is damaged\n"
        ),
        (Some(_), _) => format!(
            "{name} opens again, without that; `mjolnir check {name}` and `mjolnir scrub {name}` \
             tell whether more is damaged{way_out}\n"
        ),
    })
}
