//! `trace info`: reads a trace once and tells what is in it.

use std::path::{Path, PathBuf};

use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::Op;
use mjolnir_workload::trace::{Compression, ReadReport, Summary, Volumes};
use serde_json::{Value, json};

use super::{Reading, refused};
use crate::failure::Failure;
use crate::output::{self, Table};

/// Volumes that are listed one by one.
const LISTED: usize = 12;

pub(super) fn run(files: &[PathBuf], reading: &Reading, json: bool) -> Result<(), Failure> {
    let mut values = Vec::new();
    for file in files {
        let value = one(file, reading, json)?;
        values.extend(value);
    }
    match (json, values.len()) {
        (false, _) => Ok(()),
        (true, 1) => output::print_json(&values[0]),
        (true, _) => output::print_json(&values),
    }
}

fn one(file: &Path, reading: &Reading, json: bool) -> Result<Option<Value>, Failure> {
    let mut reader = reading.open(file)?;
    let mut summary = Summary::new();
    while let Some(request) = reader.next_request().map_err(refused)? {
        summary.add(&request);
    }
    if json {
        return Ok(Some(value(reader.report(), &summary, reader.volumes())));
    }
    output::print(&text(reader.report(), &summary, reader.volumes()))?;
    Ok(None)
}

fn value(report: &ReadReport, summary: &Summary, volumes: &Volumes) -> Value {
    let of_op = |op: Op| {
        let totals = summary.op(op);
        json!({
            "requests": totals.requests,
            "bytes": totals.bytes,
            "mean_latency_ns": summary.mean_latency_ns(op),
        })
    };
    let ops: serde_json::Map<String, Value> =
        Op::ALL.iter().map(|op| (op.name().to_owned(), of_op(*op))).collect();
    let volumes: Vec<Value> = volumes
        .names()
        .map(|(id, name)| json!({ "name": name, "end": summary.volume_end(id) }))
        .collect();
    json!({
        "report": report,
        "summary": {
            "requests": summary.requests(),
            "ops": ops,
            "span_ns": summary.span_ns(),
            "address_span": summary.address_span(),
            "blocks_touched": summary.blocks_touched(),
            "blocks_written": summary.blocks_written(),
            "block_bytes": BLOCK_SIZE,
            "blocks_exact": summary.footprint_is_exact(),
            "read_share": summary.read_share(),
            "mean_bytes": summary.mean_bytes(),
            "unaligned": summary.unaligned(),
            "with_stream_hint": summary.hinted(),
        },
        "volumes": volumes,
    })
}

fn text(report: &ReadReport, summary: &Summary, volumes: &Volumes) -> String {
    let mut lines = vec![report.trace.clone()];
    let mut tell = |name: &str, what: String| lines.push(format!("  {name:<12}{what}"));
    let found = if report.detected { "recognised" } else { "as you said" };
    tell("format", format!("{} ({}), {found}", report.format, report.format.describe()));
    tell("units", report.units.to_owned());
    if report.compression == Compression::Gzip {
        tell("packed", "gzip".to_owned());
    }
    if let Some(ns) = report.start_unix_ns {
        tell("began", date(ns / 1_000_000_000));
    }
    let span = output::time(summary.span_ns());
    tell("requests", format!("{} in {span}", report.requests));
    if !volumes.is_empty() {
        let count = output::count(volumes.len() as u64, "volume");
        let listed: Vec<&str> = volumes.names().take(LISTED).map(|(_, name)| name).collect();
        let more = if volumes.len() > LISTED { " ..." } else { "" };
        tell("volumes", format!("{count}: {}{more}", listed.join("  ")));
    }
    if let Some((low, high)) = summary.address_span() {
        tell("addresses", format!("from {low} to {high} ({})", output::bytes(high)));
    }
    let about = if summary.footprint_is_exact() { "" } else { "about " };
    let blocks = |count: u64| format!("{about}{}", output::bytes(count.saturating_mul(BLOCK_SIZE)));
    tell(
        "footprint",
        format!(
            "{} in distinct blocks of 4 KiB, {} of them written",
            blocks(summary.blocks_touched()),
            blocks(summary.blocks_written())
        ),
    );
    if let Some(share) = summary.read_share() {
        let mean = output::bytes(summary.mean_bytes().unwrap_or(0));
        tell("reads", format!("{} of reads and writes; mean {mean}", output::percent(share)));
    }
    if summary.unaligned() > 0 {
        let count = output::count(summary.unaligned(), "request");
        tell("unaligned", format!("{count} not in whole blocks of 4 KiB"));
    }
    if summary.hinted() > 0 {
        tell(
            "streams",
            format!("{} with a stream hint", output::count(summary.hinted(), "request")),
        );
    }
    for oddity in report.oddities() {
        tell("note", oddity);
    }
    let mut table =
        Table::new(&["  OPERATION", ">REQUESTS", ">BYTES", ">MEAN SIZE", ">MEAN LATENCY"]);
    for op in Op::ALL {
        let totals = summary.op(op);
        if totals.requests > 0 {
            table.row(vec![
                format!("  {op}"),
                totals.requests.to_string(),
                output::bytes(totals.bytes),
                output::bytes(totals.bytes / totals.requests),
                summary.mean_latency_ns(op).map_or("–".to_owned(), output::time),
            ]);
        }
    }
    format!("{}\n{}", lines.join("\n"), table.text())
}

/// Seconds since 1970 as a date, in UTC.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from 1 March 0000, so that a leap day comes last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_172_163_600, "2007-02-22 17:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(seconds), shown);
        }
    }
}
