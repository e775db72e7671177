//! What is run for advice, as experiments.

use mjolnir_experiment::{Changes, Mistake, Plan, PointResult, Results};
use mjolnir_lab::FUTURES;
use mjolnir_policy::{placement, victim};
use mjolnir_units::BLOCK_SIZE;
use serde::Serialize;

use super::{Limits, Prepared};

/// What is run, and the folders of its results.
pub const STAGES: [&str; 3] = [GRID, TRIAL, LAB];
const GRID: &str = "advise-grid";
const TRIAL: &str = "advise-trial";
const LAB: &str = "advise-lab";

/// Policies that are repeated besides the default and the bound.
const SHORTLIST: usize = 3;
/// Victim policies that are tried unless others are asked for.
const VICTIMS: [&str; 5] =
    ["greedy", "cost-benefit", "cost-benefit-sqrt", "age-threshold", "windowed-greedy"];
const VICTIMS_QUICK: [&str; 2] = ["greedy", "cost-benefit"];
/// Victim policies that the bound is tried with.
const VICTIMS_FUTURE: [&str; 2] = ["greedy", "cost-benefit"];
/// Spare factors that are tried unless others are asked for.
const SPARES: [f64; 5] = [0.07, 0.12, 0.2, 0.28, 0.4];
const SPARES_QUICK: [f64; 3] = [0.1, 0.2, 0.3];
/// The lab's drive: planes of a zone, planes in all, pages of a program unit; the device file's.
const ZONE_PLANES: u64 = 4;
const PLANES: u64 = 16;
const PROGRAM_PAGES: u64 = 8;
/// Zones beyond what the spare factor says, which the engine keeps for itself.
const OWN_ZONES: u64 = 12;
const ZONES_MAX: u64 = 256;
/// Unless erase blocks would have more pages than a drive's may.
const PAGES_MAX: u64 = 1 << 15;
const ZONE_BLOCKS_MIN: u64 = 128;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The path of the trace that was made ready.
    pub trace: String,
    /// What the reports call it.
    pub source: String,
    /// Placement policies to try; all if empty.
    pub placements: Vec<String>,
    /// Victim policies to try; some if empty.
    pub victims: Vec<String>,
    /// Spare factors to try; some if empty.
    pub spares: Vec<f64>,
    /// The first seed.
    pub seed: u64,
    /// Less of everything.
    pub quick: bool,
}

/// A placement and a victim policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The placement policy.
    pub placement: String,
    /// The victim policy.
    pub victim: String,
}

impl Default for Choice {
    /// What a store does unless told otherwise.
    fn default() -> Self {
        Choice {
            placement: mjolnir_engine::OpenOptions::default().placement,
            victim: mjolnir_engine::ReclaimOptions::default().policy,
        }
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.placement, self.victim)
    }
}

/// What the grid leaves to look at more closely.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortlist {
    /// The spare factor: that at which space bought times write amplification is least.
    pub spare: f64,
    /// The best there, the default left out; the first is the best.
    pub best: Vec<Choice>,
    /// The best that knows the future.
    pub future: Option<Choice>,
}

/// The coordinates and write amplification of a point of the grid.
pub(super) fn placed(point: &PointResult) -> Option<(f64, Choice, f64)> {
    let text = |key: &str| point.configuration.get(key)?.as_str().map(str::to_owned);
    let choice = Choice { placement: text("placement")?, victim: text("victim")? };
    let waf = point.numbers.get("waf")?.mean;
    Some((point.configuration.get("spare")?.as_f64()?, choice, waf))
}

impl Choice {
    /// Whether no store can do that.
    pub(super) fn knows_future(&self) -> bool {
        FUTURES.iter().any(|(name, _)| *name == self.placement)
    }
}

impl Shortlist {
    /// Of the grid's results; `None` if no policy found room at any spare factor.
    pub fn of(grid: &Results) -> Option<Shortlist> {
        let mut found: Vec<_> = grid.points.iter().filter_map(placed).collect();
        // In the order of the grid where equal, so that the same grid gives the same list.
        found.sort_by(|a, b| a.2.total_cmp(&b.2));
        let online = || found.iter().filter(|(_, choice, _)| !choice.knows_future());
        let cost = |spare: f64, waf: f64| waf / (1.0 - spare);
        let (spare, ..) = online().min_by(|a, b| cost(a.0, a.2).total_cmp(&cost(b.0, b.2)))?;
        let there = |at: &f64| at == spare;
        let default = Choice::default();
        let best = online().filter(|(at, choice, _)| there(at) && *choice != default);
        let best: Vec<Choice> = best.take(SHORTLIST).map(|(_, choice, _)| choice.clone()).collect();
        let future = found.iter().find(|(at, choice, _)| there(at) && choice.knows_future());
        Some(Shortlist { spare: *spare, best, future: future.map(|(_, choice, _)| choice.clone()) })
    }
}

impl Ask {
    /// How much of a trace is taken.
    pub fn limits(&self) -> Limits {
        match self.quick {
            true => Limits { requests: 400_000, blocks: 4 << 20 },
            false => Limits { requests: 4_000_000, blocks: 64 << 20 },
        }
    }

    /// Blocks written before those that are measured, and those.
    pub fn block_writes(&self, prepared: &Prepared) -> (u64, u64) {
        let (warm, measured, most) = match self.quick {
            true => (1, 2, 1_500_000),
            false => (2, 4, 24_000_000),
        };
        let measured = (measured * prepared.blocks).max(prepared.written_blocks);
        let warm = warm * prepared.blocks;
        match warm + measured > most {
            true => (most / 3, most - most / 3),
            false => (warm, measured),
        }
    }

    /// The rules of the replay, in sentences.
    pub fn rules(&self, prepared: &Prepared) -> Vec<String> {
        let (warm, measured) = self.block_writes(prepared);
        let times = |blocks: u64| blocks as f64 / prepared.blocks as f64;
        let passes = (warm + measured) as f64 / prepared.written_blocks as f64;
        let all = times(warm + measured);
        let looped = match passes > 1.0 {
            true => format!("it is looped ({passes:.1} passes)"),
            false => format!("{passes:.2} of it is replayed"),
        };
        let mut rules = vec![format!(
            "the trace writes the drive {:.2} times over; {looped} until the drive was written {all:.1} \
             times, of which the last {:.1} count",
            prepared.drive_writes(),
            times(measured),
        )];
        if self.quick {
            let less = "a quick run: fewer policies, spare sizes, starts and drive writes than without --quick";
            rules.insert(0, less.to_owned());
        }
        if all < 1.5 {
            rules.push(format!(
                "{all:.1} drive writes are few to tell policies apart{}",
                if self.quick { ": leave --quick away for more" } else { "" }
            ));
        }
        rules
    }

    fn placements(&self) -> Vec<String> {
        match self.placements.is_empty() {
            true => placement::names().map(str::to_owned).collect(),
            false => self.placements.clone(),
        }
    }

    fn victims(&self) -> Vec<String> {
        let known = || victim::names().filter(|name| VICTIMS.contains(name));
        match (self.victims.is_empty(), self.quick) {
            (false, _) => self.victims.clone(),
            (true, true) => VICTIMS_QUICK.map(str::to_owned).into(),
            (true, false) => known().map(str::to_owned).collect(),
        }
    }

    /// The spare factors that are tried.
    pub fn spares(&self) -> Vec<f64> {
        match (self.spares.is_empty(), self.quick) {
            (false, _) => self.spares.clone(),
            (true, true) => SPARES_QUICK.into(),
            (true, false) => SPARES.into(),
        }
    }

    fn replay(&self, prepared: &Prepared) -> String {
        let (warm, measured) = self.block_writes(prepared);
        format!(
            "[configuration]\ntrace = {}\nblocks = {}\nwarm_blocks = {warm}\nmeasured_blocks = \
             {measured}\n",
            word(&self.trace),
            prepared.blocks
        )
    }

    /// Every policy, at every spare factor.
    ///
    /// # Errors
    ///
    /// A policy or spare factor that cannot be.
    pub fn grid(&self, prepared: &Prepared) -> Result<Plan, Mistake> {
        let default = Choice::default();
        let with = |mut names: Vec<String>, one: String| {
            // What the others are compared with.
            if !names.contains(&one) {
                names.insert(0, one);
            }
            names
        };
        let placements = with(self.placements(), default.placement);
        let victims = with(self.victims(), default.victim);
        let shown = victims.get(1).or(victims.first()).cloned().unwrap_or_default();
        let futures = FUTURES.map(|(name, _)| name);
        let source = word(&self.source);
        let text = format!(
            r#"name = "{GRID}"
title = "Every policy, by spare factor"
source = {source}
question = "Which placement and victim policy write least, and how much spare space is worth its price?"
kind = "replay"
notes = [
    "The trace's writes and trims through a log of segments, in the fast replayer: no metadata, no time.",
    "Policies called future know when each block will be overwritten. No store can; they show how much room is left.",
]
{}
[[case]]
name = "policies"
sweep.placement = {}
sweep.victim = {}
[[case]]
name = "with the future known"
sweep.placement = {}
sweep.victim = {}
[[figure]]
name = "spare"
title = "Write amplification by spare factor"
x = "spare"
y = ["waf"]
where = {{ victim = {} }}
series = ["placement"]
x_label = "Share of the store that is kept free"
y_label = "Blocks written for each block of the client"
caption = "Victims by {shown}. Those called future know the future."
[[figure]]
name = "victims"
title = "Write amplification by victim policy, at the largest spare factor"
x = "placement"
y = ["waf"]
where = {{ spare = {} }}
series = ["victim"]
x_label = "Placement policy"
y_label = "Blocks written for each block of the client"
"#,
            self.replay(prepared) + &format!("[sweep]\nspare = {:?}\n", self.spares()),
            words(&placements),
            words(&victims),
            words(&futures),
            words(&VICTIMS_FUTURE),
            word(&shown),
            self.spares().iter().copied().fold(0.0, f64::max),
        );
        self.plan(GRID, &text, 1, self.seed)
    }

    /// The shortlist, the default and the bound, from several places of the trace.
    ///
    /// # Errors
    ///
    /// None that [`Ask::grid`] did not meet.
    pub fn trial(&self, prepared: &Prepared, list: &Shortlist) -> Result<Plan, Mistake> {
        let choices = [Choice::default()].into_iter().chain(list.best.iter().cloned());
        let choices: Vec<Choice> = choices.chain(list.future.clone()).collect();
        let source = word(&self.source);
        let mut text = format!(
            r#"name = "{TRIAL}"
title = "The best few, again"
source = {source}
question = "How sure is the choice?"
kind = "replay"
notes = ["Each seed begins the trace at another request."]
{}
[[figure]]
name = "trial"
title = "Write amplification at a spare factor of {}"
x = "case"
y = ["waf", "waf_first_half", "waf_second_half"]
x_label = "Placement, victim policy"
y_label = "Blocks written for each block of the client"
style = "bars"
"#,
            self.replay(prepared) + &format!("spare = {:?}\n", list.spare),
            list.spare,
        );
        for choice in &choices {
            let Choice { placement, victim } = choice;
            text += &format!(
                "[[case]]\nname = \"{choice}\"\nconfiguration = {{ placement = \"{placement}\", \
                 victim = \"{victim}\" }}\n"
            );
        }
        // Other places than that of the grid, by which they were chosen.
        self.plan(TRIAL, &text, if self.quick { 3 } else { 5 }, self.seed.wrapping_add(1))
    }

    /// The choice and the default on the shipping engine.
    ///
    /// # Errors
    ///
    /// The drive cannot be.
    pub fn lab(&self, prepared: &Prepared, spare: f64, best: &Choice) -> Result<Plan, Mistake> {
        let wanted = (prepared.blocks as f64 / (1.0 - spare)).ceil() as u64;
        let (blocks_per_plane, pages_per_block) = plane_for(wanted);
        let (requests, warm, drive_writes) =
            if self.quick { (60_000, 1.0, 2.0) } else { (2_000_000, 3.0, 4.0) };
        // What comes before the beginning is left for a pass more.
        let most = f64::max(warm, drive_writes);
        let passes = 2 + (most / prepared.drive_writes()) as u64;
        let source = word(&self.source);
        let mut text = format!(
            r#"name = "{LAB}"
title = "The choice and the default on the engine that ships"
source = {source}
question = "Does it hold there, and how long do requests take?"
kind = "simulate"
notes = [
    "NVMeVirt's 970 PRO, cut to this trace's data, with an erase of 3 ms, and 64 MiB of writes that may wait in memory, as a store's. The drive was filled in order, and then written {warm} times over by the trace itself, before it was measured. Requests come at the trace's times, however long they wait.",
    "Each seed begins the trace at another request.",
]
[configuration]
device = {{ file = "970pro", nand = {{ blocks_per_plane = {blocks_per_plane}, pages_per_block = {pages_per_block} }}, timing = {{ erase_ns = 3_000_000 }}, controller = {{ write_buffer_bytes = 67_108_864 }} }}
drive = {{ kind = "engine", bytes = {}, zone_planes = {ZONE_PLANES} }}
precondition = {{ fill = 1.0, workload = {warm:.1} }}
measure = {{ drive_writes = {drive_writes:.1}, requests = {requests} }}
[configuration.workload]
trace = {}
start_by_seed = true
fit = {{ passes = {passes} }}
"#,
            prepared.blocks * BLOCK_SIZE,
            word(&self.trace),
        );
        let default = Choice::default();
        let others = (*best != default).then_some(best);
        for choice in std::iter::once(&default).chain(others) {
            text += &format!(
                "[[case]]\nname = \"{choice}\"\nconfiguration = {{ engine = {{ placement = \
                 \"{}\", victim = \"{}\" }} }}\n",
                choice.placement, choice.victim
            );
        }
        // Most writes take no time beside the few that wait.
        for (name, title, course, x_log) in [
            ("write-latency", "How long writes take", "write_latency", true),
            ("write-bandwidth", "Writes over time", "write_bandwidth", false),
        ] {
            text += &format!(
                "[[figure]]\nname = \"{name}\"\ntitle = \"{title}\"\ncourse = \"{course}\"\nx_log = {x_log}\n"
            );
        }
        self.plan(LAB, &text, if self.quick { 3 } else { 5 }, self.seed)
    }

    fn plan(&self, name: &str, text: &str, seeds: u32, seed: u64) -> Result<Plan, Mistake> {
        let (seed, seeds) = (Some(seed), Some(seeds));
        let changes = Changes { quick: false, seed, seeds, set: Vec::new() };
        let mut plan = Plan::new(name, text, &changes, &mjolnir_lab::kinds())?;
        plan.quick = self.quick;
        Ok(plan)
    }
}

/// What each plane of the lab's drive has for so many blocks beside those that the engine keeps for itself:
/// erase blocks, and pages in one.
fn plane_for(wanted: u64) -> (u64, u64) {
    let zones = (wanted / ZONE_BLOCKS_MIN).clamp(16, ZONES_MAX);
    let per_zone = wanted.div_ceil(zones).div_ceil(ZONE_PLANES);
    let pages_per_block = per_zone.next_multiple_of(PROGRAM_PAGES).clamp(32, PAGES_MAX);
    let zones = wanted.div_ceil(pages_per_block * ZONE_PLANES) + OWN_ZONES;
    (zones.div_ceil(PLANES / ZONE_PLANES), pages_per_block)
}

/// As TOML writes it; a text in JSON is one in TOML, too.
fn word(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn words<S: AsRef<str>>(all: &[S]) -> String {
    let all: Vec<String> = all.iter().map(|text| word(text.as_ref())).collect();
    format!("[{}]", all.join(", "))
}

#[cfg(test)]
mod tests {
    use mjolnir_flash::Device;

    use super::*;

    #[test]
    fn a_drive_for_any_trace_is_one_that_can_be() {
        for wanted in [5_000, 1 << 20, 1 << 25, (1 << 25) + 1, 40_000_000, 1 << 26, 120_000_000] {
            let (blocks_per_plane, pages_per_block) = plane_for(wanted);
            let mut device = Device::shipped("970pro").unwrap();
            device.nand.blocks_per_plane = blocks_per_plane as u32;
            device.nand.pages_per_block = pages_per_block as u32;
            // Its firmware is the engine.
            device.ftl.over_provisioning = 0.5;
            assert_eq!(device.check("970pro"), Ok(()), "{wanted}");
            assert!(PLANES * blocks_per_plane * pages_per_block > wanted, "{wanted}");
        }
    }
}
