//! A small world for the engine's tests: a runtime without threads, payloads that tell who wrote
//! them, and a device whose requests can be held back.

pub mod failing;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use async_channel::Sender;
use async_executor::LocalExecutor;
use bytes::Bytes;
use futures_lite::FutureExt;
use futures_lite::future::yield_now;
use mjolnir_device::filter::Verb;
use mjolnir_device::{
    Abilities, AlignedBuf, AnyDevice, Device, DeviceError, DeviceInfo, MemoryDevice, Runtime,
};
use mjolnir_engine::{FormatOptions, OpenOptions};
use mjolnir_store::{Chunk, Chunks, Durability, Error, Store};
use mjolnir_units::{Instant, Pba, TreeId, ZoneId};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;

/// A world whose clock moves one microsecond each time it is asked.
#[derive(Clone)]
pub struct Tick {
    executor: Rc<LocalExecutor<'static>>,
    /// What tasks panicked with.
    panics: Sender<Box<dyn Any + Send>>,
    now: Rc<Cell<u64>>,
    /// The last number that was drawn: no two are the same.
    drawn: Rc<Cell<u64>>,
    /// Threads that do what is handed to `parallel`; none: it is done at once.
    threads: usize,
    /// Numbers that no job has.
    numbers: Rc<RefCell<VecDeque<usize>>>,
    /// What each job is said to have cost.
    job_cost: Duration,
}

#[allow(clippy::manual_async_fn)] // The futures must not borrow the world.
#[allow(clippy::disallowed_methods)] // A runtime is where threads come from.
impl Runtime for Tick {
    fn now(&self) -> Instant {
        self.now.set(self.now.get() + 1000);
        Instant(self.now.get())
    }
    /// Some turns, of which a test's own one has 200; many for each whole second, unless it passes sooner.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        let (now, begun) = (self.now.clone(), self.now());
        async move {
            let turns = (20_000 * duration.as_secs()).max(3) as u32;
            for turn in 1..=turns {
                yield_now().await;
                if now.get() >= (begun + duration).0 {
                    break;
                }
                let passed = begun + duration.mul_f64(f64::from(turn) / f64::from(turns));
                now.set(now.get().max(passed.0));
            }
        }
    }
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let panics = self.panics.clone();
        let told = async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let _ = panics.try_send(panic);
            }
        };
        self.executor.spawn(told).detach();
    }
    fn parallel<T: Send + 'static>(
        &self,
        job: impl FnOnce(usize) -> T + Send + 'static,
    ) -> impl Future<Output = (T, Duration)> + 'static {
        let (thread, cost) = (self.threads > 0, self.job_cost);
        let numbers = self.numbers.clone();
        // Where a thread is free it is under way at once.
        let begun = match numbers.borrow_mut().pop_front() {
            Some(number) => Ok((number, std::thread::spawn(move || job(number)))),
            None => Err(job),
        };
        async move {
            let (number, worker) = match begun {
                Ok(begun) => begun,
                Err(job) if !thread => return (job(0), cost),
                Err(job) => {
                    let number = loop {
                        let free = numbers.borrow_mut().pop_front();
                        match free {
                            Some(number) => break number,
                            None => yield_now().await,
                        }
                    };
                    (number, std::thread::spawn(move || job(number)))
                }
            };
            while !worker.is_finished() {
                yield_now().await;
            }
            numbers.borrow_mut().push_back(number);
            (worker.join().unwrap(), cost)
        }
    }
    fn parallelism(&self) -> usize {
        self.threads + 1
    }
    fn own_job(&self) -> Option<usize> {
        (self.threads > 0).then_some(self.threads)
    }
    fn random(&self) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        self.drawn.get().wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }
}

impl Tick {
    /// How many jobs are under way that nobody has heard of yet.
    pub fn jobs(&self) -> usize {
        self.threads - self.numbers.borrow().len()
    }
}

/// Runs a test to its end.
pub fn run<T>(main: impl AsyncFnOnce(Tick) -> T) -> T {
    run_with_threads(0, main)
}

/// Runs a test whose marks are the work of so many threads.
pub fn run_with_threads<T>(threads: usize, main: impl AsyncFnOnce(Tick) -> T) -> T {
    run_in(threads, Duration::ZERO, main)
}

/// Runs a test in which each job of a mark is said to cost so much processor time.
pub fn run_at_cost<T>(job_cost: Duration, main: impl AsyncFnOnce(Tick) -> T) -> T {
    run_in(0, job_cost, main)
}

fn run_in<T>(threads: usize, job_cost: Duration, main: impl AsyncFnOnce(Tick) -> T) -> T {
    let executor = Rc::new(LocalExecutor::new());
    let now = Rc::new(Cell::new(0));
    let numbers = Rc::new(RefCell::new((0..threads).collect()));
    let (panics, panicked) = async_channel::unbounded();
    let drawn = Rc::default();
    let runtime =
        Tick { executor: executor.clone(), panics, now, drawn, threads, numbers, job_cost };
    // Else a test would wait for ever for what a task would have done.
    let fails = async { resume_unwind(panicked.recv().await.expect("tasks can be started")) };
    futures_lite::future::block_on(executor.run(main(runtime.clone()).or(fails)))
}

/// Waits for `operation`; panics with `what` if it has not ended after very many turns of every
/// other task.
pub async fn soon<T>(what: &str, operation: impl Future<Output = T>) -> T {
    let limit = async {
        for _ in 0..200_000 {
            yield_now().await;
        }
        panic!("{what} hangs");
    };
    futures_lite::future::or(operation, limit).await
}

/// Lets every other task have some turns.
pub async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// Polls `operation` for `count` turns, then drops it. Whether it ended before.
pub async fn dropped_after(count: usize, operation: impl Future) -> bool {
    let ended = async {
        operation.await;
        true
    };
    let given_up = async {
        turns(count).await;
        false
    };
    futures_lite::future::or(ended, given_up).await
}

/// Blocks that name their writer and their place in the write.
pub fn payload(tag: u64, blocks: usize) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(blocks * BLOCK as usize);
    for (index, word) in buffer.as_mut().chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(tag * 1_000_003 + index as u64 / 512).to_le_bytes());
    }
    buffer.freeze()
}

/// Numbers without a pattern, the same in each run.
pub struct Random(pub u64);

impl Random {
    /// The next one, of which the upper bits are the better ones.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0
    }

    /// One of `0..limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 33) % limit
    }
}

/// The bytes of a read.
pub fn flat(chunks: Chunks) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Data(bytes) => out.extend_from_slice(&bytes),
            Chunk::Zeroes(length) => out.resize(out.len() + length as usize, 0),
        }
    }
    out
}

/// The engine on a device of any kind, compiled once for all of them.
pub type Engine = mjolnir_engine::Engine<AnyDevice, Tick>;

/// Makes an empty store.
pub async fn format(device: impl Device, runtime: &Tick) {
    let device = AnyDevice::new(device);
    Engine::format(device, runtime.clone(), FormatOptions::default()).await.unwrap();
}

/// Opens a store.
pub async fn open(
    device: impl Device,
    runtime: Tick,
    options: OpenOptions,
) -> Result<Engine, Error> {
    Engine::open(AnyDevice::new(device), runtime, options).await
}

/// Formats a device and opens it.
pub async fn fresh<D: Device>(
    device: impl Fn() -> D,
    runtime: &Tick,
    options: OpenOptions,
) -> Engine {
    format(device(), runtime).await;
    open(device(), runtime.clone(), options).await.unwrap()
}

/// Writes one block.
pub async fn put(engine: &Engine, tree: TreeId, lba: u64, tag: u64) -> Result<(), Error> {
    engine.write(tree, lba * BLOCK, payload(tag, 1), Durability::Buffered).await
}

/// The tag a block was written with; 0 for a hole.
pub async fn tag_of(engine: &Engine, tree: TreeId, lba: u64) -> u64 {
    let bytes = flat(engine.read(tree, lba * BLOCK, BLOCK).await.unwrap());
    u64::from_le_bytes(bytes[..8].try_into().unwrap()) / 1_000_003
}

/// Passes requests on at once, and holds the completions of chosen kinds back.
pub struct Held<D = MemoryDevice> {
    /// The device that keeps the data.
    pub inner: Rc<D>,
    verbs: Rc<RefCell<BTreeSet<Verb>>>,
    stranded: Rc<RefCell<BTreeSet<Verb>>>,
    /// Says whether those that were detained last may go.
    detained: Rc<RefCell<BTreeMap<Verb, Rc<Cell<bool>>>>>,
    older_root: Rc<RefCell<Option<Bytes>>>,
}

impl<D> Clone for Held<D> {
    fn clone(&self) -> Self {
        Held {
            inner: self.inner.clone(),
            verbs: self.verbs.clone(),
            stranded: self.stranded.clone(),
            detained: self.detained.clone(),
            older_root: self.older_root.clone(),
        }
    }
}

impl<D: Device> Held<D> {
    /// Nothing is held at first.
    pub fn new(inner: D) -> Self {
        Held {
            inner: Rc::new(inner),
            verbs: Rc::default(),
            stranded: Rc::default(),
            detained: Rc::default(),
            older_root: Rc::default(),
        }
    }

    /// From now on requests of this kind, those under way included, do not complete.
    pub fn hold(&self, verb: Verb) {
        self.verbs.borrow_mut().insert(verb);
    }

    /// They do again.
    pub fn release(&self, verb: Verb) {
        self.verbs.borrow_mut().remove(&verb);
    }

    /// Requests of this kind that begin from now on never complete, until [`unstrand`](Self::unstrand):
    /// those that begin after it do.
    pub fn strand(&self, verb: Verb) {
        self.stranded.borrow_mut().insert(verb);
    }

    /// See [`strand`](Self::strand).
    pub fn unstrand(&self, verb: Verb) {
        self.stranded.borrow_mut().remove(&verb);
    }

    /// Requests of this kind that begin until [`detain_no_more`](Self::detain_no_more) go to the device only
    /// once what is returned says so.
    pub fn detain(&self, verb: Verb) -> Rc<Cell<bool>> {
        let may_go = Rc::<Cell<bool>>::default();
        self.detained.borrow_mut().insert(verb, may_go.clone());
        may_go
    }

    /// See [`detain`](Self::detain).
    pub fn detain_no_more(&self, verb: Verb) {
        self.detained.borrow_mut().remove(&verb);
    }

    /// The newest copy of the root is damaged, and the other one says this.
    pub fn damage_root(&self, other: Bytes) {
        *self.older_root.borrow_mut() = Some(other);
    }

    fn wait<T>(
        &self,
        verb: Verb,
        request: impl Future<Output = Result<T, DeviceError>> + 'static,
    ) -> impl Future<Output = Result<T, DeviceError>> + 'static {
        let verbs = self.verbs.clone();
        let stranded = self.stranded.borrow().contains(&verb);
        let detained = self.detained.borrow().get(&verb).cloned();
        async move {
            if stranded {
                std::future::pending::<()>().await;
            }
            let is_detained = || detained.as_ref().is_some_and(|may_go| !may_go.get());
            while verbs.borrow().contains(&verb) || is_detained() {
                yield_now().await;
            }
            request.await
        }
    }
}

impl<D: Device> Device for Held<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn abilities(&self) -> &dyn Abilities {
        self
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.wait(Verb::Append, self.inner.append(at, data))
    }
    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.wait(Verb::Append, self.inner.append_again(at, data))
    }
    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        self.wait(Verb::Read, self.inner.read(from, buffer))
    }
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.wait(Verb::Flush, self.inner.flush())
    }
    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.wait(Verb::Seal, self.inner.seal(zone))
    }
    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.wait(Verb::Reset, self.inner.reset(zone))
    }
    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.wait(Verb::Release, self.inner.release(zone))
    }
    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        let newest = self.inner.read_root();
        let older = self.older_root.borrow().clone();
        self.wait(Verb::ReadRoot, async move {
            match older {
                Some(root) => Ok(Some(root)),
                None => newest.await,
            }
        })
    }
    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.wait(Verb::WriteRoot, self.inner.write_root(root))
    }
    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.wait(Verb::Grow, self.inner.grow(bytes))
    }
}

impl<D: Device> Abilities for Held<D> {
    fn is_root_in_doubt(&self) -> bool {
        self.older_root.borrow().is_some()
    }

    fn gives_back(&self) -> bool {
        self.inner.abilities().gives_back()
    }

    fn flushes_again(&self) -> bool {
        self.inner.abilities().flushes_again()
    }

    fn appends_again(&self) -> bool {
        self.inner.abilities().appends_again()
    }

    fn forgive_failed_flush(&self) {
        self.inner.abilities().forgive_failed_flush();
    }
}
