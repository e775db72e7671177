//! How fast 4 KiB appends at depth 32 go through `FileDevice`, beside a bare io_uring loop on the
//! same file: `cargo run --release -p mjolnir-backends --example append_rate -- FILE [SECONDS
//! [WHAT]]`. FILE is made, filled (1 GiB) and removed again; only lines that contain WHAT are run.

#![allow(clippy::disallowed_methods)] // A measurement needs the clock.

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use io_uring::{IoUring, opcode, types};
use mjolnir_backends::{CreateOptions, Direct, FileDevice, IoChoice, OpenOptions};
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_host::{HostRuntime, run};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

const DEPTH: usize = 32;
const ZONE_BLOCKS: u64 = 4096;
const BYTES: u64 = 1 << 30;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: append_rate FILE [SECONDS [WHAT]]");
    let path = Path::new(&path);
    let seconds = arguments.next().map_or(3, |text| text.parse().expect("a number of seconds"));
    let what = arguments.next().unwrap_or_default();
    let time = Duration::from_secs(seconds);
    let create = CreateOptions {
        bytes: Some(BYTES + (1 << 20)),
        zone_blocks: ZONE_BLOCKS,
        preallocate: true,
        uuid: [1; 16],
        overwrite: false,
    };
    FileDevice::create(path, create).expect("a new file");
    run(async |runtime| fill(path, &runtime).await);
    for round in 1..=2 {
        println!("round {round}");
        let name = "bare io_uring, direct";
        if name.contains(&what) {
            report(name, || bare(path, time));
        }
        for (name, io, direct) in [
            ("FileDevice, io_uring, direct", IoChoice::Uring, Direct::Auto),
            ("FileDevice, threads, direct", IoChoice::Pool, Direct::Auto),
            ("FileDevice, io_uring, page cache", IoChoice::Uring, Direct::Never),
            ("FileDevice, threads, page cache", IoChoice::Pool, Direct::Never),
        ] {
            let options = OpenOptions { io, direct, ..Default::default() };
            if !name.contains(&what) {
                continue;
            }
            report(name, || run(async |runtime| appends(path, options, &runtime, time).await));
        }
    }
    std::fs::remove_file(path).expect("the file can be removed");
}

/// Processor time of this thread and of the whole process.
fn processor() -> (Duration, Duration) {
    let time = |clock| {
        let time = rustix::time::clock_gettime(clock);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    (time(rustix::time::ClockId::ThreadCPUTime), time(rustix::time::ClockId::ProcessCPUTime))
}

fn report(name: &str, job: impl FnOnce() -> u64) {
    let (began, (thread, process)) = (Instant::now(), processor());
    let writes = job();
    let (passed, (thread_now, process_now)) = (began.elapsed(), processor());
    println!(
        "{name:34} {:8.0} writes/s  {:5.2} us of the thread, {:5.2} us of the process each",
        writes as f64 / passed.as_secs_f64(),
        (thread_now - thread).as_secs_f64() * 1e6 / writes as f64,
        (process_now - process).as_secs_f64() * 1e6 / writes as f64,
    );
}

async fn fill(path: &Path, runtime: &HostRuntime) {
    let device = FileDevice::open(path, OpenOptions::default(), runtime).expect("it opens");
    let data = AlignedBuf::copy_of(&vec![0x5A; 256 * BLOCK_BYTES]).freeze();
    println!("direct: {}, io_uring: {}", device.is_direct(), device.is_uring());
    for zone in 0..device.info().zones {
        device.reset(ZoneId(zone)).await.expect("a reset");
        let mut at = ZoneId(zone).start(ZONE_BLOCKS);
        for _ in 0..ZONE_BLOCKS / 256 {
            device.append(at, vec![data.clone()]).await.expect("an append");
            at = at.plus(256);
        }
    }
    device.flush().await.expect("a flush");
}

/// 32 tasks, each of which appends block after block to a zone of its own.
async fn appends(path: &Path, options: OpenOptions, runtime: &HostRuntime, time: Duration) -> u64 {
    let device = Rc::new(FileDevice::open(path, options, runtime).expect("it opens"));
    let end = Instant::now() + time;
    let count = Rc::new(Cell::new(0));
    let running = Rc::new(Cell::new(DEPTH));
    for task in 0..DEPTH {
        let (device, count, running) = (device.clone(), count.clone(), running.clone());
        runtime.spawn(async move {
            let data: Bytes = AlignedBuf::copy_of(&[task as u8; BLOCK_BYTES]).freeze();
            let zones = device.info().zones as usize;
            let mut zone = task;
            'zones: loop {
                device.reset(ZoneId(zone as u32)).await.expect("a reset");
                for offset in 0..ZONE_BLOCKS {
                    let at: Pba = ZoneId(zone as u32).start(ZONE_BLOCKS).plus(offset);
                    device.append(at, vec![data.clone()]).await.expect("an append");
                    count.set(count.get() + 1);
                    if Instant::now() >= end {
                        break 'zones;
                    }
                }
                zone = (zone + DEPTH) % zones;
            }
            running.set(running.get() - 1);
        });
    }
    while running.get() > 0 {
        runtime.sleep(Duration::from_millis(20)).await;
    }
    count.get()
}

/// The same load without anything of ours: random blocks, one loop, one ring.
fn bare(path: &Path, time: Duration) -> u64 {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .expect("it opens directly");
    let mut ring = IoUring::new(64).expect("a ring");
    let buffer = AlignedBuf::copy_of(&[7; BLOCK_BYTES]);
    let mut chance = Pcg32::seed_from_u64(1);
    let mut entry = || {
        let block = 256 + chance.next_u64() % (BYTES / BLOCK_BYTES as u64);
        opcode::Write::new(types::Fd(file.as_raw_fd()), buffer.as_ref().as_ptr(), 4096)
            .offset(block * BLOCK_BYTES as u64)
            .build()
    };
    let (end, mut count, mut in_flight) = (Instant::now() + time, 0, 0);
    loop {
        let open = Instant::now() < end;
        while open && in_flight < DEPTH {
            // SAFETY: the buffer outlives the loop, which ends when nothing is in flight.
            unsafe { ring.submission().push(&entry()) }.expect("there is room");
            in_flight += 1;
        }
        if in_flight == 0 {
            return count;
        }
        ring.submit_and_wait(1).expect("it submits");
        for completion in ring.completion() {
            assert_eq!(completion.result(), 4096);
            in_flight -= 1;
            count += 1;
        }
    }
}
