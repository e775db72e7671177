//! Addresses of requests, in slots: multiples of the job's alignment within its part of the volume.

use super::chance::Chance;
use super::error::Mistake;
use super::parse;
use super::scatter::Scatter;
use super::zipf::Zipf;

/// Where random requests go, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    Zipf {
        theta: f64,
    },
    /// Percentages of accesses and of space, from the part's start on.
    Zoned(Vec<(u64, u64)>),
}

impl Distribution {
    const FIELD: &'static str = "random_distribution";

    pub(super) fn parse(text: &str) -> Result<Self, Mistake> {
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        let missing =
            |example: &str| Mistake::new(Self::FIELD, format!("{text:?}: write {example}"));
        match parse::word(Self::FIELD, word, &["random", "zipf", "hotcold", "zoned"])? {
            0 if rest.is_none() => Ok(Distribution::Uniform),
            0 => Err(missing("random alone")),
            1 => {
                let theta = rest.ok_or_else(|| missing("zipf:THETA, as zipf:1.2"))?;
                let theta: f64 = theta.parse().map_err(|_| missing("zipf:THETA, as zipf:1.2"))?;
                if !(0.0..=10.0).contains(&theta) {
                    return Err(missing("a theta from 0 to 10"));
                }
                Ok(Distribution::Zipf { theta })
            }
            2 => {
                let hot =
                    rest.ok_or_else(|| missing("hotcold:ACCESSES/SPACE, as hotcold:90/10"))?;
                let pair = hot.split_once('/').and_then(|(accesses, space)| {
                    Some((accesses.parse::<u64>().ok()?, space.parse::<u64>().ok()?))
                });
                match pair {
                    Some((accesses @ 0..=100, space @ 0..=100)) => Ok(Distribution::Zoned(vec![
                        (accesses, space),
                        (100 - accesses, 100 - space),
                    ])),
                    _ => Err(missing("two percentages, as hotcold:90/10")),
                }
            }
            _ => {
                let zones =
                    rest.ok_or_else(|| missing("zoned:ACCESSES/SPACE:..., as zoned:60/10:40/90"))?;
                Ok(Distribution::Zoned(parse::zones(Self::FIELD, zones)?))
            }
        }
    }
}

/// Draws slots.
#[derive(Clone, Debug)]
pub(super) enum Slots {
    Uniform {
        count: u64,
    },
    Zipf {
        law: Zipf,
        scatter: Scatter,
    },
    /// Accesses up to and with the zone, in percent, and its slots.
    Zoned(Vec<(u64, std::ops::Range<u64>)>),
}

impl Slots {
    /// For `count` slots, at least one; `key` scatters ranks.
    pub(super) fn new(distribution: &Distribution, count: u64, key: u64) -> Result<Self, Mistake> {
        Ok(match distribution {
            Distribution::Uniform => Slots::Uniform { count },
            Distribution::Zipf { theta } => {
                Slots::Zipf { law: Zipf::new(count, *theta), scatter: Scatter::new(count, key) }
            }
            Distribution::Zoned(zones) => {
                let (mut accesses, mut space) = (0, 0);
                let mut start = 0;
                let mut drawn = Vec::new();
                for (access, share) in zones {
                    space += share;
                    let end = (u128::from(count) * u128::from(space) / 100) as u64;
                    if *access > 0 {
                        if end == start {
                            let what = format!(
                                "a zone of {share} percent of the space is less than one request: \
                                 enlarge it or `size`"
                            );
                            return Err(Mistake::new(Distribution::FIELD, what));
                        }
                        accesses += access;
                        drawn.push((accesses, start..end));
                    }
                    start = end;
                }
                Slots::Zoned(drawn)
            }
        })
    }

    pub(super) fn draw(&self, chance: &mut Chance) -> u64 {
        match self {
            Slots::Uniform { count } => chance.below(*count),
            Slots::Zipf { law, scatter } => scatter.place(law.draw(chance)),
            Slots::Zoned(zones) => {
                let draw = chance.below(100);
                let (_, slots) =
                    zones.iter().find(|(upto, _)| draw < *upto).expect("accesses add up to 100");
                slots.start + chance.below(slots.end - slots.start)
            }
        }
    }
}
