//! One seed from beginning to end: format, live, lose power, recover, be judged, and again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_lite::future::or;
use mjolnir_device::filter::{FaultRates, Verb};
use mjolnir_device::{Device, MemoryDevice, MemoryOptions, Runtime};
use mjolnir_engine::Engine;
use mjolnir_units::Instant;
use mjolnir_vtime::{Chance, Jobs, Options, Order, Sim, SimRuntime};

use crate::disk::AfterCut;
use crate::workload::{Ground, Swarm, Tally, Transactions, Trouble, client, read_everything};
use crate::{Model, RunSize, SimDisk, Subject, Violation};

/// Virtual time that each job takes which a store hands out.
const JOB_COST: Duration = Duration::from_micros(20);

/// What became of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Digest of everything that happened: equal for equal runs.
    pub trace: u64,
    /// Events in the trace.
    pub events: u64,
    /// Virtual time that passed.
    pub ended_at: Instant,
    /// What was done.
    pub tally: Tally,
    /// What went wrong.
    pub failure: Option<Failure>,
}

/// Why a seed failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The broken promise, the panic, or what it waits for.
    pub message: String,
    /// The last events before it.
    pub tail: Vec<String>,
    /// What repeats it.
    pub command: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done: u64 = self.tally.done.values().sum();
        write!(
            f,
            "seed {}: trace {:016x}, {} events, {} ms of virtual time, {done} operations, \
             {} refused ({} for space), {} power cuts ({} in recovery), {} faults",
            self.seed,
            self.trace,
            self.events,
            self.ended_at.0 / 1_000_000,
            self.tally.refused,
            self.tally.no_space,
            self.tally.cuts,
            self.tally.cuts_in_recovery,
            self.tally.faults,
        )?;
        if let Some(failure) = &self.failure {
            write!(f, "\nFAILED: {}\nrepeat it with: {}", failure.message, failure.command)?;
        }
        Ok(())
    }
}

/// Runs one seed against the engine.
pub fn run_seed(seed: u64, size: RunSize, loud: bool) -> Report {
    run_seed_on::<Engine<SimDisk, SimRuntime>>(seed, size, loud)
}

/// Runs one seed against `S`.
pub fn run_seed_on<S: Subject>(seed: u64, size: RunSize, loud: bool) -> Report {
    run_swarm::<S>(seed, Swarm::draw(seed, size), loud, size)
}

/// Runs one seed's chances in a run of given shape.
pub fn run_swarm<S: Subject>(seed: u64, swarm: Swarm, loud: bool, size: RunSize) -> Report {
    let Swarm { shuffle, own_job, .. } = swarm;
    let order = if shuffle { Order::Drawn } else { Order::Woken };
    let jobs = Jobs::Alike { cost: JOB_COST, own_job };
    let options = Options { order, jobs, loud, ..Options::default() };
    let sim = Sim::new(seed, options);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let model: Rc<RefCell<Model>> = Rc::default();
    model.borrow_mut().loud = loud;
    let witness = Witness::default();
    let phase = Rc::new(Cell::new("formatting"));
    let story = Story {
        sim: &sim,
        phase: phase.clone(),
        witness: witness.clone(),
        chance: Chance::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        swarm: Rc::new(swarm),
        model: model.clone(),
        tally: tally.clone(),
        transactions: Default::default(),
        damage: Vec::new(),
        read_only: Vec::new(),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| sim.run(story.tell::<S>())));
    let message = match outcome {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(violation))) => Some(violation.0),
        Ok(Err(stuck)) => {
            let waiting = model.borrow().in_flight().join("; ");
            let says = witness.borrow().as_ref().map(|describe| describe()).unwrap_or_default();
            Some(format!("{stuck}, while {}; in flight: {waiting}; it says: {says}", phase.get()))
        }
        Err(panic) => Some(format!("panic: {}", panic_message(&*panic))),
    };
    let size = if size == RunSize::Long { " --long" } else { "" };
    let failure = message.map(|message| Failure {
        message,
        tail: sim.tail(),
        command: format!("cargo xtask sim --seed {seed}{size}"),
    });
    let (trace, events, ended_at) = (sim.trace_hash(), sim.events(), sim.now());
    let tally = tally.borrow().clone();
    Report { seed, trace, events, ended_at, tally, failure }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)").to_owned()
}

/// Asks the present store what it knows of itself.
type Witness = Rc<RefCell<Option<Box<dyn Fn() -> String>>>>;

struct Story<'a> {
    sim: &'a Sim,
    /// What it is doing, for messages.
    phase: Rc<Cell<&'static str>>,
    witness: Witness,
    chance: Chance,
    swarm: Rc<Swarm>,
    model: Rc<RefCell<Model>>,
    tally: Rc<RefCell<Tally>>,
    transactions: Transactions,
    /// Bad places of the medium.
    damage: Vec<(mjolnir_units::Pba, mjolnir_device::filter::Damage)>,
    /// Zones that are read-only.
    read_only: Vec<mjolnir_units::ZoneId>,
}

/// How a life of a store ended.
enum End {
    PowerCut,
    /// Closed, or given up after the device failed it.
    InOrder,
}

impl Story<'_> {
    async fn tell<S: Subject>(mut self) -> Result<(), Violation> {
        let options = MemoryOptions {
            stale_after_reset: self.swarm.stale_after_reset,
            gives_back: self.swarm.gives_back,
            flushes_again: true,
            in_order: self.swarm.zoned,
        };
        let mut memory = MemoryDevice::with_options(self.swarm.info.clone(), options);
        let disk = self.disk(&memory);
        let runtime = self.sim.world();
        S::format(disk.0.clone(), runtime.clone())
            .await
            .map_err(|error| Violation::new(format!("formatting failed: {error}")))?;
        self.sim.kill(runtime.world());
        self.sim.kill(disk.1.world());
        memory = memory.crash(self.chance.bits());
        for life in 0..self.swarm.lives {
            let last = life + 1 == self.swarm.lives;
            memory = self.live::<S>(memory, last).await?;
        }
        Ok(())
    }

    fn disk(&mut self, memory: &MemoryDevice) -> (SimDisk, SimRuntime) {
        let runtime = self.sim.world();
        let after = if self.chance.one_in(4) { AfterCut::Gone } else { AfterCut::Silence };
        let mut delays = self.swarm.delays;
        delays.seed = self.chance.bits();
        let disk = SimDisk::new(memory.clone(), runtime.clone(), delays, after);
        for (pba, damage) in &self.damage {
            disk.faults().damage(*pba, *damage);
        }
        self.read_only.iter().for_each(|zone| disk.faults().turn_read_only(*zone));
        if self.swarm.zoned {
            disk.faults().in_order(self.swarm.info.zones as usize / 10);
        }
        (disk, runtime)
    }

    /// Opens the store, however often the power goes meanwhile.
    async fn recover<S: Subject>(
        &mut self,
        mut memory: MemoryDevice,
    ) -> Result<(S, SimDisk, SimRuntime), Violation> {
        let mut cuts_left: u32 = 4;
        loop {
            let (disk, runtime) = self.disk(&memory);
            let cut = cuts_left > 0 && self.chance.one_in(self.swarm.cut_recovery_one_in);
            if cut {
                cuts_left -= 1;
                disk.cut_after(1 + self.chance.below(60));
            }
            if self.swarm.trouble == Trouble::FlakyReads && cuts_left > 0 {
                // A bit that flips on the way from the end of the log is no different from a write
                // that the power cut tore, so flips begin later.
                let rates = self.swarm.fault_rates(&mut self.chance);
                let rates = FaultRates { flip: 0, ..rates };
                disk.faults().by_chance(self.chance.bits(), rates);
            }
            if self.swarm.trouble == Trouble::BadPlaces && cuts_left > 0 {
                self.stir(&disk);
            }
            let open =
                async { Some(S::open(disk.clone(), runtime.clone(), &self.swarm.subject).await) };
            let opened = or(open, async {
                disk.power_lost().await;
                None
            });
            match opened.await {
                Some(Ok(store)) if !disk.is_off() => {
                    self.stop_trouble(&disk);
                    return Ok((store, disk, runtime));
                }
                Some(Err(error)) if !disk.is_off() => {
                    if self.swarm.trouble == Trouble::BadPlaces
                        && error.kind == mjolnir_store::ErrorKind::Damaged
                        && !self.damage.is_empty()
                    {
                        // The power went after a write had failed, and before the log could say
                        // so: that is no different from damage. Once all can be read, all is
                        // there.
                        for (pba, _) in disk.faults().damaged() {
                            disk.faults().repair(pba);
                        }
                    } else if !self.excuses(&disk, &error) {
                        return Err(Violation::new(format!("the store does not open: {error}")));
                    }
                    cuts_left = cuts_left.saturating_sub(1);
                }
                _ => {}
            }
            let mut tally = self.tally.borrow_mut();
            tally.cuts += 1;
            tally.cuts_in_recovery += 1;
            drop(tally);
            self.sim.kill(runtime.world());
            self.keep_damage(&disk);
            memory = disk.memory().crash(self.chance.bits());
        }
    }

    async fn live<S: Subject>(
        &mut self,
        memory: MemoryDevice,
        last: bool,
    ) -> Result<MemoryDevice, Violation> {
        self.phase.set("recovering");
        let (store, disk, runtime) = self.recover::<S>(memory).await?;
        self.phase.set("reading all after recovery");
        let present = store.clone();
        *self.witness.borrow_mut() = Some(Box::new(move || present.describe()));
        // What a recovery found is durable, so its judgement may be cut as well.
        let judged = or(async { Some(self.judge(&store, &disk).await) }, async {
            disk.power_lost().await;
            None
        });
        match judged.await {
            Some(judgement) if !disk.is_off() => judgement?,
            _ => return Ok(self.crash(&disk, &runtime)),
        }
        self.phase.set("clients work");
        self.stir(&disk);
        let orderly = last || self.chance.one_in(self.swarm.orderly_one_in);
        if !orderly && !disk.is_off() {
            // Some soon, some late, some in the middle of nothing.
            let most = *self.chance.pick(&[20, 400, 4000]);
            let calls = 1 + self.chance.below(most);
            disk.cut_after(calls);
        }
        let end = self.work(&store, &disk, &runtime).await?;
        if matches!(end, End::PowerCut) || !orderly {
            disk.cut();
            return Ok(self.crash(&disk, &runtime));
        }
        self.phase.set("closing");
        self.finish(&store, &disk, &runtime).await
    }

    fn crash(&mut self, disk: &SimDisk, runtime: &SimRuntime) -> MemoryDevice {
        let mut tally = self.tally.borrow_mut();
        tally.cuts += 1;
        tally.faults += disk.faults().faults();
        drop(tally);
        self.sim.kill(runtime.world());
        self.keep_damage(disk);
        disk.memory().crash(self.chance.bits())
    }

    /// Bad places stay bad over a restart.
    fn keep_damage(&mut self, disk: &SimDisk) {
        if self.swarm.trouble == Trouble::BadPlaces {
            self.damage = disk.faults().damaged();
        }
        self.read_only = disk.faults().read_only();
    }

    /// Begins this life's trouble.
    fn stir(&mut self, disk: &SimDisk) {
        let rates = self.swarm.fault_rates(&mut self.chance);
        disk.faults().by_chance(self.chance.bits(), rates);
    }

    async fn judge<S: Subject>(&self, store: &S, disk: &SimDisk) -> Result<(), Violation> {
        let found = read_everything(store)
            .await
            .map_err(|error| Violation::new(format!("after recovery: {error}")))?;
        self.model.borrow_mut().recovered(&found)?;
        self.transactions.borrow_mut().recovered(store, &self.model.borrow())?;
        self.check(store, disk, "after recovery").await
    }

    async fn check<S: Subject>(
        &self,
        store: &S,
        disk: &SimDisk,
        when: &str,
    ) -> Result<(), Violation> {
        match store.check().await {
            Err(error) if !self.excuses(disk, &error) && !disk.is_off() => {
                Err(Violation::new(format!("{when} the structure is broken: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the disk did what a store need not endure: bad places may leave it no room.
    fn excuses(&self, disk: &SimDisk, error: &mjolnir_store::Error) -> bool {
        match self.swarm.trouble {
            Trouble::BadPlaces => error.kind == mjolnir_store::ErrorKind::NoSpace,
            Trouble::Outages => false,
            _ => disk.faults().faults() > 0,
        }
    }

    /// Lets the clients work until they are done or the power goes.
    async fn work<S: Subject>(
        &mut self,
        store: &S,
        disk: &SimDisk,
        runtime: &SimRuntime,
    ) -> Result<End, Violation> {
        let ground = Rc::new(Ground::new(
            store.clone(),
            runtime.clone(),
            disk.clone(),
            self.model.clone(),
            self.swarm.clone(),
            self.tally.clone(),
            self.transactions.clone(),
        ));
        let ends = Ends::default();
        for _ in 0..self.swarm.clients {
            ends.expect();
            let (client, ends) =
                (client(ground.clone(), self.chance.fork(), self.swarm.ops), ends.clone());
            runtime.spawn(async move { ends.came(client.await) });
        }
        let damage = self.damage_now_and_then(disk, runtime);
        let outages = self.outages_now_and_then(disk, runtime);
        let end = or(
            async {
                disk.power_lost().await;
                Ok(End::PowerCut)
            },
            async { ends.all().await.map(|()| End::InOrder) },
        );
        let end = or(end, async {
            damage.await;
            std::future::pending().await
        });
        or(end, async {
            outages.await;
            std::future::pending().await
        })
        .await
    }

    /// Takes the disk away now and then, or its space, if that is this seed's trouble.
    fn outages_now_and_then(
        &mut self,
        disk: &SimDisk,
        runtime: &SimRuntime,
    ) -> impl Future<Output = ()> + use<> {
        let rounds = if self.swarm.trouble == Trouble::Outages { 20 } else { 0 };
        let (disk, runtime) = (disk.clone(), runtime.clone());
        let mut chance = if rounds > 0 { self.chance.fork() } else { Chance::new(0) };
        async move {
            for _ in 0..rounds {
                runtime.sleep(std::time::Duration::from_micros(chance.below(20_000))).await;
                let is_away = chance.one_in(2);
                let set = |on: bool| match is_away {
                    true => disk.set_away(on),
                    false => {
                        let error = on.then_some(mjolnir_device::ErrorKind::NoSpace);
                        disk.faults().fail_all(Verb::Append, error);
                    }
                };
                set(true);
                let most = *chance.pick(&[100, 10_000, 1_000_000]);
                runtime.sleep(std::time::Duration::from_micros(chance.below(most))).await;
                set(false);
            }
        }
    }

    /// Spoils a block now and then, if that is this seed's trouble.
    fn damage_now_and_then(
        &mut self,
        disk: &SimDisk,
        runtime: &SimRuntime,
    ) -> impl Future<Output = ()> + use<> {
        use mjolnir_device::filter::Damage;
        let rounds = if self.swarm.trouble == Trouble::Damage { 30 } else { 0 };
        let (mut chance, disk, runtime) = (self.chance.fork(), disk.clone(), runtime.clone());
        async move {
            let info = disk.info();
            for _ in 0..rounds {
                runtime.sleep(std::time::Duration::from_micros(chance.below(20_000))).await;
                let pba = mjolnir_units::Pba(chance.below(info.blocks()));
                let damage = match chance.below(2) {
                    0 => Damage::Unreadable,
                    _ => Damage::Flipped(chance.below(4096 * 8) as u32),
                };
                disk.faults().damage(pba, damage);
            }
        }
    }

    /// Ends a life in order.
    async fn finish<S: Subject>(
        &mut self,
        store: &S,
        disk: &SimDisk,
        runtime: &SimRuntime,
    ) -> Result<MemoryDevice, Violation> {
        let quiet = self.stop_trouble(disk);
        self.check(store, disk, "before closing").await?;
        let closed = store.close().await;
        self.tally.borrow_mut().faults += disk.faults().faults();
        self.sim.kill(runtime.world());
        self.keep_damage(disk);
        match closed {
            Ok(()) if self.chance.one_in(2) => {
                self.model.borrow_mut().closed();
                Ok(disk.memory().crash(self.chance.bits()))
            }
            Ok(()) => {
                self.model.borrow_mut().closed();
                Ok(disk.memory().reopen())
            }
            Err(error) if !quiet || self.excuses(disk, &error) => {
                Ok(disk.memory().crash(self.chance.bits()))
            }
            Err(error) => Err(Violation::new(format!("closing failed: {error}"))),
        }
    }

    /// Ends this life's trouble; true if there was none.
    fn stop_trouble(&self, disk: &SimDisk) -> bool {
        disk.faults().by_chance(0, Default::default());
        disk.set_away(false);
        disk.faults().fail_all(Verb::Append, None);
        let endures = [Trouble::BadPlaces, Trouble::Outages].contains(&self.swarm.trouble);
        disk.faults().faults() == 0 || endures
    }
}

/// Waits for several clients; the first violation ends the wait.
#[derive(Clone, Default)]
struct Ends {
    state: Rc<RefCell<EndsState>>,
}

#[derive(Default)]
struct EndsState {
    expected: u64,
    violation: Option<Violation>,
    waker: Option<Waker>,
}

impl Ends {
    fn expect(&self) {
        self.state.borrow_mut().expected += 1;
    }

    fn came(&self, outcome: Result<(), Violation>) {
        let mut state = self.state.borrow_mut();
        state.expected -= 1;
        if let Err(violation) = outcome {
            state.violation.get_or_insert(violation);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    async fn all(&self) -> Result<(), Violation> {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Some(violation) = state.violation.take() {
                return Poll::Ready(Err(violation));
            }
            if state.expected == 0 {
                return Poll::Ready(Ok(()));
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
