//! The controller: queue, link, write buffer and parts of pages, in exact nanoseconds.

use mjolnir_flash::ftl::{Overwrites, Precondition, WhyNoReclaim};
use mjolnir_flash::{Completion, Device, Request, RequestError, RequestKind, Ssd};

const PAGE: u64 = 4096;
/// Of a page and its out-of-band bytes over the bus, and of a page over the link.
const BUS: u64 = 105_600;
const LINK: u64 = 1_907;

/// Eight dies of DiskSim's drive, without summaries, so that every page takes as long.
fn device() -> Device {
    let mut device = Device::shipped("disksim-ssd").unwrap();
    device.nand.blocks_per_plane = 64;
    device.ftl.summary_page = false;
    device
}

fn new(device: &Device) -> Ssd {
    Ssd::with_oracle(device, 1).unwrap()
}

fn filled(device: &Device) -> Ssd {
    let mut ssd = new(device);
    let full = Precondition { fill: 1.0, overwrites: Overwrites::None, seed: 0 };
    ssd.ftl_mut().precondition(&full).unwrap();
    ssd
}

fn request(kind: RequestKind, page: u64, pages: u64) -> Request {
    Request { kind, offset_bytes: page * PAGE, length_bytes: pages * PAGE }
}

fn submit(ssd: &mut Ssd, now: u64, kind: RequestKind, page: u64, pages: u64) -> Completion {
    ssd.submit(now, request(kind, page, pages)).unwrap()
}

use RequestKind::{Flush, Read, Trim, Write};

#[test]
fn pages_of_one_request_go_to_as_many_dies() {
    let mut ssd = filled(&device());
    let link = (8.0 * 4096.0 * 0.465625f64).round() as u64;
    assert_eq!(submit(&mut ssd, 0, Read, 0, 8).done_ns, 25_000 + BUS + link);
    // The ninth page waits for the die of the first.
    let link = (9.0 * 4096.0 * 0.465625f64).round() as u64;
    let nine = submit(&mut ssd, 1_000_000, Read, 0, 9).done_ns - 1_000_000;
    assert_eq!(nine, 2 * (25_000 + BUS) + link);
}

/// Harmonia's figures are whole operations: 130.9 us a read, 405.9 us a write.
#[test]
fn harmonias_operations_take_what_its_slides_say() {
    let mut device = Device::shipped("harmonia").unwrap();
    device.controller.link_ns_per_byte = 0.0;
    let mut ssd = Ssd::new(&device, 1).unwrap();
    let two_kib = |kind| Request { kind, offset_bytes: 0, length_bytes: 2048 };
    assert_eq!(ssd.submit(0, two_kib(Write)).unwrap().done_ns, 405_900);
    assert_eq!(ssd.submit(500_000, two_kib(Read)).unwrap().done_ns, 500_000 + 130_900);
}

#[test]
fn a_full_queue_makes_requests_wait() {
    let mut device = device();
    device.controller.queue_depth = 2;
    let mut ssd = new(&device);
    let first = submit(&mut ssd, 0, Write, 0, 1);
    let second = submit(&mut ssd, 0, Write, 1, 1);
    assert_eq!((first.accepted_ns, second.accepted_ns), (0, 0));
    let third = submit(&mut ssd, 0, Write, 2, 1);
    assert_eq!(third.accepted_ns, first.done_ns);
    assert_eq!(third.done_ns, first.done_ns + LINK + BUS + 200_000);
    let later = submit(&mut ssd, 10_000_000, Write, 3, 1);
    assert_eq!(later.accepted_ns, 10_000_000);
}

#[test]
fn the_link_is_shared() {
    let mut ssd = new(&device());
    let first = submit(&mut ssd, 0, Write, 0, 1).done_ns;
    let second = submit(&mut ssd, 0, Write, 1, 1).done_ns;
    assert_eq!(first, LINK + BUS + 200_000);
    assert_eq!(second, first + LINK, "its die is idle, its data comes after the first's");
}

#[test]
fn a_buffered_write_is_done_at_once_until_the_buffer_is_full() {
    let mut device = device();
    device.controller.write_buffer_bytes = 4 * PAGE;
    device.controller.buffer_ns = 1_000;
    let mut ssd = new(&device);
    let program = BUS + 200_000;
    let mut done = |page| submit(&mut ssd, 0, Write, page, 1).done_ns;
    // All to one die, so that programs follow each other.
    let at_once: Vec<u64> = (0..4).map(|n| done(8 * n)).collect();
    assert_eq!(at_once, [LINK, 2 * LINK, 3 * LINK, 4 * LINK].map(|ns| ns + 1_000));
    assert_eq!(done(32), LINK + program + 1_000, "when the first program ends");
    assert_eq!(done(40), LINK + 2 * program + 1_000);
    // Reads of what is in the buffer do not wait for its program.
    let read = submit(&mut ssd, 100_000, Read, 40, 1).done_ns;
    assert_eq!(read, 100_000 + 1_000 + LINK);
    let flush = submit(&mut ssd, 200_000, Flush, 0, 0).done_ns;
    assert_eq!(flush, LINK + 6 * program, "the last of six programs");
}

/// A small one whose programs are of eight pages.
fn programs_of_eight() -> Device {
    let mut device = Device::shipped("970pro").unwrap();
    device.nand.blocks_per_plane = 16;
    device.nand.pages_per_block = 64;
    device.ftl.over_provisioning = 0.3;
    device
}

/// What one of them frees is free for all who wait when it ends, and for none before.
#[test]
fn a_program_of_many_pages_frees_none_of_the_buffer_before_it_ends() {
    let mut device = programs_of_eight();
    (device.nand.channels, device.nand.chips_per_channel) = (1, 1);
    device.controller.link_ns_per_byte = 0.0;
    device.controller.link_command_ns = 0;
    device.controller.write_buffer_bytes = 16 * PAGE;
    let mut ssd = new(&device);
    let done: Vec<u64> = (0..40).map(|page| submit(&mut ssd, 0, Write, page, 1).done_ns).collect();
    assert!(done[..16].iter().all(|ns| *ns == done[0]), "{done:?}");
    for eight in done[16..].chunks(8) {
        assert!(eight.iter().all(|ns| *ns == eight[0]), "{done:?}");
    }
    for ends in [15, 23, 31].map(|last| done[last + 1] - done[last]) {
        assert!(ends > 150_000, "a program lasts longer: {done:?}");
    }
}

#[test]
fn a_drive_that_is_only_written_takes_no_more_memory_for_it() {
    let mut ssd = Ssd::new(&programs_of_eight(), 1).unwrap();
    let pages = ssd.bytes() / PAGE;
    let (mut now, mut memory) = (0, Vec::new());
    for round in 0..8 {
        for page in (0..pages).map(|page| (page * 7 + round) % pages) {
            now = submit(&mut ssd, now, Write, page, 1).done_ns;
        }
        memory.push(ssd.ftl().report().memory_bytes);
    }
    assert_eq!(memory[1], memory[7], "{memory:?}");
}

#[test]
fn programs_of_many_pages_are_padded_by_a_flush_alone() {
    let mut ssd = new(&programs_of_eight());
    for page in 0..12 {
        submit(&mut ssd, 0, Write, page, 1);
    }
    assert_eq!(ssd.ftl().counts().padding_pages, 0);
    let flush = submit(&mut ssd, 0, Flush, 0, 0).done_ns;
    assert!(flush > 185_000 && flush < 400_000, "{flush}");
    let counts = ssd.ftl().counts();
    assert_eq!((counts.host_pages, counts.padding_pages), (12, 4));
    assert_eq!(counts.waf(), 16.0 / 12.0);
    assert_eq!(counts.data_waf(), 1.0);
}

#[test]
fn a_part_of_a_page_is_merged_with_the_rest_of_it() {
    let mut ssd = filled(&device());
    let half = Request { kind: Write, offset_bytes: 100 * PAGE + 512, length_bytes: 2048 };
    let link = (2048.0 * 0.465625f64).round() as u64;
    let done = ssd.submit(0, half).unwrap().done_ns;
    assert_eq!(done, link + 25_000 + BUS + BUS + 200_000);
    let counts = ssd.ftl().counts();
    assert_eq!((counts.merge_reads, counts.host_reads, counts.host_pages), (1, 0, 1));
    // Where nothing is written yet, there is nothing to merge with.
    let mut empty = new(&device());
    assert_eq!(empty.submit(0, half).unwrap().done_ns, link + BUS + 200_000);
}

#[test]
fn trimmed_pages_are_no_longer_read_from_nand() {
    let mut ssd = filled(&device());
    let trim = Request { kind: Trim, offset_bytes: PAGE / 2, length_bytes: 3 * PAGE };
    ssd.submit(0, trim).unwrap();
    assert_eq!(ssd.ftl().counts().trimmed_pages, 2, "those wholly within");
    assert_eq!(submit(&mut ssd, 0, Read, 1, 2).done_ns, 2 * LINK);
    assert_eq!(submit(&mut ssd, 10_000, Read, 0, 1).done_ns, 10_000 + 25_000 + BUS + LINK);
}

#[test]
fn results_say_whether_reclaim_ran_and_why_not() {
    let why = |ssd: &Ssd| match ssd.ftl().report().reclaim {
        mjolnir_flash::ftl::Reclaim::DidNotRun(why) => Some(why),
        mjolnir_flash::ftl::Reclaim::Ran { .. } => None,
    };
    let mut ssd = filled(&device());
    assert_eq!(why(&ssd), Some(WhyNoReclaim::NothingWritten));
    submit(&mut ssd, 0, Write, 0, 1);
    let Some(WhyNoReclaim::SpaceLeft { free_blocks_min, low_watermark_blocks }) = why(&ssd) else {
        panic!("{}", ssd.ftl().report().reclaim);
    };
    assert!(free_blocks_min > low_watermark_blocks);
    let mut page = 0;
    while why(&ssd).is_some() {
        submit(&mut ssd, 0, Write, page % 5_000, 1);
        page += 1;
    }
    assert!(page < 100_000, "reclaim never ran");
    assert!(ssd.ftl().report().reclaim.to_string().contains("erase blocks cleaned"));
}

#[test]
fn what_cannot_be_served_is_refused_and_changes_nothing() {
    let mut ssd = new(&device());
    let bytes = ssd.bytes();
    for (offset_bytes, length_bytes) in
        [(bytes, 1), (bytes - 512, 513), (0, 0), (u64::MAX, 2), (0, u64::MAX)]
    {
        let error = ssd.submit(5, Request { kind: Write, offset_bytes, length_bytes }).unwrap_err();
        assert!(matches!(error, RequestError::OutOfRange { .. }), "{error}");
    }
    submit(&mut ssd, 10, Write, 0, 1);
    let error = ssd.submit(9, request(Read, 0, 1)).unwrap_err();
    assert_eq!(error, RequestError::TimeRunsBack { now_ns: 9, last_ns: 10 });
    assert_eq!(ssd.ftl().counts().host_pages, 1);
}
