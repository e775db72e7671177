//! A device that delays its requests.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use mjolnir_units::{Instant, Pba, ZoneId};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use super::Verb;
use crate::chance::below;
use crate::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, Runtime};

/// How long requests take.
#[derive(Clone, Copy, Debug, Default)]
pub struct DelayOptions {
    /// At least this long for each append.
    pub append: Duration,
    /// At least this long for each read.
    pub read: Duration,
    /// At least this long for each flush.
    pub flush: Duration,
    /// At least this long for each of the others.
    pub other: Duration,
    /// Up to this much more for each request, drawn from `seed`; requests overtake one another.
    pub jitter: Duration,
    /// Bytes appended and read pass one after another at this rate; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Where jitter comes from.
    pub seed: u64,
}

/// Passes every request on at once, and holds its completion back.
///
/// Around a [`MemoryDevice`](crate::MemoryDevice) the requests held back are in flight: a power
/// cut may take them.
pub struct Delay<D, R> {
    inner: D,
    runtime: R,
    options: DelayOptions,
    state: RefCell<State>,
}

struct State {
    chance: Pcg32,
    /// When the last byte that is under way will have passed.
    busy_until: Instant,
}

impl<D: Device, R: Runtime> Delay<D, R> {
    /// Wraps `inner`; `runtime` gives the time.
    pub fn new(inner: D, runtime: R, options: DelayOptions) -> Self {
        assert_ne!(options.bytes_per_second, Some(0), "a rate of 0 would never end");
        let chance = Pcg32::seed_from_u64(options.seed);
        let state = RefCell::new(State { chance, busy_until: Instant::default() });
        Delay { inner, runtime, options, state }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// When a request made now may complete.
    fn due(&self, verb: Verb, bytes: u64) -> Instant {
        let mut state = self.state.borrow_mut();
        let latency = match verb {
            Verb::Append => self.options.append,
            Verb::Read => self.options.read,
            Verb::Flush => self.options.flush,
            _ => self.options.other,
        };
        let jitter_ns = u64::try_from(self.options.jitter.as_nanos()).unwrap_or(u64::MAX - 1);
        let jitter = Duration::from_nanos(below(&mut state.chance, jitter_ns + 1));
        let mut start = self.runtime.now();
        if let Some(rate) = self.options.bytes_per_second {
            let transfer_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            start = state.busy_until.max(start)
                + Duration::from_nanos(u64::try_from(transfer_ns).unwrap_or(u64::MAX));
            state.busy_until = start;
        }
        start + latency + jitter
    }

    fn hold<T>(
        &self,
        verb: Verb,
        bytes: u64,
        request: impl Future<Output = T> + 'static,
    ) -> impl Future<Output = T> + 'static {
        let due = self.due(verb, bytes);
        let runtime = self.runtime.clone();
        async move {
            loop {
                let left = due.since(runtime.now());
                if left.is_zero() {
                    break request.await;
                }
                runtime.sleep(left).await;
            }
        }
    }
}

impl<D: Device, R: Runtime> Device for Delay<D, R> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn abilities(&self) -> &dyn Abilities {
        self.inner.abilities()
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let bytes = data.iter().map(|piece| piece.len() as u64).sum();
        self.hold(Verb::Append, bytes, self.inner.append(at, data))
    }

    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let bytes = data.iter().map(|piece| piece.len() as u64).sum();
        self.hold(Verb::Append, bytes, self.inner.append_again(at, data))
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        self.hold(Verb::Read, buffer.len() as u64, self.inner.read(from, buffer))
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.hold(Verb::Flush, 0, self.inner.flush())
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.hold(Verb::Seal, 0, self.inner.seal(zone))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.hold(Verb::Reset, 0, self.inner.reset(zone))
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.hold(Verb::Release, 0, self.inner.release(zone))
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.hold(Verb::ReadRoot, 0, self.inner.read_root())
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.hold(Verb::WriteRoot, 0, self.inner.write_root(root))
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.hold(Verb::Grow, 0, self.inner.grow(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use futures_lite::future::{block_on, yield_now};
    use mjolnir_units::BLOCK_BYTES;

    use super::*;
    use crate::MemoryDevice;

    /// A clock that a sleep moves on by itself: enough for one request after another.
    #[derive(Clone, Default)]
    struct Clock(Rc<Cell<Instant>>);

    impl Runtime for Clock {
        fn now(&self) -> Instant {
            self.0.get()
        }
        fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
            let clock = self.0.clone();
            async move {
                yield_now().await;
                clock.set(clock.get() + duration);
            }
        }
        fn spawn(&self, _: impl Future<Output = ()> + 'static) {
            unreachable!("the filter spawns nothing");
        }
        fn parallel<T: Send + 'static>(
            &self,
            job: impl FnOnce(usize) -> T + Send + 'static,
        ) -> impl Future<Output = (T, Duration)> + 'static {
            std::future::ready((job(0), Duration::ZERO))
        }
        fn parallelism(&self) -> usize {
            1
        }
        fn random(&self) -> u64 {
            unreachable!("the filter draws from its own seed")
        }
        fn cpu_time(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn device(options: DelayOptions) -> (Delay<MemoryDevice, Clock>, Clock) {
        let clock = Clock::default();
        let memory = MemoryDevice::of_zones(2, 64);
        block_on(memory.reset(ZoneId(0))).unwrap();
        (Delay::new(memory, clock.clone(), options), clock)
    }

    fn blocks(count: usize) -> Vec<Bytes> {
        vec![Bytes::from(vec![1; count * BLOCK_BYTES])]
    }

    #[test]
    fn each_request_takes_its_latency() {
        let (device, clock) = device(DelayOptions {
            append: Duration::from_micros(20),
            flush: Duration::from_micros(300),
            ..Default::default()
        });
        block_on(device.append(Pba(0), blocks(1))).unwrap();
        assert_eq!(clock.now(), Instant(20_000));
        block_on(device.flush()).unwrap();
        assert_eq!(clock.now(), Instant(320_000));
    }

    #[test]
    fn requests_in_flight_share_the_rate() {
        let rate = Some(4096 * 1000);
        let (device, clock) = device(DelayOptions { bytes_per_second: rate, ..Default::default() });
        // One block takes a millisecond; the second append waits for the first one's blocks.
        let first = device.append(Pba(0), blocks(3));
        let second = device.append(Pba(3), blocks(2));
        block_on(second).unwrap();
        assert_eq!(clock.now(), Instant(5_000_000));
        block_on(first).unwrap();
        assert_eq!(clock.now(), Instant(5_000_000));
    }

    #[test]
    fn jitter_stays_within_its_bound_and_repeats_for_a_seed() {
        let times = |seed| {
            let jitter = Duration::from_nanos(100);
            let (device, clock) = device(DelayOptions { jitter, seed, ..Default::default() });
            let mut times = Vec::new();
            for at in 0..20 {
                let before = clock.now();
                block_on(device.append(Pba(at), blocks(1))).unwrap();
                times.push(clock.now().since(before).as_nanos());
            }
            times
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        assert!(times(1).iter().all(|&time| time <= 100));
    }

    #[test]
    fn what_is_held_back_is_in_flight_when_the_power_goes() {
        let mut kept = 0;
        for seed in 0..40 {
            let (device, _) =
                device(DelayOptions { append: Duration::from_millis(1), ..Default::default() });
            block_on(device.flush()).unwrap();
            drop(device.append(Pba(0), blocks(1)));
            // The flush was called while the append was in flight, so it does not cover it.
            block_on(device.flush()).unwrap();
            let found = device.inner().crash(seed);
            let buffer = block_on(found.read(Pba(0), AlignedBuf::zeroed(BLOCK_BYTES))).unwrap();
            kept += u32::from(buffer.as_ref()[0] == 1);
        }
        assert!(0 < kept && kept < 40, "{kept} of 40 were kept");
    }
}
