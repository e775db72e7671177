//! Write amplification under uniform random overwrites against the closed forms: one append
//! point, one victim at a time, data writes alone.
//!
//! The plain tests take the two ends of the range of spare factors on small drives. All of it:
//!
//! ```text
//! cargo test --release -p mjolnir-flash --test waf -- --ignored --nocapture
//! ```
//!
//! Two erase blocks come on top of the physical ones of the closed forms: those that are free and
//! not written while a victim is chosen.

use mjolnir_flash::Device;
use mjolnir_flash::ftl::{Overwrites, PageMapped, Precondition};
use mjolnir_policy::closed_form;
use mjolnir_policy::victim::{self, DChoices, Greedy, SegmentView, VictimPolicy, VictimView};
use mjolnir_units::ZoneId;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const SPARES: [f64; 5] = [0.07, 0.10, 0.15, 0.20, 0.28];

fn device(spare: f64, physical_blocks: u32, pages_per_block: u32) -> Device {
    let mut device = Device::shipped("disksim-ssd").unwrap();
    let usable = ((1.0 - spare) * f64::from(physical_blocks)).round() as u32;
    let blocks = physical_blocks + 2;
    device.nand.channels = 1;
    device.nand.planes_per_die = 1;
    device.nand.blocks_per_plane = blocks;
    device.nand.pages_per_block = pages_per_block;
    device.ftl.summary_page = false;
    device.ftl.low_watermark = 0.0;
    device.ftl.over_provisioning = f64::from(blocks - usable) / f64::from(blocks);
    device.check("waf").unwrap();
    assert_eq!(device.usable_blocks_per_plane(), usable);
    device
}

struct Size {
    blocks: u32,
    pages: u32,
    /// Drive writes before the measured ones, at the smallest spare factor, and measured.
    warm: f64,
    measured: f64,
}

const SMALL: Size = Size { blocks: 1_000, pages: 64, warm: 5.0, measured: 4.0 };

/// Greedy's values at each spare factor, for erase blocks of so many pages.
const GREEDY: [(u32, [f64; 5]); 3] = [
    (64, [6.616, 4.821, 3.354, 2.599, 1.943]),
    (256, [7.124, 5.083, 3.476, 2.668, 1.979]),
    (1_024, [7.268, 5.154, 3.508, 2.687, 1.989]),
];

/// Values of Van Houdt's fixed point for d choices, at each spare factor, for 64 pages.
const CHOICES: [(usize, [f64; 5]); 3] = [
    (2, [9.635, 6.852, 4.648, 3.533, 2.573]),
    (4, [7.718, 5.554, 3.816, 2.930, 2.164]),
    (10, [6.894, 5.000, 3.464, 2.675, 1.993]),
];

fn measure(policy: Box<dyn VictimPolicy>, spare: f64, size: &Size) -> f64 {
    let device = device(spare, size.blocks, size.pages);
    let mut ftl = PageMapped::with_victim_policy(&device, 1, policy);
    let overwrites = Overwrites::Uniform { times: size.warm };
    ftl.precondition(&Precondition { fill: 1.0, overwrites, seed: 3 }).unwrap();
    let pages = ftl.logical_pages();
    let mut random = Pcg64Mcg::new(9);
    for _ in 0..(size.measured * pages as f64) as u64 {
        let page = ((u128::from(random.next_u64()) * u128::from(pages)) >> 64) as u64;
        ftl.write(page, None).unwrap();
    }
    assert_eq!(ftl.counts().metadata_pages + ftl.counts().padding_pages, 0);
    ftl.counts().data_waf()
}

fn compare(
    name: &str,
    make: impl Fn() -> Box<dyn VictimPolicy>,
    size: &Size,
    spares: &[f64],
    expected: [f64; 5],
) {
    let mut wrong = Vec::new();
    for (spare, expected) in SPARES.into_iter().zip(expected) {
        if !spares.contains(&spare) {
            continue;
        }
        let waf = measure(make(), spare, size);
        let off = waf / expected - 1.0;
        let line = format!(
            "{name}, {} pages an erase block, spare {spare:.2}: {waf:.3}, closed form {expected:.3}, \
             {:+.2} %",
            size.pages,
            off * 100.0
        );
        println!("{line}");
        if off.abs() > 0.02 {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn by_name(name: &str) -> impl Fn() -> Box<dyn VictimPolicy> {
    move || victim::by_name(name).unwrap()
}

const ENDS: [f64; 2] = [0.07, 0.28];

fn one_over(spares: &[f64], size: &Size) {
    compare("random", by_name("random"), size, spares, SPARES.map(closed_form::random));
}

fn lambert(spares: &[f64], size: &Size) {
    compare("fifo", by_name("fifo"), size, spares, SPARES.map(closed_form::fifo));
}

fn greedy(spares: &[f64], size: &Size) {
    let (_, expected) = GREEDY.into_iter().find(|&(pages, _)| pages == size.pages).unwrap();
    compare("greedy", by_name("greedy"), size, spares, expected);
}

fn choices(spares: &[f64], size: &Size, number: usize) {
    let (d, expected) = CHOICES[number];
    let make = || Box::new(DChoices::new(d, 1)) as Box<dyn VictimPolicy>;
    compare(&format!("{d}-choices"), make, size, spares, expected);
}

#[test]
fn random_is_one_over_the_spare_factor() {
    one_over(&ENDS[1..], &SMALL);
    one_over(&ENDS[..1], &Size { blocks: 500, warm: 3.0, ..SMALL });
}

#[test]
fn fifo_is_lamberts_w() {
    lambert(&ENDS, &SMALL);
}

#[test]
fn greedy_depends_on_the_size_of_erase_blocks_as_it_should() {
    greedy(&ENDS, &SMALL);
    greedy(&ENDS, &Size { pages: 256, measured: 2.0, ..SMALL });
}

#[test]
fn d_choices_is_van_houdts_fixed_point() {
    choices(&ENDS[1..], &SMALL, 0);
    choices(&ENDS[1..], &SMALL, 1);
    choices(&ENDS, &SMALL, 2);
}

#[test]
#[ignore = "takes minutes though optimized: `cargo xtask test --long`"]
fn every_form_at_every_spare_factor() {
    let size = Size { blocks: 2_000, pages: 64, warm: 8.0, measured: 4.0 };
    one_over(&SPARES, &size);
    lambert(&SPARES, &size);
    greedy(&SPARES, &size);
    greedy(&SPARES, &Size { pages: 256, warm: 6.0, measured: 2.0, ..size });
    greedy(&SPARES, &Size { blocks: 1_000, pages: 1_024, warm: 5.0, measured: 1.0 });
    (0..CHOICES.len()).for_each(|number| choices(&SPARES, &size, number));
}

/// Between greedy, which is best under uniform load, and FIFO.
#[test]
fn windowed_greedy_and_age_threshold_lie_between_greedy_and_fifo() {
    for spare in ENDS {
        let greedy = measure(by_name("greedy")(), spare, &SMALL);
        let fifo = measure(by_name("fifo")(), spare, &SMALL);
        for name in ["windowed-greedy", "age-threshold"] {
            let waf = measure(by_name(name)(), spare, &SMALL);
            println!("{name}, spare {spare}: {waf:.3} (greedy {greedy:.3}, FIFO {fifo:.3})");
            assert!(waf > 0.995 * greedy && waf < 1.005 * fifo, "{name}: {waf}");
        }
    }
}

/// Asks the policy of that name through its trait, and under another name, so that the FTL cannot
/// answer it from its own lists.
struct PlainGreedy;

impl VictimPolicy for PlainGreedy {
    fn name(&self) -> &'static str {
        "plain-greedy"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        let chosen = Greedy.choose(view);
        let live = |segment: &SegmentView| segment.live_blocks;
        let least = view.segments.iter().map(live).min();
        let first = view.segments.iter().find(|segment| Some(&segment.zone) == chosen.first());
        assert_eq!(first.map(live), least, "greedy is not the emptiest");
        chosen
    }
}

/// The lists by live count are greedy too: they differ from it among equally empty blocks alone.
#[test]
fn the_fast_greedy_amplifies_as_the_policy_does() {
    for spare in ENDS {
        let fast = measure(by_name("greedy")(), spare, &SMALL);
        let plain = measure(Box::new(PlainGreedy), spare, &SMALL);
        println!("spare {spare}: {fast:.4} fast, {plain:.4} through the policy");
        assert!((fast / plain - 1.0).abs() < 0.005, "{fast} {plain}");
    }
}
