//! Tests that both ways of I/O give the same results.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use futures_lite::future::{poll_once, yield_now};
use mjolnir_host::{HostRuntime, run};
use mjolnir_units::BLOCK_BYTES;

use super::*;

/// Runs the test on a new, empty file, through io_uring and through threads.
fn both(test: impl AsyncFn(Io, Arc<Target>)) {
    for uring in [true, false] {
        run(async |runtime: HostRuntime| {
            let target = Arc::new(Target::new(tempfile::tempfile().unwrap()));
            let io = match uring {
                true => Io::uring(target.clone(), &runtime).unwrap(),
                false => Io::pool(target.clone()),
            };
            test(io, target).await;
        });
    }
}

fn write(offset: u64, pieces: Vec<Bytes>) -> Request {
    Request::Write { offset, pieces }
}

fn read(offset: u64, length: usize) -> Request {
    Request::Read { offset, buffer: AlignedBuf::zeroed(length) }
}

#[test]
fn what_remains_of_pieces_starts_after_what_was_written() {
    let pieces = [b"abc".as_slice(), b"", b"de", b"f"].map(Bytes::from_static);
    for done in 0..=6 {
        let rest: Vec<&[u8]> = remaining(&pieces, done).collect();
        assert_eq!(rest.concat(), b"abcdef"[done..], "{done}");
        assert!(rest.iter().all(|piece| !piece.is_empty()));
    }
    let many = vec![Bytes::from_static(b"x"); PIECES_MAX + 10];
    assert_eq!(remaining(&many, 0).count(), PIECES_MAX);
    assert_eq!(remaining(&many, 100).count(), PIECES_MAX - 90);
}

/// Ten times as many requests as the ring holds, none of them waited for before all are started.
#[test]
fn a_flood_of_requests_is_carried_out() {
    const COUNT: u64 = 2560;
    both(async |io, _| {
        let block = |n: u64| Bytes::from(vec![n as u8; BLOCK_BYTES]);
        let at = |n: u64| n * BLOCK_BYTES as u64;
        let writes: Vec<_> =
            (0..COUNT).map(|n| io.start(write(at(n), vec![block(n)]), None)).collect();
        for write in writes {
            assert!(write.await.unwrap().is_none());
        }
        let reads: Vec<_> = (0..COUNT).map(|n| io.start(read(at(n), BLOCK_BYTES), None)).collect();
        for (n, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await.unwrap().unwrap().as_ref(), block(n as u64));
        }
    });
}

/// More bytes of writes than the kernel is given at once, and reads that are started behind them.
#[test]
fn reads_pass_writes_that_wait_and_neither_waits_for_ever() {
    const MIB: usize = 1 << 20;
    const COUNT: usize = 64;
    both(async |io, _| {
        io.start(write(0, vec![Bytes::from(vec![7; MIB])]), None).await.unwrap();
        let megabyte = |n: usize| Bytes::from(vec![n as u8; MIB]);
        let at = |n: usize| ((1 + n) * MIB) as u64;
        // One of them is larger than all that may be written at once.
        let large = write(at(COUNT), vec![Bytes::from(vec![9; 20 * MIB])]);
        let mut writes: Vec<_> =
            (0..COUNT).map(|n| io.start(write(at(n), vec![megabyte(n)]), None)).collect();
        writes.push(io.start(large, None));
        let reads: Vec<_> = (0..1000).map(|_| io.start(read(0, 64), None)).collect();
        for read in reads {
            assert_eq!(read.await.unwrap().unwrap().as_ref(), [7; 64]);
        }
        for write in writes {
            write.await.unwrap();
        }
        for n in 0..COUNT {
            let found = io.start(read(at(n), MIB), None).await.unwrap().unwrap();
            assert!(found.as_ref() == &megabyte(n)[..], "MiB {n}");
        }
        let found = io.start(read(at(COUNT), 20 * MIB), None).await.unwrap().unwrap();
        assert!(found.as_ref().iter().all(|byte| *byte == 9));
    });
}

/// One write of more pieces than a system call takes is continued where the last call ended.
#[test]
fn a_write_of_many_pieces_arrives_whole() {
    both(async |io, _| {
        let pieces: Vec<Bytes> = (0..3 * PIECES_MAX + 7)
            .map(|n| Bytes::from(n.to_le_bytes()[..1 + n % 8].to_vec()))
            .collect();
        let all = pieces.concat();
        io.start(write(100, pieces), None).await.unwrap();
        let found = io.start(read(100, all.len()), None).await.unwrap().unwrap();
        assert_eq!(found.as_ref(), all);
        // Those that lie side by side, too.
        let whole = Bytes::from(all.into_iter().rev().collect::<Vec<u8>>());
        let cuts = (0..=whole.len()).step_by(3).chain([whole.len()]).collect::<Vec<_>>();
        let pieces: Vec<Bytes> = cuts.windows(2).map(|cut| whole.slice(cut[0]..cut[1])).collect();
        assert!(pieces.len() > 3 * PIECES_MAX);
        io.start(write(100, pieces), None).await.unwrap();
        let found = io.start(read(100, whole.len()), None).await.unwrap().unwrap();
        assert_eq!(found.as_ref(), whole);
    });
}

#[test]
fn reading_past_the_end_is_an_error_not_zeroes() {
    both(async |io, target| {
        target.file.set_len(BLOCK_BYTES as u64 + 10).unwrap();
        io.start(read(0, BLOCK_BYTES), None).await.unwrap();
        for offset in [BLOCK_BYTES as u64, 1 << 20] {
            let error = io.start(read(offset, BLOCK_BYTES), None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    });
}

#[test]
fn a_hole_reads_as_zeroes_and_the_rest_stays() {
    both(async |io, _| {
        io.start(write(0, vec![Bytes::from(vec![1; 4 * BLOCK_BYTES])]), None).await.unwrap();
        let (offset, length) = (BLOCK_BYTES as u64, 2 * BLOCK_BYTES as u64);
        io.start(Request::Punch { offset, length }, None).await.unwrap();
        let found = io.start(read(0, 4 * BLOCK_BYTES), None).await.unwrap().unwrap();
        let expected = [1, 0, 0, 1].map(|byte| [byte; BLOCK_BYTES]).concat();
        assert!(found.as_ref() == expected);
    });
}

/// A hold is released when the request has ended, whether anybody waits for it or not; and what
/// was started reaches the file although its future was dropped.
#[test]
fn dropped_requests_end_and_release_their_hold() {
    both(async |io, target| {
        let in_flight = Arc::new(InFlight::default());
        for n in 0..50 {
            let data = vec![Bytes::from(vec![7; BLOCK_BYTES])];
            let mut started =
                Box::pin(io.start(write(n * BLOCK_BYTES as u64, data), Some(in_flight.hold())));
            if n % 2 == 0 {
                let _ = poll_once(&mut started).await;
            }
            if n % 4 == 0 {
                yield_now().await;
            }
        }
        in_flight.idle().await;
        if let Io::Uring(_) = io {
            assert_eq!(target.file.metadata().unwrap().len(), 50 * BLOCK_BYTES as u64);
        }
    });
}

/// The ring may go while the kernel works for it: it waits, so that no memory is freed too early.
#[test]
fn a_ring_that_is_dropped_waits_for_the_kernel() {
    run(async |runtime: HostRuntime| {
        for round in 0..20u8 {
            let target = Arc::new(Target::new(tempfile::tempfile().unwrap()));
            target.file.set_len(1 << 20).unwrap();
            let io = Io::uring(target.clone(), &runtime).unwrap();
            let requests: Vec<_> = (0..32)
                .map(|n| match n % 2 {
                    0 => io.start(write(n << 12, vec![Bytes::from(vec![round; 4096])]), None),
                    _ => io.start(read(n << 12, 4096), None),
                })
                .collect();
            // More than the kernel is given at once.
            let large = Bytes::from(vec![round; 1 << 20]);
            let waiting: Vec<_> = (0..u64::from(round % 2) * 24)
                .map(|n| io.start(write(n << 20, vec![large.clone()]), None))
                .collect();
            // Sometimes before the driver has submitted them, sometimes after.
            for _ in 0..round % 3 {
                yield_now().await;
            }
            drop((requests, waiting));
            drop(io);
            assert_eq!(Arc::strong_count(&target), 1, "the ring is gone");
            assert!(large.is_unique(), "the data of writes is kept");
        }
    });
}

/// A pipe takes 64 KiB at a time.
#[test]
fn a_write_that_the_kernel_does_in_parts_arrives_whole() {
    run(async |runtime: HostRuntime| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let target = Arc::new(Target::new(OwnedFd::from(writer).into()));
        let io = Io::uring(target.clone(), &runtime).unwrap();
        let pieces: Vec<Bytes> =
            (0..=255u8).map(|n| Bytes::from(vec![n; 4096 + usize::from(n)])).collect();
        let all = pieces.concat();
        let reads = std::thread::spawn(move || {
            let mut found = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut found).map(|_| found)
        });
        io.start(write(0, pieces), None).await.unwrap();
        drop((io, target));
        assert!(reads.join().unwrap().unwrap() == all);
    });
}

/// A pipe cannot be synced, which stands for a disk that could not write what it was given.
#[test]
fn a_failed_flush_is_remembered() {
    for uring in [true, false] {
        run(async |runtime: HostRuntime| {
            let (reader, _writer) = std::io::pipe().unwrap();
            let target = Arc::new(Target::new(OwnedFd::from(reader).into()));
            let io = match uring {
                true => Io::uring(target.clone(), &runtime).unwrap(),
                false => Io::pool(target.clone()),
            };
            target.check_lost().unwrap();
            io.start(Request::Sync, None).await.unwrap_err();
            target.check_lost().unwrap_err();
        });
    }
}

/// The kernel tells one of them, and it need not be the one that is asked first.
#[test]
fn a_sync_that_succeeds_beside_one_that_fails_is_none() {
    run(async |_runtime: HostRuntime| {
        let target = Arc::new(Target::new(tempfile::tempfile().unwrap()));
        target.sync().unwrap();
        target.confirm_sync().await.unwrap();
        let failing = target.begin_sync();
        let (own, thread) = (target.clone(), target.clone());
        let thread = std::thread::spawn(move || thread.sync());
        let mut confirmed = std::pin::pin!(own.confirm_sync());
        assert!(futures_lite::future::poll_once(&mut confirmed).await.is_none());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!thread.is_finished(), "it waits for the other one");
        target.note_sync(Err(std::io::ErrorKind::Other.into())).unwrap_err();
        drop(failing);
        confirmed.await.unwrap_err();
        thread.join().unwrap().unwrap_err();
        target.sync().unwrap_err();
    });
}
