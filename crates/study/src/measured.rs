//! What a study measured, and how it is told.

use std::collections::BTreeMap;

use mjolnir_engine::ReclaimOptions;
use mjolnir_experiment::{Outcome, Series};
use mjolnir_store::report::Stats;
use mjolnir_units::{BLOCK_SIZE, ByteSize};
use mjolnir_workload::Op;

use super::drive::DriveId;
use super::meter::Meter;

/// Blocks of 4 KiB written to NAND, by cause, while the host wrote so many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Written {
    /// What the host wrote: the term below in the write amplification.
    pub host_blocks: f64,
    /// Data that reclaim moved.
    pub reclaim_blocks: f64,
    /// Everything else that was written on purpose: headers, footers, map, summaries.
    pub metadata_blocks: f64,
    /// What filled up program units, and pages of which the host wrote a part.
    pub padding_blocks: f64,
    /// What was copied off erase blocks that failed, by the drive's controller.
    pub rewritten_blocks: f64,
}

impl Written {
    /// All of it: the term above in the write amplification.
    pub fn total_blocks(&self) -> f64 {
        self.host_blocks
            + self.reclaim_blocks
            + self.metadata_blocks
            + self.padding_blocks
            + self.rewritten_blocks
    }

    /// Write amplification; 1 where the host wrote nothing.
    pub fn waf(&self) -> f64 {
        if self.host_blocks > 0.0 { self.total_blocks() / self.host_blocks } else { 1.0 }
    }

    /// Write amplification of data alone, as closed forms have it.
    pub fn data_waf(&self) -> f64 {
        if self.host_blocks > 0.0 {
            (self.host_blocks + self.reclaim_blocks) / self.host_blocks
        } else {
            1.0
        }
    }
}

/// Why no segment was given up, by what the engine counted before and after.
pub fn reclaim_rested((before, after): (&Stats, &Stats), reclaim: &ReclaimOptions) -> String {
    let difference = |of: fn(&Stats) -> u64| of(after) - of(before);
    let (moved, walks) = (difference(|s| s.moved_bytes), difference(|s| s.reclaim_cycles));
    let (used, start) = (100.0 * after.space.utilization, 100.0 * reclaim.start_utilization);
    let stale = after.space.stale_bytes;
    if moved > 0 {
        format!(
            "reclaim had only begun: {} blocks were moved, and no segment was given up yet; measure \
             longer",
            moved / BLOCK_SIZE
        )
    } else if difference(|s| s.accepted_write_bytes) == 0 {
        "reclaim did not run: nothing was written".to_owned()
    } else if used < start {
        format!(
            "reclaim did not run: {used:.0} % of the segments are in use, and it begins at \
             {start:.0} % (engine.start_utilization); write more, or precondition"
        )
    } else if stale + after.space.uncounted_bytes == 0 {
        format!(
            "reclaim did not run: {used:.0} % of the segments are in use, but all that they hold is \
             live, so there is nothing to win; overwrite or trim something"
        )
    } else if walks > 0 {
        format!(
            "reclaim won nothing: {walks} walks of the map, and with {} stale in all no victim that \
             was done with by the end; write more, or measure longer",
            ByteSize(stale)
        )
    } else {
        format!(
            "reclaim did not run: {used:.0} % of the segments are in use, and the pacing policy {} \
             still had it wait; write more, or measure longer",
            reclaim.pacing
        )
    }
}

/// What a study measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// On which of the run's drives.
    pub drive: DriveId,
    /// What was written, by cause.
    pub written: Written,
    /// Requests completed.
    pub requests: u64,
    /// Whether reclaim ran while it was measured.
    pub reclaim_ran: bool,
    /// All figures, courses and sentences.
    pub outcome: Outcome,
}

/// Collects figures, by the names that all runs give them.
#[derive(Default)]
pub struct Figures {
    /// As an [`Outcome`] has them.
    pub numbers: BTreeMap<String, f64>,
    /// As an [`Outcome`] has them.
    pub series: BTreeMap<String, Series>,
    /// As an [`Outcome`] has them.
    pub notes: Vec<String>,
}

impl Figures {
    /// A single figure.
    pub fn number(&mut self, name: &str, value: f64) {
        self.numbers.insert(name.to_owned(), value);
    }

    /// A course: its name, what x and y are, and the pairs.
    pub fn course(&mut self, name: &str, x: &str, y: &str, points: Vec<(f64, f64)>) {
        let series = Series { x: x.to_owned(), y: y.to_owned(), points };
        self.series.insert(name.to_owned(), series);
    }

    /// Write amplification and both its terms.
    pub fn written(&mut self, written: &Written) {
        self.number("waf", written.waf());
        self.number("waf_data", written.data_waf());
        let rewritten = (written.rewritten_blocks > 0.0).then_some(written.rewritten_blocks);
        let causes = [
            ("host", written.host_blocks),
            ("reclaim", written.reclaim_blocks),
            ("metadata", written.metadata_blocks),
            ("padding", written.padding_blocks),
            ("media", written.total_blocks()),
        ];
        for (name, blocks) in causes.into_iter().chain(rewritten.map(|some| ("rewritten", some))) {
            self.number(&format!("written_{name}_blocks"), blocks);
            if written.host_blocks > 0.0 && name != "media" {
                self.number(&format!("waf_part_{name}"), blocks / written.host_blocks);
            }
        }
    }

    /// Requests, and in a timed run how long they took.
    pub fn meter(&mut self, meter: &Meter, timed: bool) {
        self.number("requests", meter.requests as f64);
        for op in Op::ALL {
            let latencies = meter.latencies(op);
            let name = op.name().replace('-', "_");
            if latencies.count() == 0 {
                continue;
            }
            self.number(&format!("{name}_requests"), latencies.count() as f64);
            self.number(&format!("{name}_bytes"), meter.bytes[op.index()] as f64);
            if !timed {
                continue;
            }
            let us = |ns: f64| ns / 1e3;
            self.number(&format!("{name}_mean_us"), us(latencies.mean_ns()));
            for (share, label) in
                [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99_9"), (0.9999, "p99_99")]
            {
                let value = us(latencies.percentile_ns(share) as f64);
                self.number(&format!("{name}_{label}_us"), value);
            }
            self.number(&format!("{name}_max_us"), us(latencies.max_ns() as f64));
            let shares = (1..=200).map(|step| match step {
                1..=99 => f64::from(step) / 100.0,
                // Ever finer towards the end.
                _ => 1.0 - 0.01 / 1.07f64.powi(step - 99),
            });
            let points =
                shares.map(|share| (us(latencies.percentile_ns(share) as f64), share)).collect();
            self.course(&format!("{name}_latency"), "latency_us", "share", points);
        }
        if timed {
            let seconds = meter.elapsed_ns() as f64 / 1e9;
            self.number("elapsed_s", seconds);
            if seconds > 0.0 {
                self.number("requests_per_s", meter.requests as f64 / seconds);
                for (op, name) in [(Op::Read, "read"), (Op::Write, "write")] {
                    let mib = meter.bytes[op.index()] as f64 / f64::from(1 << 20);
                    self.number(&format!("{name}_mib_per_s"), mib / seconds);
                }
            }
            let (pause, at) = meter.longest_pause_ns();
            self.number("pause_max_us", pause as f64 / 1e3);
            self.number("pause_max_at_s", at as f64 / 1e9);
            let pauses = meter.pauses();
            self.number("pauses", pauses.count() as f64);
            if pauses.count() > 0 {
                for (share, label) in [(0.5, "p50"), (0.99, "p99")] {
                    let value = pauses.percentile_ns(share) as f64 / 1e3;
                    self.number(&format!("pause_{label}_us"), value);
                }
            }
            let [reads, writes] = meter.bandwidth();
            self.series.insert("read_bandwidth".into(), reads);
            self.series.insert("write_bandwidth".into(), writes);
        }
    }

    /// How often erase blocks were erased: a distribution over erase blocks.
    pub fn wear(&mut self, erases: &[u32]) {
        let count = erases.len().max(1) as f64;
        let mean = erases.iter().map(|erases| f64::from(*erases)).sum::<f64>() / count;
        let square = |erases: &u32| (f64::from(*erases) - mean) * (f64::from(*erases) - mean);
        let deviation = (erases.iter().map(square).sum::<f64>() / count).sqrt();
        let (least, most) = (erases.iter().min(), erases.iter().max());
        self.number("wear_mean_erases", mean);
        self.number("wear_deviation_erases", deviation);
        self.number("wear_min_erases", f64::from(least.copied().unwrap_or(0)));
        self.number("wear_max_erases", f64::from(most.copied().unwrap_or(0)));
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for erases in erases {
            *counts.entry(*erases).or_default() += 1;
        }
        let points = counts.iter().map(|(erases, blocks)| (f64::from(*erases), *blocks as f64));
        self.course("wear", "erases", "erase_blocks", points.collect());
    }

    /// How full of live blocks segments are: shares of segments by utilization, in steps of 0.02.
    pub fn utilization(&mut self, shares: impl Iterator<Item = f64>) {
        const STEPS: usize = 50;
        let mut counts = [0u64; STEPS + 1];
        let mut total = 0u64;
        for share in shares {
            counts[(share.clamp(0.0, 1.0) * STEPS as f64) as usize] += 1;
            total += 1;
        }
        if total == 0 {
            return;
        }
        let point = |(step, count): (usize, &u64)| {
            (step as f64 / STEPS as f64, *count as f64 / total as f64)
        };
        let points = counts.iter().enumerate().map(point).collect();
        self.course("segment_utilization", "live_share", "share_of_segments", points);
    }

    /// All of it.
    pub fn into_outcome(self) -> Outcome {
        Outcome { numbers: self.numbers, series: self.series, notes: self.notes }
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_store::report::SpaceStats;

    use super::*;

    #[test]
    fn what_kept_reclaim_from_running_is_told_apart() {
        let of = |utilization: f64, stale_bytes: u64, change: &dyn Fn(&mut Stats)| {
            let space = SpaceStats { utilization, stale_bytes, ..SpaceStats::default() };
            let mut after = Stats { accepted_write_bytes: 4096, space, ..Stats::default() };
            change(&mut after);
            reclaim_rested((&Stats::default(), &after), &ReclaimOptions::default())
        };
        let as_it_is = |_: &mut Stats| {};
        for (said, parts) in [
            (of(0.9, 0, &|after| after.accepted_write_bytes = 0), "nothing was written"),
            (of(0.3, 4096, &as_it_is), "30 % of the segments are in use, and it begins at 50 %"),
            (of(0.8, 0, &as_it_is), "nothing to win"),
            (of(0.8, 4096, &as_it_is), "the pacing policy free-space still had it wait"),
            (
                of(0.8, 4096, &|after| after.reclaim_cycles = 2),
                "2 walks of the map, and with 4 KiB",
            ),
            (of(0.8, 4096, &|after| after.moved_bytes = 8192), "only begun: 2 blocks"),
        ] {
            assert!(said.contains(parts), "no {parts:?} in {said:?}");
        }
    }
}
