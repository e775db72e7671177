//! What the demo tells at its end.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use mjolnir_store::report::Stats;
use mjolnir_units::{BLOCK_SIZE, ByteSize};
use serde::Serialize;

use super::sample::grouped;
use super::snapshots::SnapshotsDone;
use super::writer::Written;

/// Everything that is told.
pub struct Summary {
    /// By writer.
    pub written: Vec<Written>,
    /// Snapshots.
    pub snapshots: SnapshotsDone,
    /// The store when the load was over.
    pub stats: Stats,
    /// The highest of what the samples saw.
    pub utilization_max: f64,
    /// Reclaim's highest share of bandwidth.
    pub share_max: f64,
    /// The longest time without an answer to any client's write.
    pub longest_pause: Duration,
    /// How long closing and opening the store took.
    pub restart: Duration,
    /// Blocks compared, all in all.
    pub blocks_verified: u64,
    /// Of them, wrong ones.
    pub blocks_wrong: u64,
    /// The first of them, and what the checks of the structure found.
    pub problems: Vec<String>,
}

impl Summary {
    /// Whether every block was right and the checks found nothing.
    pub fn all_right(&self) -> bool {
        self.blocks_wrong == 0 && self.problems.is_empty()
    }

    /// Median, 99th percentile and the longest, in microseconds.
    fn latencies(&self, of: impl Fn(&Written) -> &[u32]) -> [u32; 3] {
        let mut all: Vec<u32> = self.written.iter().flat_map(of).copied().collect();
        all.sort_unstable();
        let part = |per_mille: usize| all.get(all.len() * per_mille / 1000).copied();
        [part(500), part(990), all.last().copied()].map(|us| us.unwrap_or(0))
    }

    /// Everything as data, for `--json`.
    pub fn figures(&self) -> Figures<'_> {
        let sum = |of: fn(&Written) -> u64| self.written.iter().map(of).sum();
        Figures {
            all_right: self.all_right(),
            blocks_verified: self.blocks_verified,
            blocks_wrong: self.blocks_wrong,
            problems: &self.problems,
            client_write_bytes: sum(|w| w.bytes_written),
            client_read_bytes: sum(|w| w.bytes_read),
            client_trim_bytes: sum(|w| w.bytes_trimmed),
            write_latency_us_p50_p99_max: self.latencies(|w| &w.write_us),
            read_latency_us_p50_p99_max: self.latencies(|w| &w.read_us),
            pause_us_max: self.longest_pause.as_micros() as u64,
            utilization_max: self.utilization_max,
            reclaim_share_max: self.share_max,
            snapshots_taken: self.snapshots.taken,
            snapshots_read_back: self.snapshots.read_back,
            snapshot_us_max: self.snapshots.longest.as_micros() as u64,
            restart_us: self.restart.as_micros() as u64,
            stats: &self.stats,
        }
    }
}

/// The summary as data. Latencies are those that clients saw: median, 99th percentile, longest.
#[derive(Serialize)]
pub struct Figures<'a> {
    all_right: bool,
    blocks_verified: u64,
    blocks_wrong: u64,
    problems: &'a [String],
    client_write_bytes: u64,
    client_read_bytes: u64,
    client_trim_bytes: u64,
    write_latency_us_p50_p99_max: [u32; 3],
    read_latency_us_p50_p99_max: [u32; 3],
    pause_us_max: u64,
    utilization_max: f64,
    reclaim_share_max: f64,
    snapshots_taken: u64,
    snapshots_read_back: u64,
    snapshot_us_max: u64,
    restart_us: u64,
    /// The store when the load was over.
    stats: &'a Stats,
}

fn latency([half, most, last]: [u32; 3]) -> String {
    let [half, most, last] =
        [half, most, last].map(|us| milliseconds(Duration::from_micros(us.into())));
    format!("p50 {half}, p99 {most}, longest {last}")
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Written) -> u64| ByteSize(self.written.iter().map(of).sum());
        let (stats, snapshots) = (&self.stats, &self.snapshots);
        let requests: usize = self.written.iter().map(|w| w.write_us.len()).sum();
        writeln!(
            f,
            "clients     wrote {} in {} requests, read {}, trimmed {}",
            sum(|w| w.bytes_written),
            grouped(requests as u64),
            sum(|w| w.bytes_read),
            sum(|w| w.bytes_trimmed),
        )?;
        writeln!(f, "writes      {}", latency(self.latencies(|w| &w.write_us)))?;
        writeln!(f, "reads       {}", latency(self.latencies(|w| &w.read_us)))?;
        writeln!(
            f,
            "pauses      longest time without an answered write {}; clients had to wait for \
             reclaim {} times",
            milliseconds(self.longest_pause),
            stats.panics,
        )?;
        writeln!(
            f,
            "media       write amplification {:.2} = {} written to the device / {} by clients \
             (log {}, reclaim {}, map {})",
            stats.write_amplification,
            ByteSize(stats.device_write_bytes),
            ByteSize(stats.accepted_write_bytes),
            ByteSize(stats.log_write_bytes),
            ByteSize(stats.reclaim_write_bytes),
            ByteSize(stats.map_write_bytes),
        )?;
        writeln!(
            f,
            "reclaim     {} of {} allocated segments reclaimed, {} blocks moved, {} walks of the \
             map; utilization up to {:.0} %, share of bandwidth up to {:.0} %",
            grouped(stats.segments_reclaimed),
            grouped(stats.segments_allocated),
            grouped(stats.moved_bytes / BLOCK_SIZE),
            grouped(stats.reclaim_cycles),
            self.utilization_max * 100.0,
            self.share_max * 100.0,
        )?;
        writeln!(
            f,
            "snapshots   {} taken under load, {} read back in full; taking one took at most {}",
            snapshots.taken,
            snapshots.read_back,
            milliseconds(snapshots.longest),
        )?;
        writeln!(
            f,
            "restart     closed and opened again in {}, every block read once more",
            milliseconds(self.restart),
        )?;
        for problem in &self.problems {
            writeln!(f, "PROBLEM     {problem}")?;
        }
        write!(
            f,
            "verified    {} blocks compared, {} wrong: {}",
            grouped(self.blocks_verified),
            grouped(self.blocks_wrong),
            if self.all_right() { "everything verified" } else { "NOT everything verified" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let written = Written { write_us: (1..=1000).collect(), ..Written::default() };
        Summary {
            written: vec![written],
            snapshots: SnapshotsDone::default(),
            stats: Stats::default(),
            utilization_max: 0.8,
            share_max: 0.4,
            longest_pause: Duration::from_millis(3),
            restart: Duration::from_millis(20),
            blocks_verified: 12345,
            blocks_wrong: 0,
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_good_run_says_so() {
        let text = summary().to_string();
        assert!(text.contains("p50 0.50 ms, p99 0.99 ms, longest 1.00 ms"), "{text}");
        assert!(text.ends_with("12,345 blocks compared, 0 wrong: everything verified"), "{text}");
    }

    #[test]
    fn one_wrong_block_or_one_problem_is_enough() {
        let wrong = Summary { blocks_wrong: 1, ..summary() };
        assert!(!wrong.all_right() && wrong.to_string().ends_with("NOT everything verified"));
        let problem = Summary { problems: vec!["zone 3 is odd".into()], ..summary() };
        assert!(!problem.all_right() && problem.to_string().contains("PROBLEM     zone 3 is odd"));
    }
}
