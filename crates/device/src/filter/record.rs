//! A device that keeps a log of its requests.

use std::cell::{Ref, RefCell};
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind};

/// A request, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// An append.
    Append {
        /// Where.
        at: Pba,
        /// How long.
        blocks: u64,
    },
    /// A read.
    Read {
        /// Where.
        from: Pba,
        /// How long.
        blocks: u64,
    },
    /// A flush.
    Flush,
    /// A zone was sealed.
    Seal(ZoneId),
    /// A zone was reset.
    Reset(ZoneId),
    /// The bytes of a zone were given back.
    Release(ZoneId),
    /// The root was read.
    ReadRoot,
    /// The root was written.
    WriteRoot {
        /// Its length.
        bytes: u64,
    },
    /// The device was grown.
    Grow {
        /// The size asked for.
        bytes: u64,
    },
}

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request was made. Requests are numbered from 0 on in the order of calls.
    Called(u64, Call),
    /// The request of that number completed, with that error if any. A request whose future was
    /// dropped never completes.
    Completed(u64, Option<ErrorKind>),
}

/// The log of a [`Record`]; clones are handles of one log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: Rc<RefCell<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    events: Vec<Event>,
    calls: u64,
}

impl Log {
    /// Everything since the device was wrapped, or since [`take`](Log::take).
    pub fn events(&self) -> Ref<'_, [Event]> {
        Ref::map(self.entries.borrow(), |entries| entries.events.as_slice())
    }

    /// Takes the events out.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.entries.borrow_mut().events)
    }

    /// The requests among the events, in order of calls.
    pub fn calls(&self) -> Vec<Call> {
        let calls = |event: &Event| match event {
            Event::Called(_, call) => Some(*call),
            Event::Completed(..) => None,
        };
        self.events().iter().filter_map(calls).collect()
    }

    fn called(&self, call: Call) -> u64 {
        let mut entries = self.entries.borrow_mut();
        let number = entries.calls;
        entries.calls += 1;
        entries.events.push(Event::Called(number, call));
        number
    }

    fn completed(&self, number: u64, error: Option<ErrorKind>) {
        self.entries.borrow_mut().events.push(Event::Completed(number, error));
    }
}

/// Passes everything on, and logs calls and completions.
pub struct Record<D> {
    inner: D,
    log: Log,
}

impl<D: Device> Record<D> {
    /// Wraps `inner`.
    pub fn new(inner: D) -> Self {
        Record { inner, log: Log::default() }
    }

    /// A handle of the log, which outlives the device.
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn note<T>(
        &self,
        call: Call,
        request: impl Future<Output = Result<T, DeviceError>> + 'static,
    ) -> impl Future<Output = Result<T, DeviceError>> + 'static {
        let number = self.log.called(call);
        let log = self.log.clone();
        async move {
            let result = request.await;
            log.completed(number, result.as_ref().err().map(|error| error.kind));
            result
        }
    }
}

impl<D: Device> Device for Record<D> {
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
        let blocks = data.iter().map(|piece| piece.len() as u64).sum::<u64>() / BLOCK_SIZE;
        self.note(Call::Append { at, blocks }, self.inner.append(at, data))
    }

    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let blocks = data.iter().map(|piece| piece.len() as u64).sum::<u64>() / BLOCK_SIZE;
        self.note(Call::Append { at, blocks }, self.inner.append_again(at, data))
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let blocks = buffer.len() as u64 / BLOCK_SIZE;
        self.note(Call::Read { from, blocks }, self.inner.read(from, buffer))
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note(Call::Flush, self.inner.flush())
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note(Call::Seal(zone), self.inner.seal(zone))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note(Call::Reset(zone), self.inner.reset(zone))
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note(Call::Release(zone), self.inner.release(zone))
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.note(Call::ReadRoot, self.inner.read_root())
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let bytes = root.len() as u64;
        self.note(Call::WriteRoot { bytes }, self.inner.write_root(root))
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.note(Call::Grow { bytes }, self.inner.grow(bytes))
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;
    use mjolnir_units::BLOCK_BYTES;

    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn calls_and_completions_are_logged_each_when_it_happens() {
        let device = Record::new(MemoryDevice::of_zones(1, 8));
        let log = device.log();
        let block = || vec![Bytes::from(vec![0; BLOCK_BYTES])];
        block_on(device.reset(ZoneId(0))).unwrap();
        let append = device.append(Pba(0), block());
        let wrong = device.append(Pba(5), block());
        block_on(device.flush()).unwrap();
        block_on(append).unwrap();
        block_on(wrong).unwrap_err();
        assert_eq!(
            log.take(),
            [
                Event::Called(0, Call::Reset(ZoneId(0))),
                Event::Completed(0, None),
                Event::Called(1, Call::Append { at: Pba(0), blocks: 1 }),
                Event::Called(2, Call::Append { at: Pba(5), blocks: 1 }),
                Event::Called(3, Call::Flush),
                Event::Completed(3, None),
                Event::Completed(1, None),
                Event::Completed(2, Some(ErrorKind::Invalid)),
            ]
        );
        drop(device.seal(ZoneId(0)));
        assert_eq!(log.calls(), [Call::Seal(ZoneId(0))]);
        assert_eq!(log.events().len(), 1, "a dropped request does not complete");
    }
}
