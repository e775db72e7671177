//! What a drive held before the measured run: which blocks are written, in which order.

use mjolnir_vtime::Chance;

use super::spec::PreconditionSpec;

/// No drive is overwritten more often than this, whatever is asked.
const OVERWRITES_MAX: f64 = 1_000.0;

/// Which blocks are overwritten.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    Uniform,
    Sequential,
    /// Percentages of writes and of space.
    HotCold(u64, u64),
}

/// A precondition, checked.
#[derive(Clone, Debug)]
pub struct Precondition {
    pattern: Pattern,
    fill: f64,
    overwrites: f64,
    request_blocks: u64,
}

impl Precondition {
    /// Checks it.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the key.
    pub fn new(spec: &PreconditionSpec) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&spec.fill) {
            return Err(format!("precondition.fill = {}: write a share from 0 to 1", spec.fill));
        }
        if !(0.0..=OVERWRITES_MAX).contains(&spec.overwrites) {
            return Err(format!(
                "precondition.overwrites = {}: write a number from 0 to {OVERWRITES_MAX}",
                spec.overwrites
            ));
        }
        if !(0.0..=OVERWRITES_MAX).contains(&spec.workload) {
            return Err(format!(
                "precondition.workload = {}: write a number from 0 to {OVERWRITES_MAX}",
                spec.workload
            ));
        }
        if !(1..=128).contains(&spec.request_blocks) {
            return Err(format!(
                "precondition.request_blocks = {}: write a number from 1 to 128",
                spec.request_blocks
            ));
        }
        if spec.overwrites > 0.0 && spec.fill == 0.0 && spec.restore.is_none() {
            return Err("precondition.overwrites: nothing was filled that could be overwritten; \
                        write precondition.fill too"
                .to_owned());
        }
        let pattern = match spec.pattern.split_once(':') {
            None if spec.pattern == "uniform" => Pattern::Uniform,
            None if spec.pattern == "sequential" => Pattern::Sequential,
            Some(("hotcold", shares)) => Self::hot_cold(shares)?,
            _ => {
                return Err(format!(
                    "precondition.pattern = {:?}: write \"uniform\", \"sequential\" or \
                     \"hotcold:WRITES/SPACE\"",
                    spec.pattern
                ));
            }
        };
        Ok(Precondition {
            pattern,
            fill: spec.fill,
            overwrites: spec.overwrites,
            request_blocks: spec.request_blocks,
        })
    }

    fn hot_cold(shares: &str) -> Result<Pattern, String> {
        let percent =
            |text: &str| text.parse::<u64>().ok().filter(|share| (1..=99).contains(share));
        shares
            .split_once('/')
            .and_then(|(writes, space)| Some(Pattern::HotCold(percent(writes)?, percent(space)?)))
            .ok_or_else(|| {
                format!(
                    "precondition.pattern = \"hotcold:{shares}\": write two percentages from 1 to \
                     99, as hotcold:80/20"
                )
            })
    }

    /// The same for a drive that counts in pages of so many bytes.
    pub fn in_pages(mut self, page_bytes: u64) -> Self {
        let bytes = self.request_blocks * mjolnir_units::BLOCK_SIZE;
        self.request_blocks = (bytes / page_bytes).max(1);
        self
    }

    /// Blocks that are filled, of a drive of so many.
    pub fn filled(&self, blocks: u64) -> u64 {
        (self.fill * blocks as f64).round() as u64
    }

    /// The overwrites: first block and number of blocks of each. `filled` blocks hold data.
    pub fn overwrites(&self, filled: u64, seed: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let count = self.request_blocks.min(filled.max(1));
        let slots = (filled / count).max(1);
        let wanted = (self.overwrites * filled as f64 / count as f64).round() as u64;
        let pattern = self.pattern;
        let mut chance = Chance::new(seed);
        (0..wanted).map(move |number| {
            let slot = match pattern {
                Pattern::Uniform => chance.below(slots),
                Pattern::Sequential => number % slots,
                Pattern::HotCold(writes, space) => {
                    let hot = (slots * space / 100).clamp(1, slots);
                    if hot == slots || chance.below(100) < writes {
                        chance.below(hot)
                    } else {
                        hot + chance.below(slots - hot)
                    }
                }
            };
            (slot * count, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Result<Precondition, String> {
        Precondition::new(&PreconditionSpec {
            fill: 0.5,
            overwrites: 2.0,
            pattern: pattern.into(),
            request_blocks: 2,
            ..PreconditionSpec::default()
        })
    }

    #[test]
    fn overwrites_stay_within_what_was_filled_and_are_bounded() {
        for pattern in ["uniform", "sequential", "hotcold:90/10"] {
            let how = of(pattern).unwrap();
            let filled = how.filled(1001);
            let writes: Vec<_> = how.overwrites(filled, 1).collect();
            assert_eq!((filled, writes.len()), (501, 501), "{pattern}");
            assert!(writes.iter().all(|(first, count)| first + count <= filled), "{pattern}");
            let hot = writes.iter().filter(|(first, _)| *first < 50).count();
            assert_eq!(hot > 300, pattern.starts_with("hot"), "{pattern}: {hot}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        for pattern in ["zipf", "hotcold:0/10", "hotcold", "hotcold:1"] {
            assert!(of(pattern).unwrap_err().contains("precondition.pattern"), "{pattern}");
        }
    }
}
