//! Timing keeps its rules on random requests: no die and no bus does two things at once, in all
//! shipped kinds of drive, with and without suspended erases; and equal runs are equal.

use std::collections::BTreeMap;

use mjolnir_flash::ftl::{Overwrites, Precondition};
use mjolnir_flash::nand::{Faults, Geometry, Nand, NandError, Part, Span, Timing};
use mjolnir_flash::{Completion, Device, Request, RequestKind, Ssd};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

fn below(random: &mut Pcg64Mcg, bound: u64) -> u64 {
    random.next_u64() % bound
}

fn exclusive(spans: &[Span], context: &str) {
    let mut by_part: BTreeMap<Part, Vec<(u64, u64)>> = BTreeMap::new();
    for span in spans {
        by_part.entry(span.part).or_default().push((span.start_ns, span.end_ns));
    }
    for (part, mut list) in by_part {
        list.sort_unstable();
        for pair in list.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{context}: {part:?} is busy twice: {pair:?}");
        }
    }
}

/// A shipped device, small enough to be filled at once.
fn small(name: &str) -> Device {
    let mut device = Device::shipped(name).unwrap();
    device.nand.channels = 2;
    device.nand.chips_per_channel = 2;
    device.nand.blocks_per_plane = 32;
    device.nand.pages_per_block = 4 * device.nand.pages_per_program.max(8);
    device.ftl.over_provisioning = 0.25;
    device
}

fn requests(seed: u64, count: usize, drive_bytes: u64, page: u64) -> Vec<(u64, Request)> {
    let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let mut now = 0;
    let mut list = Vec::new();
    for _ in 0..count {
        // Bursts and pauses.
        now += if below(&mut random, 4) == 0 { below(&mut random, 3_000_000) } else { 1_000 };
        let kind = match below(&mut random, 20) {
            0..=7 => RequestKind::Read,
            8..=17 => RequestKind::Write,
            18 => RequestKind::Trim,
            _ => RequestKind::Flush,
        };
        let length_bytes = 512 * (1 + below(&mut random, 4 * page / 512));
        let offset_bytes = below(&mut random, (drive_bytes - length_bytes) / 512) * 512;
        list.push((now, Request { kind, offset_bytes, length_bytes }));
    }
    list
}

fn run(device: &Device, seed: u64, count: usize) -> (Vec<Completion>, Vec<Span>, Ssd) {
    let mut ssd = Ssd::with_oracle(device, seed).unwrap();
    let overwrites = Overwrites::Uniform { times: 1.0 };
    ssd.ftl_mut().precondition(&Precondition { fill: 1.0, overwrites, seed }).unwrap();
    ssd.ftl_mut().nand_mut().record_spans();
    let list = requests(seed, count, ssd.bytes(), u64::from(device.nand.page_bytes));
    let done = list.into_iter().map(|(now, request)| {
        let completion = ssd.submit(now, request).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(completion.accepted_ns >= now && completion.done_ns >= completion.accepted_ns);
        completion
    });
    let done = done.collect();
    let spans = ssd.ftl_mut().nand_mut().take_spans();
    (done, spans, ssd)
}

#[test]
fn no_die_and_no_bus_does_two_things_at_once() {
    for name in Device::names() {
        for (seed, suspend) in [(1, false), (2, true), (3, true)] {
            let mut device = small(name);
            device.timing.erase_suspend = suspend;
            device.timing.erase_ns = 3_000_000;
            device.timing.suspend_ns = 5_000;
            device.timing.resume_ns = 20_000;
            let context = format!("{name} seed {seed} suspend {suspend}");
            let (_, spans, ssd) = run(&device, seed, 3_000);
            exclusive(&spans, &context);
            assert!(spans.iter().any(|span| matches!(span.part, Part::Bus(1))), "{context}");
            assert!(ssd.ftl().counts().victims > 0, "{context}: reclaim must have run");
            ssd.ftl().check_invariants().unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    }
}

#[test]
fn the_same_run_twice_is_the_same() {
    for name in Device::names() {
        let mut device = small(name);
        device.faults.program_failures_ppm = 50;
        let (one, one_spans, mut one_ssd) = run(&device, 7, 1_000);
        let (two, two_spans, mut two_ssd) = run(&device, 7, 1_000);
        assert!(one == two && one_spans == two_spans, "{name}");
        assert_eq!(one_ssd.ftl().report(), two_ssd.ftl().report());
        assert_eq!(one_ssd.ftl_mut().save().unwrap(), two_ssd.ftl_mut().save().unwrap());
    }
}

fn nand(timing: &str) -> Nand {
    let geometry = Geometry {
        channels: 1,
        chips_per_channel: 2,
        dies_per_chip: 1,
        planes_per_die: 1,
        blocks_per_plane: 4,
        pages_per_block: 4,
        page_bytes: 512,
        spare_bytes: 0,
        pages_per_program: 1,
    };
    let head =
        "read_ns = [100, 300]\nprogram_ns = [1000]\nerase_ns = 5000\nbus_ns_per_byte = 0.1\n";
    let timing: Timing = toml::from_str(&format!("{head}{timing}")).unwrap();
    Nand::new(geometry, timing, Faults::default(), 0)
}

#[test]
fn programs_out_of_order_and_reads_of_nothing_are_refused() {
    let mut nand = nand("");
    let mut program = |page| nand.program(1, page, 1, None, Some(0)).map(|done| done.done_ns);
    assert_eq!(program(1), Err(NandError::OutOfOrder { block: 1, page: 1, next: 0 }));
    assert_eq!(program(0), Ok(1_051));
    assert_eq!(program(0), Err(NandError::OutOfOrder { block: 1, page: 0, next: 1 }));
    assert_eq!(program(4), Err(NandError::NoSuchPage { block: 1, page: 4 }));
    assert_eq!(nand.read(1, 1, None), Err(NandError::NotProgrammed { block: 1, page: 1 }));
    assert_eq!(nand.erase(1, None), Ok(true));
    assert_eq!(nand.read(1, 0, None), Err(NandError::NotProgrammed { block: 1, page: 0 }));
    nand.retire(1);
    assert_eq!(nand.erase(1, None), Err(NandError::Retired { block: 1 }));
    assert_eq!(nand.program(1, 0, 1, None, None), Err(NandError::Retired { block: 1 }));
}

#[test]
fn dies_work_at_once_and_share_their_bus() {
    let mut nand = nand("");
    for block in [0, 4] {
        nand.program(block, 0, 1, None, None).unwrap();
        nand.program(block, 1, 1, None, None).unwrap();
    }
    // Both sense from 0 to 100; the bus takes 51 for each.
    assert_eq!(nand.read(0, 0, Some(0)), Ok(151));
    assert_eq!(nand.read(4, 0, Some(0)), Ok(202));
    // Page 1 is of the slow type, and its die is busy with the transfer until 151.
    assert_eq!(nand.read(0, 1, Some(0)), Ok(151 + 300 + 51));
    // A program uses the gap on the bus before that transfer.
    assert_eq!(nand.program(4, 2, 1, None, Some(0)).unwrap().done_ns, 202 + 51 + 1_000);
}

#[test]
fn an_erase_blocks_its_die_unless_reads_may_suspend_it() {
    let prepare = |mut nand: Nand| {
        nand.program(0, 0, 1, None, None).unwrap();
        nand.erase(1, Some(0)).unwrap();
        nand
    };
    assert_eq!(prepare(nand("")).read(0, 0, Some(1_000)), Ok(5_000 + 151));

    let suspendable = "erase_suspend = true\nsuspend_ns = 10\nresume_ns = 40\nsuspends_max = 2";
    let mut nand = prepare(nand(suspendable));
    assert_eq!(nand.read(0, 0, Some(1_000)), Ok(1_000 + 10 + 151));
    assert_eq!(nand.read(0, 0, Some(2_000)), Ok(2_000 + 10 + 151));
    // 1,000 and 839 are done of 5,000, and 80 are lost; the third read waits for the rest.
    let erased = 2_161 + (5_000 - 1_000 - 839) + 80;
    assert_eq!(nand.idle_from(), erased);
    assert_eq!(nand.read(0, 0, Some(3_000)), Ok(erased + 151));
}
