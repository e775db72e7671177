//! Bringing a drive into a steady state at once.

use crate::chance::Chance;
use crate::ftl::page_mapped::{FtlError, PageMapped};

/// What was written to a drive before the measured run. It takes no virtual time, and always ends:
/// what is written is bounded beforehand.
#[derive(Clone, Debug, PartialEq)]
pub struct Precondition {
    /// Share of the logical pages that is written once, in order from page 0: 0 to 1.
    pub fill: f64,
    /// What is overwritten then.
    pub overwrites: Overwrites,
    /// Decides the random pages.
    pub seed: u64,
}

/// What is overwritten, of the pages that were filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overwrites {
    /// Nothing.
    None,
    /// All of them in order, `times` over.
    Sequential {
        /// How often.
        times: f64,
    },
    /// Pages drawn uniformly, as many as were filled `times` over.
    Uniform {
        /// How often.
        times: f64,
    },
    /// Pages drawn uniformly, until write amplification changes by less than a hundredth from one
    /// half filling to the next, but at most `times_max`.
    UniformUntilSteady {
        /// At most how often.
        times_max: f64,
    },
    /// `hot_writes` of the writes go uniformly to the first `hot_pages` of the filled pages, the
    /// rest uniformly to the others.
    HotCold {
        /// How often.
        times: f64,
        /// Share of the pages that is hot, 0 to 1.
        hot_pages: f64,
        /// Share of the writes that is hot, 0 to 1.
        hot_writes: f64,
    },
}

/// What preconditioning did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreconditionReport {
    /// Pages filled.
    pub filled_pages: u64,
    /// Pages overwritten after that.
    pub overwritten_pages: u64,
    /// Write amplification of the last half filling that was overwritten; 1 if there was none.
    pub waf: f64,
    /// Whether that differs by less than a hundredth from the half filling before.
    pub steady: bool,
}

/// No drive is filled more often than this, whatever is asked.
const TIMES_MAX: f64 = 1_000.0;

impl PageMapped {
    /// Fills and overwrites the drive, in no time, and resets the counts. Shares and numbers that
    /// make no sense are taken as the nearest that do.
    pub fn precondition(&mut self, how: &Precondition) -> Result<PreconditionReport, FtlError> {
        let share = |value: f64| if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
        let filled_pages = (share(how.fill) * self.logical_pages() as f64).round() as u64;
        for page in 0..filled_pages {
            self.write(page, None)?;
        }
        let (times, until_steady) = match how.overwrites {
            Overwrites::None => (0.0, false),
            Overwrites::Sequential { times }
            | Overwrites::Uniform { times }
            | Overwrites::HotCold { times, .. } => (times, false),
            Overwrites::UniformUntilSteady { times_max } => (times_max, true),
        };
        let times = if times.is_nan() { 0.0 } else { times.clamp(0.0, TIMES_MAX) };
        let wanted = (times * filled_pages as f64).round() as u64;
        let window = (filled_pages / 2).max(1);
        let (mut chance, mut done) = (Chance(how.seed), 0);
        let (mut waf, mut steady) = (1.0, false);
        while done < wanted && !(until_steady && steady) {
            self.reset_counts();
            let part = window.min(wanted - done);
            for number in done..done + part {
                let page = match how.overwrites {
                    Overwrites::Sequential { .. } | Overwrites::None => number % filled_pages,
                    Overwrites::Uniform { .. } | Overwrites::UniformUntilSteady { .. } => {
                        chance.below(filled_pages)
                    }
                    Overwrites::HotCold { hot_pages, hot_writes, .. } => {
                        let hot = (share(hot_pages) * filled_pages as f64).round() as u64;
                        let unit = chance.below(1 << 32) as f64 / (1u64 << 32) as f64;
                        let is_hot = unit < share(hot_writes);
                        if hot == 0 || (!is_hot && hot < filled_pages) {
                            hot + chance.below(filled_pages - hot)
                        } else {
                            chance.below(hot)
                        }
                    }
                };
                self.write(page, None)?;
            }
            done += part;
            let before = std::mem::replace(&mut waf, self.counts.waf());
            steady = part == window && done > window && (waf - before).abs() < 0.01 * before;
            // Before the first victims an equal 1 says nothing.
            steady &= self.counts.victims > 0;
        }
        self.flush(None)?;
        self.reset_counts();
        Ok(PreconditionReport { filled_pages, overwritten_pages: done, waf, steady })
    }
}
