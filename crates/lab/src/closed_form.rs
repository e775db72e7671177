//! `closed-form`: write amplification by formula.

use mjolnir_experiment::{Kind, Outcome};
use mjolnir_experiment::{nearest_hint, parse_configuration};
use mjolnir_policy::{closed_form, victim};
use serde::Deserialize;
use toml::Table;

/// The most pages of an erase block that the fixed point is solved for.
const PAGES_MAX: u32 = 1 << 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    /// (physical - logical) / physical.
    spare: f64,
    /// Pages of an erase block.
    pages: u32,
    policy: Policy,
}

/// A victim policy that there is a formula for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    pub victim: String,
    /// How many `d-choices` draws.
    pub choices: Option<u32>,
}

impl Policy {
    /// The formula's value; `None` if there is none for it.
    pub fn waf(&self, spare: f64, pages: u32) -> Option<f64> {
        Some(match self.name() {
            "random" => closed_form::random(spare),
            "fifo" => closed_form::fifo(spare),
            "greedy" => closed_form::greedy(spare, f64::from(pages)),
            "d-choices" => closed_form::d_choices(spare, pages, self.choices()),
            _ => return None,
        })
    }

    fn name(&self) -> &str {
        self.victim.split(':').next().unwrap_or_default()
    }

    fn choices(&self) -> u32 {
        let said = victim::whole_parameter(&self.victim, "choices").map(|choices| choices as u32);
        self.choices.or(said).unwrap_or(10)
    }

    pub fn check(&self) -> Result<(), String> {
        match (self.victim.as_str(), self.choices) {
            ("d-choices", Some(choices)) if !(1..=1024).contains(&choices) => {
                Err(format!("policy.choices = {choices}: write from 1 to 1024"))
            }
            ("d-choices", _) | (_, None) => Ok(()),
            (victim, Some(_)) => {
                Err(format!("policy.choices has no meaning with policy.victim = {victim:?}"))
            }
        }
    }
}

/// Refuses spare factors that no formula and no drive can have.
pub(super) fn check_spare(spare: f64) -> Result<(), String> {
    match spare > 0.0 && spare < 1.0 {
        true => Ok(()),
        false => Err(format!(
            "spare = {spare}: without spare space nothing can be reclaimed, and it is a share of \
             the whole; write more than 0 and less than 1"
        )),
    }
}

pub(super) fn check_pages(pages: u32) -> Result<(), String> {
    match (2..=PAGES_MAX).contains(&pages) {
        true => Ok(()),
        false => Err(format!("pages = {pages}: write from 2 to {PAGES_MAX}")),
    }
}

pub(super) struct ClosedForm;

impl Kind for ClosedForm {
    fn name(&self) -> &'static str {
        "closed-form"
    }

    fn check(&self, configuration: &Table) -> Result<(), String> {
        let Configuration { spare, pages, policy } = parse_configuration(configuration)?;
        check_spare(spare)?;
        check_pages(pages)?;
        policy.check()?;
        const FORMS: [&str; 4] = ["greedy", "fifo", "random", "d-choices"];
        match FORMS.contains(&policy.name()) {
            true => Ok(()),
            false => {
                let victim = &policy.victim;
                let hint = nearest_hint(victim, FORMS);
                Err(format!("policy.victim = {victim:?}: there is no formula for it{hint}"))
            }
        }
    }

    fn run(
        &self,
        configuration: &Table,
        _: u64,
        _: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let Configuration { spare, pages, policy } = parse_configuration(configuration)?;
        let waf = policy.waf(spare, pages).ok_or("policy.victim has no formula")?;
        Ok(Outcome { numbers: [("waf".to_owned(), waf)].into(), ..Outcome::default() })
    }
}
