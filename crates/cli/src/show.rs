//! Answers, for people and as JSON.

mod bad;
mod damage;
mod reads;

use std::path::Path;

use mjolnir_host::Recording;
use mjolnir_store::report::{BadTried, LatencySummary, Stats};
use mjolnir_store::{TransactionInfo, TransactionState};
use serde_json::Value;

pub use damage::log_loss;
pub use reads::{by_purpose, place};

use crate::difference;
use crate::failure::Failure;
use crate::output::{Table, bytes, count, percent, time};
use crate::recovered;
use crate::request::{CheckOf, Response, ScrubOf, StatsOf, Target};

/// Which side of an answer to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All of it.
    Whole,
    /// What concerns reclaim.
    Reclaim,
}

/// Whether the answer brings no bad news.
pub fn is_sound(response: &Response) -> bool {
    match response {
        Response::Scrub(ScrubOf { report, .. }) => {
            report.damage.is_empty() && report.losses.is_empty()
        }
        Response::Check(check) => check.report.problems.is_empty(),
        _ => true,
    }
}

/// What is inside an answer, as JSON.
pub fn inside(response: &Response) -> Result<Value, Failure> {
    let encoded = serde_json::to_value(response)
        .map_err(|error| Failure::new(format!("encoding as JSON: {error}")))?;
    Ok(match encoded {
        // The name of the kind of answer; whoever asked knows it.
        Value::Object(outer) if outer.len() == 1 => outer.into_iter().next().expect("one").1,
        other => other,
    })
}

/// Transactions, one a line, and below each prepared one what it changes.
fn transactions_text(transactions: &[TransactionInfo]) -> String {
    let mut text = String::new();
    for TransactionInfo { id, state, changes, staged_bytes } in transactions {
        match state {
            TransactionState::Prepared => {
                text += &format!("{id}  prepared, {} wait with it\n", bytes(*staged_bytes));
            }
            _ => text += &format!("{id}  committed\n"),
        }
        changes.iter().for_each(|change| text += &format!("  {change}\n"));
    }
    if text.is_empty() { "no transactions\n".to_owned() } else { text }
}

/// The answer as text.
pub fn text(store: &Path, response: &Response, view: View) -> String {
    match response {
        Response::Done {} => "done\n".to_owned(),
        Response::Target(target) => format!("{}: {}\n", target.name, bytes(target.bytes)),
        Response::Targets(targets) => list(targets),
        Response::Transactions(transactions) => transactions_text(transactions),
        Response::Diff(page) => difference::text(&page.extents, true),
        Response::Collected {
            segments,
            bytes: won,
            free_bytes,
            reserved_bytes,
            moved_bytes,
            released_bytes,
            interrupted,
        } => {
            let mut won = match segments {
                0 if *interrupted => "won nothing yet".to_owned(),
                0 => "nothing was left to win".to_owned(),
                _ => format!("won {}, {}", count(*segments, "segment"), bytes(*won)),
            };
            if let Some(moved) = moved_bytes.filter(|moved| *moved > 0) {
                won += &format!(", of which {} were live and moved", bytes(moved));
            }
            if let Some(released) = released_bytes.filter(|released| *released > 0) {
                won += &format!("; gave {} back to the disk", bytes(released));
            }
            let kept = reserved_bytes.map_or(String::new(), |reserved| {
                format!(", of which {} are kept for reclaim", bytes(reserved))
            });
            let free = bytes(*free_bytes);
            match interrupted {
                true => format!(
                    "interrupted: {won}; {free} are free now{kept}; `mjolnir gc run {}` goes on\n",
                    store.display()
                ),
                false => format!("{won}; {free} are free now{kept}\n"),
            }
        }
        Response::Stats(of) if view == View::Reclaim => reclaim(&of.stats),
        Response::Stats(of) => stats(store, of),
        Response::Scrub(ScrubOf { warnings: odd, waiting, bad_tried, report }) => {
            let mut text = format!(
                "read and verified {} in {}\n",
                bytes(report.verified_bytes),
                count(report.segments, "segment")
            );
            let damaged = |what: &String| format!("damaged: {what}");
            text += &damage::first(report.damage.iter().map(damaged));
            text += &damage::losses(&report.losses);
            if report.stale_blocks > 0 {
                let them = if report.stale_blocks == 1 { "it" } else { "them" };
                text += &format!(
                    "{} did not verify, but nothing refers to {them}: a crash or a full disk left \
                     {them}, or the medium is failing\n",
                    count(report.stale_blocks, "stale block"),
                );
            }
            if report.damage.is_empty() && report.losses.is_empty() {
                text += match odd.is_empty() {
                    true => "no damage\n",
                    false => "no damage to what is stored\n",
                };
            }
            if !report.losses.is_empty() {
                text += &format!("the way out: {}\n", mend(store));
            }
            if let Some(BadTried { tried, taken_back }) = bad_tried {
                text += &format!(
                    "tried {} that the device had failed to write to: {taken_back} {} again\n",
                    count(*tried, "segment"),
                    if *taken_back == 1 { "works" } else { "work" },
                );
            }
            text + &recovered::waiting_note(waiting.as_ref()) + &warnings(odd)
        }
        Response::Check(check) => check_text(store, check),
        Response::Recording(recording) => recording_text(recording),
        Response::Grown { bytes: now, added_bytes } => {
            let added = match added_bytes {
                None => String::new(),
                Some(0) => "; it was that large already, so nothing was added".to_owned(),
                Some(added) => format!(", of which {} are new", bytes(*added)),
            };
            format!("{}: {}{added}\n", store.display(), bytes(*now))
        }
    }
}

/// What is odd about what holds the store.
fn warnings(odd: &[String]) -> String {
    odd.iter().map(|what| format!("warning: {what}\n")).collect()
}

fn recording_text(recording: &Recording) -> String {
    let mut text = format!(
        "{}: {}, {}{}\n",
        recording.file.display(),
        count(recording.requests, "request"),
        bytes(recording.bytes),
        if recording.active { " so far" } else { "" },
    );
    if let Some(why) = &recording.failed {
        text += &format!("ENDED: {why}\n");
    }
    text
}

fn check_text(store: &Path, check: &CheckOf) -> String {
    let report = &check.report;
    let how = if check.online { "online, while it is served" } else { "at rest" };
    let mut text = format!(
        "checked {how}: {}, {}, {} mapped, {}\n",
        match report.targets {
            1 => "1 volume or snapshot".to_owned(),
            targets => format!("{targets} volumes and snapshots"),
        },
        count(report.extents, "extent"),
        bytes(report.mapped_bytes),
        count(report.segments, "segment")
    );
    for left_out in &check.left_out {
        text += &format!("not checked: {left_out}\n");
    }
    text += &recovered::notes(&report.recovery, check.waiting.as_ref());
    text += &bad::of_check(&report.bad_segments);
    text += &reads::of_check(check.online, report);
    if let Some(missing) = &report.missing {
        text += &damage::shortened(report, missing, check.warnings);
    } else {
        text += &damage::problems(report, check.warnings);
        text += &damage::losses(&report.losses);
        text += &report.log.as_ref().map_or(String::new(), damage::dropped);
    }
    let found = count(report.problems.len() as u64, "problem");
    let is_all_there =
        report.losses.is_empty() && report.log.is_none() && report.recovery.damaged.is_empty();
    text += &match (report.problems.len() as u64, &report.log) {
        (_, _) if report.missing.is_some() && is_all_there => format!(
            "{found}, and nothing{} is lost; mend it as is said above\n",
            match report.missing.as_ref().is_some_and(|missing| !missing.unsure.is_empty()) {
                true => " that is known of",
                false => "",
            }
        ),
        (_, _) if report.missing.is_some() => format!(
            "{found}; copy the store again from where it is whole, or restore it from a backup; else \
             `mjolnir salvage {}` goes on without what is lost\n",
            store.display()
        ),
        (0, _) => "no problems\n".to_owned(),
        (_, Some(_)) => format!(
            "the store does not open as it is; `mjolnir salvage {}` accepts what is lost of the \
             log (copy the store first if the medium may yet be mended)\n",
            store.display()
        ),
        (all, None) if all == check.warnings => {
            format!("{found}, of which nothing is lost; mend it as is said above\n")
        }
        (_, None) => format!("{found}; copy what you need to another store, or {}\n", mend(store)),
    };
    text
}

/// The way out of a store in which data is lost.
pub fn mend(store: &Path) -> String {
    let name = store.display();
    format!(
        "write, trim or restore what `mjolnir scrub {name}` lists as lost, or delete the snapshots that have it: \
         `mjolnir gc run {name}` then gives up the segments that are damaged"
    )
}

fn list(targets: &[Target]) -> String {
    let mapped = targets.iter().any(|target| target.mapped_bytes.is_some());
    let mut table = match mapped {
        true => Table::new(&["NAME", ">SIZE", ">MAPPED"]),
        false => Table::new(&["NAME", ">SIZE"]),
    };
    for target in targets {
        let mut row = vec![target.name.clone(), bytes(target.bytes)];
        if mapped {
            row.push(bytes(target.mapped_bytes.unwrap_or(0)));
        }
        table.row(row);
    }
    table.text()
}

fn stats(store: &Path, of: &StatsOf) -> String {
    let stats = &of.stats;
    let mut text = format!(
        "{}: {}; {}, {}, {} of {}\n",
        store.display(),
        match of.served {
            true => format!("served for {:.0} s", stats.uptime_s),
            false => "at rest (counts are of this command alone)".to_owned(),
        },
        count(stats.volumes, "volume"),
        count(stats.snapshots, "snapshot"),
        count(stats.space.total_bytes / stats.segment_bytes.max(1), "segment"),
        bytes(stats.segment_bytes),
    );
    if let Some(failed) = &stats.failed {
        text += &format!("FAILED: {failed}\n");
    }
    if let Some(outage) = &stats.outage {
        text += &format!("WAITING: {outage}\n");
    }
    if let Some(failed) = &stats.reclaim_failed {
        text += &format!("RECLAIM FAILS: {failed}\n");
    }
    text += &warnings(&of.warnings);
    text += &recovered::waiting_note(of.waiting.as_ref());
    if let Some(recording) = &of.recording {
        text += &format!("recorded in {}", recording_text(recording));
    }
    text += "\nspace\n";
    text += &space(stats);
    let amplification = match stats.accepted_write_bytes {
        0 => "–".to_owned(),
        _ => format!("{:.3}", stats.write_amplification),
    };
    text += &format!(
        "\nwrite amplification {amplification} = {} written to the device / {} accepted from clients, in whole blocks\n",
        bytes(stats.device_write_bytes),
        bytes(stats.accepted_write_bytes),
    );
    text += &format!(
        "  by cause: log {}, reclaim {}, map {}\n",
        bytes(stats.log_write_bytes),
        bytes(stats.reclaim_write_bytes),
        bytes(stats.map_write_bytes),
    );
    let streams = match stats.placement_streams < stats.placement_streams_wanted {
        false => count(stats.placement_streams, "stream"),
        true => format!(
            "{} of {}, as few zones can be open or the store has few segments",
            count(stats.placement_streams, "stream"),
            stats.placement_streams_wanted,
        ),
    };
    let spread = match stats.client_streams {
        0 | 1 => String::new(),
        streams => format!(", what clients write spread over {streams}"),
    };
    text += &format!(
        "  placement: {}, {streams}{spread}; {} went elsewhere for want of space\n",
        stats.placement,
        bytes(stats.displaced_bytes),
    );
    text += &format!(
        "  clients: {} written, {} read; device: {} read, {}\n",
        bytes(stats.client_write_bytes),
        bytes(stats.client_read_bytes),
        bytes(stats.device_read_bytes),
        match stats.device_flushes {
            1 => "1 flush".to_owned(),
            flushes => format!("{flushes} flushes"),
        },
    );
    text += &format!(
        "\nmemory: {} of {}: map {} ({}), node table {}, held versions {}, checksums {}, \
         reclaim {}, placement {}, unwritten data {}, buffers {}\n",
        bytes(stats.memory_bytes),
        bytes(stats.memory_budget_bytes),
        bytes(stats.map_bytes),
        count(stats.map_nodes, "node"),
        bytes(stats.map_table_bytes),
        bytes(stats.frozen_bytes),
        bytes(stats.checksum_bytes),
        bytes(stats.index_bytes + stats.mark_bytes + stats.relocation_bytes),
        bytes(stats.placement_bytes),
        bytes(stats.dirty_bytes),
        bytes(stats.buffer_bytes),
    );
    text += &format!(
        "log: {}, {} replayed when opened, {} dropped past the last gap\n",
        count(stats.checkpoints, "checkpoint"),
        count(stats.replayed_records, "record"),
        stats.dropped_records,
    );
    if let Some(file) = &of.warm_log {
        text += &format!("warm log: {}\n", file.display());
    }
    text += &reads::of_stats(stats);
    text += &bad::of_stats(stats);
    text += "\n";
    text += &reclaim(stats);
    text += match of.served {
        true => "\nlatency of requests within the store, since it is served\n",
        false => "\nlatency of requests within the store, by this command alone\n",
    };
    text += &latencies(stats);
    text
}

fn space(stats: &Stats) -> String {
    let space = &stats.space;
    let total = space.total_bytes.max(1) as f64;
    let mut table = Table::new(&["  KIND", ">BYTES", ">PART", ""]);
    let free = format!("of which {} are kept for reclaim", bytes(space.reserved_bytes));
    let bad = (space.bad_bytes > 0).then_some((
        "  bad",
        space.bad_bytes,
        "segments that the device failed to write to",
    ));
    for (kind, count, remark) in [
        ("  live", space.live_bytes, "as the last mark counted"),
        ("  stale", space.stale_bytes, "overwritten or deleted, as the last mark counted"),
        ("  not counted", space.uncounted_bytes, "written since the last mark; live or stale"),
        ("  metadata", space.metadata_bytes, ""),
        ("  unused", space.unused_bytes, "room in segments sealed before they were full"),
        ("  being filled", space.open_bytes, "segments that are open, their room included"),
        ("  retiring", space.retiring_bytes, "free with the next checkpoint"),
        ("  free", space.free_bytes, free.as_str()),
    ]
    .into_iter()
    .chain(bad)
    .chain([("  total", space.total_bytes, "")])
    {
        let part = percent(count as f64 / total);
        table.row(vec![kind.to_owned(), bytes(count), part, remark.to_owned()]);
    }
    let mut text = table.text();
    if let Some(held) = stats.held_bytes {
        let given = match stats.released_bytes {
            0 => String::new(),
            released => format!("; {} given back since it was opened", bytes(released)),
        };
        text += &format!("  on disk: {}{given}\n", bytes(held));
    }
    if space.low {
        text += "  space is low: trim or delete something (`volume list --mapped` and `snapshot list \
                 --mapped` tell what is large), or `mjolnir grow` the store\n";
    }
    if stats.room_refusals > 0 {
        let refused = count(stats.room_refusals, "request");
        text += &format!("  {refused} refused so far, since no space was left\n");
    }
    text
}

fn reclaim(stats: &Stats) -> String {
    format!(
        "reclaim: {}, {} won, {} moved\n  \
         segments opened {}, freed {} (the map's too); mappings scanned {} in {} of processor time\n  \
         now: {} of bandwidth, pressure {}{}; {} (clients stopped until space was won), \
         {} for room, {} failed\n",
        count(stats.reclaim_cycles, "cycle"),
        count(stats.segments_reclaimed, "segment"),
        bytes(stats.moved_bytes),
        stats.segments_allocated,
        stats.segments_freed,
        stats.mappings_scanned,
        time(stats.scan_cpu_ns),
        percent(stats.reclaim_share),
        percent(stats.pressure),
        if stats.panic { ", clients wait" } else { "" },
        count(stats.panics, "panic"),
        count(stats.room_waits, "wait"),
        count(stats.copy_forward_failures, "copy-forward"),
    )
}

fn latencies(stats: &Stats) -> String {
    let mut table =
        Table::new(&["  OPERATION", ">COUNT", ">MEAN", ">P50", ">P99", ">P99.9", ">MAX"]);
    let mut add = |name: &str, of: &LatencySummary| {
        let mut row = vec![format!("  {name}"), of.count.to_string()];
        let times = [of.mean_ns, of.p50_ns, of.p99_ns, of.p999_ns, of.max_ns];
        row.extend(times.map(|ns| if of.count == 0 { "–".to_owned() } else { time(ns) }));
        table.row(row);
    };
    add("read", &stats.read_latency);
    add("write", &stats.write_latency);
    add("flush", &stats.flush_latency);
    add("trim", &stats.trim_latency);
    add("atomic", &stats.atomic_latency);
    table.text()
}
