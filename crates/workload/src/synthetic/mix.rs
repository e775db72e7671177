//! The kind and size of the next request.

use super::chance::Chance;
use super::error::Mistake;
use super::parse;
use super::spec::Value;
use crate::{MAX_LENGTH, Op};

/// Sizes with their percentages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(Vec<(u64, u64)>);

impl Sizes {
    pub(super) fn draw(&self, chance: &mut Chance) -> u64 {
        if let [(size, _)] = self.0[..] {
            return size;
        }
        let mut rest = chance.below(100);
        for (size, percent) in &self.0 {
            match rest.checked_sub(*percent) {
                Some(left) => rest = left,
                None => return *size,
            }
        }
        unreachable!("the percentages add up to 100")
    }

    pub(super) fn smallest(&self) -> u64 {
        self.0.iter().map(|(size, _)| *size).min().expect("at least one size")
    }

    pub(super) fn largest(&self) -> u64 {
        self.0.iter().map(|(size, _)| *size).max().expect("at least one size")
    }

    /// For reads, writes and trims, from `bs` or `bssplit`.
    pub(super) fn of_job(bs: Option<&Value>, bssplit: Option<&str>) -> Result<[Sizes; 3], Mistake> {
        let (field, text) = match (bs, bssplit) {
            (Some(_), Some(_)) => {
                return Err(Mistake::new("bssplit", "is said beside bs: write one of them"));
            }
            (None, None) => ("bs", "4096".to_owned()),
            (None, Some(text)) => ("bssplit", text.to_owned()),
            (Some(Value::Number(bytes)), None) => ("bs", bytes.to_string()),
            (Some(Value::Text(text)), None) => ("bs", text.clone()),
        };
        let parts = text
            .split(',')
            .map(|part| if field == "bs" { Self::one(part) } else { Self::split(part) })
            .collect::<Result<Vec<_>, _>>()?;
        match &parts[..] {
            [all] => Ok([all.clone(), all.clone(), all.clone()]),
            [read, write] => Ok([read.clone(), write.clone(), write.clone()]),
            [read, write, trim] => Ok([read.clone(), write.clone(), trim.clone()]),
            _ => Err(Mistake::new(
                field,
                format!(
                    "{text:?} has {} parts: write one, or one each for reads, writes, trims",
                    parts.len()
                ),
            )),
        }
    }

    fn one(text: &str) -> Result<Sizes, Mistake> {
        Ok(Sizes(vec![(Self::size("bs", text)?, 100)]))
    }

    fn split(text: &str) -> Result<Sizes, Mistake> {
        let field = "bssplit";
        let mut sizes = Vec::new();
        for part in text.split(':') {
            let (size, percent) = part.split_once('/').ok_or_else(|| {
                Mistake::new(field, format!("{part:?} is not of the form SIZE/PERCENT, as 4k/60"))
            })?;
            let percent: u64 = percent.trim().parse().map_err(|_| {
                Mistake::new(field, format!("{percent:?} in {part:?} is no percentage"))
            })?;
            sizes.push((Self::size(field, size)?, parse::percent(field, percent)?));
        }
        let total: u64 = sizes.iter().map(|(_, percent)| percent).sum();
        if total != 100 {
            let what = format!("{text:?}: the percentages add up to {total}, not to 100");
            return Err(Mistake::new(field, what));
        }
        sizes.retain(|(_, percent)| *percent > 0);
        Ok(Sizes(sizes))
    }

    fn size(field: &str, text: &str) -> Result<u64, Mistake> {
        match parse::size_text(field, text)? {
            0 => Err(Mistake::new(field, "a request of 0 bytes: write at least 1")),
            size if size > MAX_LENGTH => {
                Err(Mistake::new(field, format!("{text:?} is more than the 1 GiB of a request")))
            }
            size => Ok(size),
        }
    }
}

/// The shares of operations, in percent of all requests. What trims and zeroes leave is reads and
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Of reads, among reads and writes; or what the job does alone.
    pub base: Base,
    pub trims: u64,
    pub zeroes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Only(Op),
    Reads(u64),
}

impl Shares {
    /// Whether some requests write data.
    pub(super) fn write(&self) -> bool {
        let base = match self.base {
            Base::Only(op) => op == Op::Write,
            Base::Reads(percent) => percent < 100,
        };
        base && self.trims + self.zeroes < 100
    }

    pub(super) fn draw(&self, chance: &mut Chance) -> Op {
        if self.trims + self.zeroes > 0 {
            let draw = chance.below(100);
            if draw < self.trims {
                return Op::Trim;
            }
            if draw < self.trims + self.zeroes {
                return Op::WriteZeroes;
            }
        }
        match self.base {
            Base::Only(op) => op,
            Base::Reads(percent) if chance.below(100) < percent => Op::Read,
            Base::Reads(_) => Op::Write,
        }
    }
}
