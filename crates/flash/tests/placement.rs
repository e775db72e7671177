//! Placement in the page-mapped FTL: under a skewed load each policy wins what the fast replayer of
//! `mjolnir_policy` says that it wins, on the same writes at the same spare factor.
//!
//! `cargo test -p mjolnir-flash --test placement -- --nocapture` prints the table.

use mjolnir_flash::Device;
use mjolnir_flash::ftl::PageMapped;
use mjolnir_policy::placement::{self, PlacementPolicy, Shape};
use mjolnir_policy::replay::{Replay, Trigger};
use mjolnir_policy::victim;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const BLOCKS: u32 = 400;
const USABLE: u32 = 320;
const PAGES: u32 = 64;
const LOGICAL: u32 = USABLE * PAGES;

/// One plane.
fn device(victim: &str, placement: &str) -> Device {
    let mut device = Device::shipped("disksim-ssd").unwrap();
    device.nand.channels = 1;
    device.nand.planes_per_die = 1;
    device.nand.blocks_per_plane = BLOCKS;
    device.nand.pages_per_block = PAGES;
    device.ftl.summary_page = false;
    device.ftl.low_watermark = 0.0;
    device.ftl.over_provisioning = f64::from(BLOCKS - USABLE) / f64::from(BLOCKS);
    device.ftl.victim = victim.to_owned();
    device.ftl.placement = placement.to_owned();
    device.check("placement").unwrap();
    assert_eq!(device.logical_pages(), LOGICAL.into());
    device
}

/// Every page in order, then ten times as many, of which half go to a fiftieth of them.
fn load() -> Vec<u32> {
    let mut random = Pcg64Mcg::new(5);
    let mut skewed = || {
        let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (f64::from(LOGICAL) * unit.powi(6)) as u64;
        // Scattered over the drive.
        (rank * 7_919 % u64::from(LOGICAL)) as u32
    };
    (0..LOGICAL).chain((0..10 * LOGICAL).map(|_| skewed())).collect()
}

const FILL: usize = 5 * LOGICAL as usize;

fn on_flash(load: &[u32], mut ftl: PageMapped) -> f64 {
    for (index, &page) in load.iter().enumerate() {
        if index == FILL {
            ftl.reset_counts();
        }
        ftl.write(page.into(), None).unwrap();
    }
    ftl.check_invariants().unwrap();
    ftl.counts().data_waf()
}

/// Two erase blocks are free and not written while a victim is chosen.
fn replayed(load: &[u32], victim: &str, policy: Box<dyn PlacementPolicy>) -> f64 {
    let trigger = Trigger::Segments(BLOCKS - 2);
    let replay = Replay { segment_blocks: PAGES, trigger, fill: FILL };
    replay.run(load, &mut *victim::by_name(victim).unwrap(), policy).waf()
}

#[test]
fn each_policy_wins_what_the_replayer_says() {
    let load = load();
    let mut off = Vec::new();
    for victim in ["greedy", "cost-benefit"] {
        let mut plain = 0.0;
        for name in ["together", "apart", "dac", "sepbit", "autostream", "interval"] {
            let device = device(victim, name);
            let shape: Shape = device.placement_shape();
            let ours = on_flash(&load, PageMapped::new(&device, 1));
            let theirs = replayed(&load, victim, placement::by_name_for(name, &shape).unwrap());
            let difference = 100.0 * (ours / theirs - 1.0);
            let line =
                format!("{victim}, {name}: {ours:.3}, replayer {theirs:.3}, {difference:+.1} %");
            println!("{line}");
            if difference.abs() > 1.5 {
                off.push(line.clone());
            }
            if name == "together" {
                plain = ours;
            } else if ["dac", "sepbit"].contains(&name) {
                assert!(ours - 1.0 < 0.8 * (plain - 1.0), "it wins too little: {line}");
            }
        }
    }
    assert!(off.is_empty(), "more than 1.5 % off:\n{}", off.join("\n"));
}

#[test]
fn a_policy_of_ones_own_is_as_good_as_one_that_is_named() {
    let load = load();
    let named = on_flash(&load, PageMapped::new(&device("greedy", "dac"), 1));
    let plain = device("greedy", "together");
    let own = placement::by_name_for("dac", &plain.placement_shape()).unwrap();
    assert_eq!(on_flash(&load, PageMapped::with_placement_policy(&plain, 1, own)), named);
}

#[test]
fn streams_need_spare_erase_blocks() {
    let mut device = device("greedy", "sepbit");
    device.ftl.over_provisioning = 7.0 / f64::from(BLOCKS);
    let why = device.check("mine.toml").unwrap_err().to_string();
    assert!(why.contains("6 that are written with ftl.placement = \"sepbit\""), "{why}");
    assert!(why.contains("and 8 are needed"), "{why}");
    device.ftl.placement = "together".to_owned();
    device.check("mine.toml").unwrap();
    device.ftl.placement = "sepbitt".to_owned();
    let why = device.check("mine.toml").unwrap_err().to_string();
    assert!(why.contains("ftl.placement = sepbitt") && why.contains("sepbit"), "{why}");
}
