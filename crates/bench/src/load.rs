//! Clients: loops that keep a number of requests in flight, and what they saw.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_engine::Engine;
use mjolnir_store::{Durability, Error, Store};
use mjolnir_units::{BLOCK_SIZE, TreeId};

use crate::chance::Chance;
use crate::clock::{Timer, Took};
use crate::samples::Latencies;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: usize,
    /// Requests in all.
    pub count: u64,
    /// Bytes of the volume, from its start, that requests fall into.
    pub span: u64,
    /// At random, or one after the other from the start (and again).
    pub random: bool,
    /// Writes, or reads.
    pub write: bool,
    /// Of chance.
    pub seed: u64,
}

impl Load {
    /// 4 KiB at random, 32 in flight.
    pub fn random_writes(span: u64, count: u64, seed: u64) -> Self {
        Load { bytes: BLOCK_SIZE, depth: 32, count, span, random: true, write: true, seed }
    }

    /// 4 KiB reads at random, 32 in flight.
    pub fn random_reads(span: u64, count: u64, seed: u64) -> Self {
        Load { write: false, ..Self::random_writes(span, count, seed) }
    }

    /// 128 KiB writes in order, 8 in flight, of the whole span.
    pub fn fill(span: u64) -> Self {
        let bytes = (128 << 10).min(span);
        Load { bytes, depth: 8, count: span / bytes, span, random: false, write: true, seed: 0 }
    }
}

/// What a load saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What it took.
    pub took: Took,
    /// Of each request.
    pub latencies: Latencies,
    /// The longest time in which no request completed, in seconds.
    pub gap_s: f64,
    /// Requests.
    pub count: u64,
}

impl Seen {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.took.wall_s
    }
}

/// Blocks that differ from one another in each request, so that nothing can be told from zeroes.
pub fn payload(bytes: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(bytes as usize);
    let mut chance = Chance::new(bytes);
    for word in buffer.as_mut().chunks_exact_mut(8) {
        word.copy_from_slice(&chance.next().to_le_bytes());
    }
    buffer.freeze()
}

/// Runs a load to its end.
pub async fn run<D: Device, R: Runtime>(
    engine: &Engine<D, R>,
    volume: TreeId,
    load: Load,
) -> Result<Seen> {
    run_with(engine, volume, load, payload(load.bytes)).await
}

/// As [`run`], writing these bytes.
pub async fn run_with<D: Device, R: Runtime>(
    engine: &Engine<D, R>,
    volume: TreeId,
    load: Load,
    payload: Bytes,
) -> Result<Seen> {
    let chance = RefCell::new(Chance::new(load.seed));
    let next = Cell::new(0u64);
    let latencies = RefCell::new(Latencies::default());
    let (last, gap) = (Cell::new(Instant::now()), Cell::new(Duration::ZERO));
    let places = load.span / load.bytes;
    let timer = Timer::start();
    let client = async || {
        while next.get() < load.count {
            let number = next.replace(next.get() + 1);
            let place =
                if load.random { chance.borrow_mut().below(places) } else { number % places };
            let offset = place * load.bytes;
            let began = Instant::now();
            request(engine, volume, load, &payload, offset).await?;
            let ended = Instant::now();
            latencies.borrow_mut().push((ended - began).as_nanos() as u64);
            gap.set(gap.get().max(ended - last.get()));
            last.set(ended);
        }
        Ok::<(), Error>(())
    };
    try_join_all((0..load.depth).map(|_| client())).await?;
    Ok(Seen {
        took: timer.took(),
        latencies: latencies.into_inner(),
        gap_s: gap.get().as_secs_f64(),
        count: load.count,
    })
}

/// One request of a load.
async fn request<D: Device, R: Runtime>(
    engine: &Engine<D, R>,
    volume: TreeId,
    load: Load,
    payload: &Bytes,
    offset: u64,
) -> Result<(), Error> {
    if load.write {
        engine.write(volume, offset, payload.clone(), Durability::Buffered).await?;
    } else {
        std::hint::black_box(engine.read(volume, offset, load.bytes).await?);
    }
    Ok(())
}

/// What a load for a time saw: requests completed in each window of 100 ms.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// As for other loads.
    pub seen: Seen,
    /// Completions of each whole window.
    pub counts: Vec<u64>,
}

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(100);

impl Windows {
    /// Throughput of the worst window against the mean of all.
    pub fn worst(&self) -> f64 {
        let mean = self.counts.iter().sum::<u64>() as f64 / self.counts.len() as f64;
        self.counts.iter().min().map_or(f64::NAN, |least| *least as f64 / mean)
    }
}

/// Runs a load again and again until `time` has passed.
pub async fn for_time<D: Device, R: Runtime>(
    engine: &Engine<D, R>,
    volume: TreeId,
    load: Load,
    time: Duration,
) -> Result<Windows> {
    let windows = time.as_millis() as usize / WINDOW.as_millis() as usize;
    let counts = RefCell::new(vec![0u64; windows.max(1)]);
    let latencies = RefCell::new(Latencies::default());
    let chance = RefCell::new(Chance::new(load.seed));
    let payload = payload(load.bytes);
    let timer = Timer::start();
    let begun = Instant::now();
    let client = async || {
        loop {
            let began = Instant::now();
            if began - begun >= time {
                return Ok::<(), Error>(());
            }
            let offset = chance.borrow_mut().below(load.span / load.bytes) * load.bytes;
            request(engine, volume, load, &payload, offset).await?;
            let ended = Instant::now();
            latencies.borrow_mut().push((ended - began).as_nanos() as u64);
            let window = ((ended - begun).as_nanos() / WINDOW.as_nanos()) as usize;
            if let Some(count) = counts.borrow_mut().get_mut(window) {
                *count += 1;
            }
            // What is acknowledged from memory never waits: others get their turn all the same.
            yield_now().await;
        }
    };
    try_join_all((0..load.depth).map(|_| client())).await?;
    let counts = counts.into_inner();
    let seen = Seen {
        took: timer.took(),
        latencies: latencies.into_inner(),
        gap_s: 0.0,
        count: counts.iter().sum(),
    };
    Ok(Windows { seen, counts })
}

/// Lets other tasks run.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// As [`run_with`] with one request at a time, and without a clock: for measuring what requests
/// cost the processor.
pub async fn plain<S: Store>(store: &S, volume: TreeId, load: Load, payload: Bytes) -> Result<()> {
    let mut chance = Chance::new(load.seed);
    for _ in 0..load.count {
        let offset = chance.below(load.span / load.bytes) * load.bytes;
        if load.write {
            store.write(volume, offset, payload.clone(), Durability::Buffered).await?;
        } else {
            std::hint::black_box(store.read(volume, offset, load.bytes).await?);
        }
    }
    Ok(())
}

/// Writes at random until told to stop, and what it saw; so many in flight.
pub struct Background {
    stop: Rc<Cell<bool>>,
    state: Rc<BackgroundState>,
}

struct BackgroundState {
    seen: RefCell<Seen>,
    last: Cell<Instant>,
    failure: RefCell<Option<Error>>,
    running: Cell<usize>,
}

impl BackgroundState {
    fn completed(&self, began: Instant, ended: Instant) {
        let mut seen = self.seen.borrow_mut();
        seen.latencies.push((ended - began).as_nanos() as u64);
        seen.gap_s = seen.gap_s.max((ended - self.last.replace(ended)).as_secs_f64());
        seen.count += 1;
    }
}

/// How a client in the background waits between its requests.
#[derive(Clone, Copy, Debug)]
pub enum Pause {
    /// Not at all.
    None,
    /// So long.
    For(Duration),
}

/// Starts 4 KiB writes at random within `span` bytes.
pub fn in_background<D: Device, R: Runtime>(
    engine: &Engine<D, R>,
    runtime: &R,
    volume: TreeId,
    span: u64,
    depth: usize,
    pause: Pause,
) -> Background {
    let stop = Rc::new(Cell::new(false));
    let state = Rc::new(BackgroundState {
        seen: RefCell::default(),
        last: Cell::new(Instant::now()),
        failure: RefCell::new(None),
        running: Cell::new(depth),
    });
    let payload = payload(BLOCK_SIZE);
    for number in 0..depth {
        let (engine, runtime, payload) = (engine.clone(), runtime.clone(), payload.clone());
        let (stop, state) = (stop.clone(), state.clone());
        runtime.clone().spawn(async move {
            let mut chance = Chance::new(1000 + number as u64);
            while !stop.get() {
                let offset = chance.below(span / BLOCK_SIZE) * BLOCK_SIZE;
                let began = Instant::now();
                let written =
                    engine.write(volume, offset, payload.clone(), Durability::Buffered).await;
                let ended = Instant::now();
                if let Err(error) = written {
                    *state.failure.borrow_mut() = Some(error);
                    break;
                }
                state.completed(began, ended);
                match pause {
                    // Others get their turn even if the write completed at once.
                    Pause::None => yield_now().await,
                    Pause::For(time) => runtime.sleep(time).await,
                }
            }
            state.running.set(state.running.get() - 1);
        });
    }
    Background { stop, state }
}

impl Background {
    /// Requests completed so far.
    pub fn count(&self) -> u64 {
        self.state.seen.borrow().count
    }

    /// Stops it; what it saw, the time since its last completion included.
    pub async fn end<R: Runtime>(self, runtime: &R) -> Result<Seen> {
        let waited = self.state.last.get().elapsed().as_secs_f64();
        self.stop.set(true);
        while self.state.running.get() > 0 {
            runtime.sleep(Duration::from_micros(200)).await;
        }
        if let Some(error) = self.state.failure.take() {
            return Err(anyhow!("a client's write failed: {error}"));
        }
        let mut seen = self.state.seen.take();
        seen.gap_s = seen.gap_s.max(waited);
        Ok(seen)
    }
}

/// 4 KiB writes at random that arrive at a fixed rate, whether or not earlier ones have completed;
/// latencies count from when each was due, so that a stall is felt by all that it delays.
pub async fn arrivals<D: Device, R: Runtime>(
    engine: &Engine<D, R>,
    runtime: &R,
    volume: TreeId,
    load: Load,
    rate: f64,
) -> Result<Seen> {
    let payload = payload(load.bytes);
    let latencies = RefCell::new(Latencies::default());
    let next = Cell::new(0u64);
    let chance = RefCell::new(Chance::new(load.seed));
    let timer = Timer::start();
    let begun = Instant::now();
    // Enough hands that one is always free, unless the store stalls for long; then the wait for a
    // hand counts, too.
    let client = async || {
        while next.get() < load.count {
            let number = next.replace(next.get() + 1);
            let due = Duration::from_secs_f64(number as f64 / rate);
            let early = due.saturating_sub(begun.elapsed());
            if !early.is_zero() {
                runtime.sleep(early).await;
            }
            let offset = chance.borrow_mut().below(load.span / load.bytes) * load.bytes;
            engine.write(volume, offset, payload.clone(), Durability::Buffered).await?;
            let late = begun.elapsed().saturating_sub(due);
            latencies.borrow_mut().push(late.as_nanos() as u64);
        }
        Ok::<(), Error>(())
    };
    for ended in join_all((0..load.depth).map(|_| client())).await {
        ended?;
    }
    Ok(Seen {
        took: timer.took(),
        latencies: latencies.into_inner(),
        gap_s: 0.0,
        count: load.count,
    })
}
