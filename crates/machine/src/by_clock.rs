//! What all kinds of this crate have in common: they are planned, then run on the host by the clock.

use std::marker::PhantomData;

use mjolnir_experiment::{Kind, Outcome};
use mjolnir_host::HostRuntime;

/// A run that was planned: its configuration makes sense.
pub(crate) trait Planned: Sized {
    /// What experiments call the kind.
    const NAME: &'static str;

    /// Refuses what cannot be run, in a sentence that names the key.
    fn new(configuration: &toml::Table, seed: u64) -> Result<Self, String>;

    /// Runs it.
    async fn play(
        self,
        runtime: HostRuntime,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String>;
}

/// The kind whose runs are planned by `P`.
pub(crate) struct ByClock<P>(PhantomData<fn() -> P>);

impl<P> ByClock<P> {
    pub const fn new() -> Self {
        ByClock(PhantomData)
    }
}

impl<P: Planned> Kind for ByClock<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn check(&self, configuration: &toml::Table) -> Result<(), String> {
        P::new(configuration, 0).map(drop)
    }

    fn by_clock(&self) -> bool {
        true
    }

    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let plan = P::new(configuration, seed)?;
        mjolnir_host::run(async |runtime: HostRuntime| plan.play(runtime, progress).await)
    }
}
