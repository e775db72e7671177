//! The disk of a simulated world: a device in memory behind delays and faults, whose power goes
//! at a chosen request.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use mjolnir_device::filter::{Delay, DelayOptions, Fault, FaultControl};
use mjolnir_device::{
    Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, MemoryDevice,
};
use mjolnir_units::{Pba, ZoneId};
use mjolnir_vtime::SimRuntime;
use mjolnir_vtime::digest;

/// A handle of a disk; clones are of the same one.
#[derive(Clone)]
pub struct SimDisk {
    inner: Rc<Inner>,
}

struct Inner {
    memory: MemoryDevice,
    faults: FaultControl,
    device: Delay<Fault<MemoryDevice>, SimRuntime>,
    runtime: SimRuntime,
    calls: Cell<u64>,
    cut_at: Cell<Option<u64>>,
    after_cut: AfterCut,
    off: Cell<bool>,
    /// The disk does not answer for a while.
    away: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// What a program sees of a power cut in the moment before it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCut {
    /// Nothing: no request completes any more.
    Silence,
    /// Requests fail with [`ErrorKind::Gone`], as when a disk is unplugged from a running machine.
    Gone,
}

type Request<T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>>>>;

impl SimDisk {
    /// A disk on what `memory` holds, in the world of `runtime`.
    pub fn new(
        memory: MemoryDevice,
        runtime: SimRuntime,
        delays: DelayOptions,
        after_cut: AfterCut,
    ) -> Self {
        let fault = Fault::new(memory.clone());
        let faults = fault.control();
        let device = Delay::new(fault, runtime.clone(), delays);
        SimDisk {
            inner: Rc::new(Inner {
                memory,
                faults,
                device,
                runtime,
                calls: Cell::new(0),
                cut_at: Cell::new(None),
                after_cut,
                off: Cell::new(false),
                away: Cell::new(false),
                waiting: RefCell::default(),
            }),
        }
    }

    /// Says what fails.
    pub fn faults(&self) -> &FaultControl {
        &self.inner.faults
    }

    /// What the disk holds; [`MemoryDevice::crash`] it to find what a power cut left.
    pub fn memory(&self) -> &MemoryDevice {
        &self.inner.memory
    }

    /// Requests so far.
    pub fn calls(&self) -> u64 {
        self.inner.calls.get()
    }

    /// The power goes when the `calls`-th request from now on has been handed to the medium.
    pub fn cut_after(&self, calls: u64) {
        self.inner.cut_at.set(Some(self.inner.calls.get() + calls.max(1)));
    }

    /// The power goes now.
    pub fn cut(&self) {
        let inner = &self.inner;
        if !inner.off.replace(true) {
            inner.runtime.trace("power cut", [inner.calls.get(), 0, 0]);
            if inner.after_cut == AfterCut::Gone {
                inner.memory.cut_power();
            }
            inner.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// From now on all requests fail with [`ErrorKind::Gone`], those under way included, until the
    /// disk is back with all that it holds.
    pub fn set_away(&self, away: bool) {
        if self.inner.away.replace(away) != away {
            self.inner.runtime.trace("away", [u64::from(away), 0, 0]);
        }
    }

    /// Whether the power has gone.
    pub fn is_off(&self) -> bool {
        self.inner.off.get()
    }

    /// Completes when the power has gone.
    pub async fn power_lost(&self) {
        poll_fn(|cx| {
            if self.is_off() {
                return Poll::Ready(());
            }
            self.inner.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn pass<T: 'static>(
        &self,
        what: &'static str,
        words: [u64; 3],
        request: impl FnOnce(&Delay<Fault<MemoryDevice>, SimRuntime>) -> Request<T>,
    ) -> Request<T> {
        let inner = self.inner.clone();
        inner.calls.set(inner.calls.get() + 1);
        inner.runtime.trace(what, words);
        let answers = !inner.off.get() && !inner.away.get();
        let request = answers.then(|| request(&inner.device));
        if inner.cut_at.get() == Some(inner.calls.get()) {
            self.cut();
        }
        Box::pin(async move {
            let outcome = match request {
                Some(request) => request.await,
                None => Err(DeviceError::new(ErrorKind::Gone, "the simulated disk is away")),
            };
            let outcome = match inner.away.get() {
                true => Err(DeviceError::new(ErrorKind::Gone, "the simulated disk went away")),
                false => outcome,
            };
            if inner.off.get() && inner.after_cut == AfterCut::Silence {
                return pending().await;
            }
            if let Err(error) = &outcome {
                inner.runtime.trace("device error", [error.kind as u64, 0, 0]);
            }
            outcome
        })
    }
}

impl Device for SimDisk {
    fn info(&self) -> DeviceInfo {
        self.inner.device.info()
    }

    fn abilities(&self) -> &dyn Abilities {
        self.inner.device.abilities()
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.pass("append", words_of(at, &data), move |device| Box::pin(device.append(at, data)))
    }

    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.pass("append again", words_of(at, &data), move |device| {
            Box::pin(device.append_again(at, data))
        })
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let words = [from.0, buffer.len() as u64, 0];
        self.pass("read", words, move |device| Box::pin(device.read(from, buffer)))
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.pass("flush", [0; 3], move |device| Box::pin(device.flush()))
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.pass("seal", [u64::from(zone.0), 0, 0], move |device| Box::pin(device.seal(zone)))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.pass("reset", [u64::from(zone.0), 0, 0], move |device| Box::pin(device.reset(zone)))
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.pass("release", [u64::from(zone.0), 0, 0], move |device| {
            Box::pin(device.release(zone))
        })
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.pass("read root", [0; 3], move |device| Box::pin(device.read_root()))
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let words = [root.len() as u64, digest(&root), 0];
        self.pass("write root", words, move |device| Box::pin(device.write_root(root)))
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.pass("grow", [bytes, 0, 0], move |device| Box::pin(device.grow(bytes)))
    }
}

/// What the trace says of an append.
fn words_of(at: Pba, data: &[Bytes]) -> [u64; 3] {
    let length = data.iter().map(Bytes::len).sum::<usize>() as u64;
    let hash = data.iter().fold(0, |hash, piece| hash ^ digest(piece).rotate_left(7));
    [at.0, length, hash]
}
