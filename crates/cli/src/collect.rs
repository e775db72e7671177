//! `gc run`: interrupted, it says what it won by then.

use std::path::Path;

use mjolnir_host::HostRuntime;
use mjolnir_store::report::Stats;

use crate::door::Door;
use crate::failure::Failure;
use crate::lab::{INTERRUPTED, signals};
use crate::output;
use crate::request::{Refusal, Request, Response};
use crate::show::{self, View};

/// Has all reclaimed that can be won, unless a signal ends that, and tells what was won.
pub async fn run(
    door: &mut Door,
    store: &Path,
    json: bool,
    runtime: &HostRuntime,
) -> Result<(), Failure> {
    let stop = signals()?;
    let before = stats(door).await?;
    let won = door.ask_until(Request::Collect {}, &stop, runtime).await.map_err(told)?;
    let is_over = won.is_some();
    let won = match won {
        Some(won) => won,
        None => interrupted(door, store, &before).await.map_err(|failure| {
            Failure::new(format!("interrupted; {failure}")).with_status(INTERRUPTED)
        })?,
    };
    match json {
        true => output::print_json(&show::inside(&won)?)?,
        false => output::print(&show::text(store, &won, View::Whole))?,
    }
    if is_over { Ok(()) } else { Err(Failure::told().with_status(INTERRUPTED)) }
}

/// What was won since, by the server's own reclaim, too.
async fn interrupted(door: &mut Door, store: &Path, before: &Stats) -> Result<Response, Failure> {
    // Hung up on, the server calls the rest off.
    door.knock_again(store)?;
    let now = stats(door).await?;
    let segments = now.segments_reclaimed.saturating_sub(before.segments_reclaimed);
    Ok(Response::Collected {
        segments,
        bytes: segments * now.segment_bytes,
        free_bytes: now.space.free_bytes,
        reserved_bytes: Some(now.space.reserved_bytes),
        moved_bytes: Some(now.moved_bytes.saturating_sub(before.moved_bytes)),
        released_bytes: Some(now.released_bytes.saturating_sub(before.released_bytes)),
        interrupted: true,
    })
}

async fn stats(door: &mut Door) -> Result<Stats, Failure> {
    match door.ask(Request::Stats {}, &|_| {}).await.map_err(told)? {
        Response::Stats(of) => Ok(of.stats),
        _ => Err(Failure::new("the server answered something else than was asked")),
    }
}

fn told(refusal: Refusal) -> Failure {
    Failure::new(refusal.message)
}
