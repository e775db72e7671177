//! `uniform-overwrites`: the drive that closed forms speak of. One die and one append point, one
//! victim at a time, uniform random overwrites of single pages; untimed, data writes alone.

use mjolnir_experiment::parse_configuration;
use mjolnir_experiment::{Kind, Outcome, Series};
use mjolnir_flash::Device;
use mjolnir_flash::ftl::{Overwrites, PageMapped, Precondition};
use mjolnir_policy::victim::{self, DChoices, VictimPolicy};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use toml::Table;

use crate::closed_form::{Policy, check_pages, check_spare};

/// Writes between two looks at whether to go on.
const STRIDE: u64 = 1 << 16;
/// The most pages of the drive: more takes more memory than a point of a sweep should.
const DRIVE_PAGES_MAX: u64 = 1 << 28;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    /// (physical - logical) / physical.
    spare: f64,
    /// Pages of an erase block.
    pages: u32,
    /// Erase blocks of the drive, besides the two that are free while a victim is chosen.
    erase_blocks: u32,
    policy: Policy,
    /// Drive writes before the measured ones.
    warm: f64,
    /// Drive writes that are measured.
    measured: f64,
}

impl Configuration {
    fn device(&self) -> Result<Device, String> {
        let usable = ((1.0 - self.spare) * f64::from(self.erase_blocks)).round() as u32;
        let blocks = self.erase_blocks + 2;
        let mut device = Device::shipped("disksim-ssd").map_err(|error| error.to_string())?;
        device.nand.channels = 1;
        device.nand.planes_per_die = 1;
        device.nand.blocks_per_plane = blocks;
        device.nand.pages_per_block = self.pages;
        device.ftl.summary_page = false;
        device.ftl.low_watermark = 0.0;
        device.ftl.over_provisioning = f64::from(blocks - usable) / f64::from(blocks);
        device.check("uniform-overwrites").map_err(|error| format!("spare: {error}"))?;
        Ok(device)
    }

    fn policy(&self, seed: u64) -> Result<Box<dyn VictimPolicy>, String> {
        match (self.policy.victim.as_str(), self.policy.choices) {
            ("d-choices", Some(choices)) => Ok(Box::new(DChoices::new(choices as usize, seed))),
            (name, _) => {
                victim::seeded(name, seed).map_err(|error| format!("policy.victim: {error}"))
            }
        }
    }
}

pub(super) struct UniformOverwrites;

impl Kind for UniformOverwrites {
    fn name(&self) -> &'static str {
        "uniform-overwrites"
    }

    fn check(&self, configuration: &Table) -> Result<(), String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        check_spare(configuration.spare)?;
        check_pages(configuration.pages)?;
        configuration.policy.check()?;
        let drive_pages = u64::from(configuration.erase_blocks) * u64::from(configuration.pages);
        if configuration.erase_blocks < 16 || drive_pages > DRIVE_PAGES_MAX {
            return Err(format!(
                "erase_blocks = {}: write at least 16, and no more than {DRIVE_PAGES_MAX} pages in \
                 all",
                configuration.erase_blocks
            ));
        }
        for (key, times) in [("warm", configuration.warm), ("measured", configuration.measured)] {
            if !(0.0..=1_000.0).contains(&times) {
                return Err(format!("{key} = {times}: write how many drive writes, up to 1000"));
            }
        }
        if configuration.measured * drive_pages as f64 * (1.0 - configuration.spare) < 1.0 {
            return Err("measured: that is not one page; write more drive writes".to_owned());
        }
        configuration.policy(0)?;
        configuration.device().map(drop)
    }

    fn run(
        &self,
        configuration: &Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        let device = configuration.device()?;
        let mut ftl = PageMapped::with_victim_policy(&device, seed, configuration.policy(seed)?);
        let fill = Precondition { fill: 1.0, overwrites: Overwrites::None, seed };
        ftl.precondition(&fill).map_err(|error| error.to_string())?;
        let pages = ftl.logical_pages();
        let warm = (configuration.warm * pages as f64) as u64;
        let all = warm + (configuration.measured * pages as f64) as u64;
        // Odd, as that generator asks for.
        let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
        let mut course = Vec::new();
        let window = (pages / 4).max(1);
        let mut before = (0, 0);
        for number in 0..all {
            if number == warm {
                ftl.reset_counts();
                before = (0, 0);
            }
            if number % STRIDE == 0 && !progress(number as f64 / all as f64) {
                return Err("told to stop".to_owned());
            }
            let page = ((u128::from(random.next_u64()) * u128::from(pages)) >> 64) as u64;
            ftl.write(page, None).map_err(|error| error.to_string())?;
            if (number + 1) % window == 0 {
                let counts = ftl.counts();
                let now = (counts.host_pages, counts.reclaim_pages);
                let moved = (now.1 - before.1) as f64 / (now.0 - before.0).max(1) as f64;
                course.push(((number + 1) as f64 / pages as f64, 1.0 + moved));
                before = now;
            }
        }
        let counts = ftl.counts();
        let mut outcome = Outcome::default();
        let mut put = |name: &str, number: f64| outcome.numbers.insert(name.to_owned(), number);
        put("waf", counts.data_waf());
        put("host_pages", counts.host_pages as f64);
        put("reclaim_pages", counts.reclaim_pages as f64);
        put("victims", counts.victims as f64);
        if let Some(waf) = configuration.policy.waf(configuration.spare, configuration.pages) {
            put("closed_form_waf", waf);
            put("off_percent", 100.0 * (counts.data_waf() / waf - 1.0));
        }
        let course = Series { x: "drive_writes".to_owned(), y: "waf".to_owned(), points: course };
        outcome.series.insert("waf".to_owned(), course);
        outcome.notes.push(ftl.report().reclaim.to_string());
        Ok(outcome)
    }
}
