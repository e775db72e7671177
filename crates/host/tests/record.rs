//! Requests that end in any order are recorded in the order in which they were made, with the
//! latency of those that ended well, however many are in flight.

#[path = "../../../fuzz/held.rs"]
mod held;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use futures_lite::future::{poll_once, yield_now};
use mjolnir_device::Runtime;
use mjolnir_host::{HostErrorKind, HostRuntime, Recorded, Recorder, run};
use mjolnir_store::{
    Chunk, Chunks, Durability, Error, ErrorKind, Extent, Op, Store, TargetInfo, ZeroMode,
};
use mjolnir_units::TreeId;
use mjolnir_workload::Request;
use mjolnir_workload::trace::{ReadOptions, TraceReader};
use tempfile::TempDir;

const SEED: u64 = 7;

/// A store that keeps everyone waiting until told how each request ends, or nobody.
#[derive(Clone, Default)]
struct Slow {
    prompt: bool,
    asked: Rc<Cell<usize>>,
    ends: Rc<RefCell<Vec<Option<bool>>>>,
}

impl Slow {
    async fn wait(&self) -> Result<(), Error> {
        if self.prompt {
            return Ok(());
        }
        let number = self.asked.replace(self.asked.get() + 1);
        self.ends.borrow_mut().resize(number + 1, None);
        let well = poll_fn(|cx| match self.ends.borrow()[number] {
            Some(well) => Poll::Ready(well),
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        });
        if well.await { Ok(()) } else { Err(Error::new(ErrorKind::Io, "told to fail")) }
    }
}

impl Store for Slow {
    fn targets(&self) -> Vec<TargetInfo> {
        Vec::new()
    }

    fn find(&self, name: &str) -> Result<TargetInfo, Error> {
        Err(Error::new(ErrorKind::NotFound, name))
    }

    fn info(&self, id: TreeId) -> Result<TargetInfo, Error> {
        Ok(TargetInfo { name: format!("v{}", id.0), id, size: 1 << 40, read_only: false })
    }

    async fn read(&self, _: TreeId, _: u64, length: u64) -> Result<Chunks, Error> {
        self.wait().await.map(|()| Chunks::from_buf([Chunk::Zeroes(length)]))
    }

    async fn write(&self, _: TreeId, _: u64, _: Bytes, _: Durability) -> Result<(), Error> {
        self.wait().await
    }

    async fn write_zeroes(
        &self,
        _: TreeId,
        _: u64,
        _: u64,
        _: ZeroMode,
        _: Durability,
    ) -> Result<(), Error> {
        self.wait().await
    }

    async fn trim(&self, _: TreeId, _: u64, _: u64, _: Durability) -> Result<(), Error> {
        self.wait().await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.wait().await
    }

    async fn extents(&self, _: TreeId, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, Error> {
        Ok(Vec::new())
    }

    async fn cache(&self, _: TreeId, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    async fn atomic(&self, _: Vec<Op>, _: Durability) -> Result<(), Error> {
        Ok(())
    }

    fn atomic_limit(&self) -> (usize, u64) {
        (0, 0)
    }
}

fn read(folder: &TempDir) -> (Vec<Request>, u64) {
    let file = File::open(folder.path().join("r")).unwrap();
    let mut reader = TraceReader::open(file, "r", &ReadOptions::default()).unwrap();
    let mut requests = Vec::new();
    while let Some(request) = reader.next_request().unwrap() {
        requests.push(request);
    }
    assert_eq!(reader.report().notes, Vec::<String>::new(), "the recording is whole");
    (requests, reader.report().times_raised)
}

/// Asks for a read at `number` × 512.
fn ask(runtime: &HostRuntime, store: &Recorded<Slow>, number: u64) {
    let store = store.clone();
    runtime.spawn(async move {
        let _ = store.read(TreeId(1), number * 512, 512).await;
    });
}

#[test]
fn requests_that_end_in_any_order_are_recorded_in_theirs() {
    println!("seed {SEED}");
    let folder = TempDir::new().unwrap();
    run(async |runtime: HostRuntime| {
        let recorder = Recorder::new(runtime.clone());
        let slow = Slow::default();
        let store = Recorded::new(slow.clone(), recorder.clone(), TreeId(1));
        recorder.start(&folder.path().join("r"), false).await.unwrap();
        let mut state = SEED;
        let mut chance = |end: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as usize % end
        };
        let mut open = Vec::new();
        for number in 0..2000 {
            ask(&runtime, &store, number as u64);
            while slow.asked.get() <= number {
                yield_now().await;
            }
            open.push(number);
            if open.len() > chance(60) {
                let ended = open.swap_remove(chance(open.len()));
                slow.ends.borrow_mut()[ended] = Some(!ended.is_multiple_of(5));
                yield_now().await;
            }
        }
        slow.ends.borrow_mut().iter_mut().for_each(|end| *end = end.or(Some(true)));
        let open: Vec<bool> = open.iter().map(|number| number.is_multiple_of(5)).collect();
        while recorder.recording().unwrap().requests < 2000 {
            yield_now().await;
        }
        assert!(open.len() < 60);
        let recording = recorder.stop().await.unwrap();
        let bytes = folder.path().join("r").metadata().unwrap().len();
        assert_eq!((recording.requests, recording.bytes), (2000, bytes));
    });
    let (requests, raised) = read(&folder);
    assert_eq!((requests.len(), raised), (2000, 0));
    let mut without = 0;
    for (number, request) in (0..).zip(&requests) {
        assert_eq!((request.offset, request.length), (number * 512, 512));
        // Those that were open at the end all ended well.
        without += usize::from(request.latency.is_none());
        assert!(request.latency.is_some() || number % 5 == 0, "{request:?}");
    }
    assert!((300..=400).contains(&without), "{without} failed");
}

#[test]
fn one_that_never_ends_holds_up_no_more_than_the_ring_takes() {
    let folder = TempDir::new().unwrap();
    run(async |runtime: HostRuntime| {
        let recorder = Recorder::new(runtime.clone());
        let slow = Slow::default();
        let store = Recorded::new(slow.clone(), recorder.clone(), TreeId(1));
        recorder.start(&folder.path().join("r"), false).await.unwrap();
        for number in 0..10_000 {
            ask(&runtime, &store, number as u64);
            while slow.asked.get() <= number {
                yield_now().await;
            }
            // All but the first end at once.
            slow.ends.borrow_mut()[number] = (number > 0).then_some(true);
            yield_now().await;
            let told = recorder.recording().unwrap().requests;
            // It is let go of, and with it all behind it that have ended.
            match number {
                4_000 => assert_eq!(told, 0),
                9_999 => assert!(told >= 9_999, "{told} recorded"),
                _ => {}
            }
        }
        assert_eq!(recorder.stop().await.unwrap().requests, 10_000);
        // It ends after all, in no recording, and then in another.
        recorder.start(&folder.path().join("other"), false).await.unwrap();
        slow.ends.borrow_mut()[0] = Some(true);
        yield_now().await;
        yield_now().await;
        assert_eq!(recorder.stop().await.unwrap().requests, 0);
    });
    let (requests, _) = read(&folder);
    assert_eq!(requests.len(), 10_000);
    assert_eq!(requests.iter().filter(|request| request.latency.is_none()).count(), 1);
    assert_eq!((requests[0].offset, requests[0].latency), (0, None));
}

#[test]
fn one_recording_begins_at_a_time() {
    let folder = TempDir::new().unwrap();
    run(async |runtime: HostRuntime| {
        let recorder = Recorder::new(runtime);
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        {
            let mut starts = std::pin::pin!(recorder.start(&first, false));
            let begun = poll_once(&mut starts).await;
            let refused = recorder.start(&second, false).await.unwrap_err();
            assert_eq!(refused.kind, HostErrorKind::Busy, "{refused}");
            if begun.is_some() {
                // The disk was quick.
                recorder.stop().await.unwrap();
            }
        }
        // Nobody waited for it.
        recorder.start(&second, false).await.unwrap();
        assert_eq!(recorder.stop().await.unwrap().file, second);
    });
}

#[test]
fn a_request_that_is_given_up_is_recorded_without_latency() {
    let folder = TempDir::new().unwrap();
    run(async |runtime: HostRuntime| {
        let recorder = Recorder::new(runtime.clone());
        let store = Recorded::new(Slow::default(), recorder.clone(), TreeId(1));
        recorder.start(&folder.path().join("r"), false).await.unwrap();
        let given_up = futures_lite::future::poll_once(store.write(
            TreeId(1),
            4096,
            Bytes::from_static(&[1; 512]),
            Durability::Durable,
        ));
        assert!(given_up.await.is_none());
        // What no volume reaches is not recorded.
        assert!(
            futures_lite::future::poll_once(store.read(TreeId(1), u64::MAX, 512)).await.is_none()
        );
        assert_eq!(recorder.stop().await.unwrap().requests, 2);
    });
    let (requests, _) = read(&folder);
    let told: Vec<_> =
        requests.iter().map(|request| (request.op.name(), request.latency)).collect();
    assert_eq!(told, [("write", None), ("flush", None)]);
}

#[test]
fn memory_is_bounded_however_many_requests_there_are() {
    let folder = TempDir::new().unwrap();
    let mut requests = 0;
    let held = held::peak(|| {
        run(async |runtime: HostRuntime| {
            let recorder = Recorder::new(runtime.clone());
            let store = Recorded::new(
                Slow { prompt: true, ..Slow::default() },
                recorder.clone(),
                TreeId(1),
            );
            recorder.start(&folder.path().join("r"), false).await.unwrap();
            for number in 0..300_000 {
                let data = Bytes::from_static(&[1; 512]);
                let offset = number * 7919 % 100_000 * 512;
                store.write(TreeId(1), offset, data, Durability::Buffered).await.unwrap();
                // The thread that writes gets its turn, as it does between clients.
                if number % 10_000 == 0 {
                    runtime.sleep(std::time::Duration::from_millis(20)).await;
                }
            }
            requests = recorder.stop().await.unwrap().requests;
        });
    });
    assert_eq!(requests, 300_000);
    assert!(held < 1 << 20, "{held} bytes were held at once");
    let bytes = folder.path().join("r").metadata().unwrap().len();
    assert!(bytes > 2 << 20, "the recording is longer than that: {bytes}");
}
