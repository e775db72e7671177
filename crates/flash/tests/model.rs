//! The FTL against a naive model: a table of which write each page holds, under random writes,
//! overwrites, trims and reclaim, with every victim and placement policy, with failing programs and
//! erases, and across save and restore.

use mjolnir_flash::Device;
use mjolnir_flash::ftl::{FtlError, Overwrites, PageMapped, Precondition, Read, RestoreError};
use mjolnir_policy::{placement, victim};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

fn below(random: &mut Pcg64Mcg, bound: u64) -> u64 {
    random.next_u64() % bound
}

/// A tiny drive; `kind` picks what it is like.
fn tiny(kind: u64, victim: &str) -> Device {
    let mut device = Device::shipped("disksim-ssd").unwrap();
    device.nand.channels = 2;
    device.nand.planes_per_die = 1 + (kind % 3) as u32;
    device.nand.blocks_per_plane = 16;
    device.nand.pages_per_block = 8;
    device.ftl.over_provisioning = 0.3;
    device.ftl.summary_page = kind & 1 == 1;
    device.ftl.copy_back = kind & 2 == 2;
    device.ftl.stripe_pages = 1 + (kind % 4) as u32;
    device.ftl.victim = victim.to_owned();
    if kind & 4 == 4 {
        device.ftl.copy_back = false;
        device.nand.pages_per_program = 4;
        device.controller.write_buffer_bytes = 1 << 20;
    }
    if kind & 8 == 8 {
        device.ftl.wear_gap_max = Some(3);
    }
    device.check("tiny").unwrap();
    device
}

/// Random work on an FTL with its oracle on, beside a table of what is mapped.
fn work(ftl: &mut PageMapped, mapped: &mut [bool], seed: u64, steps: u64) -> Result<(), FtlError> {
    let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let pages = mapped.len() as u64;
    let mut now = 0;
    for step in 0..steps {
        now += below(&mut random, 400_000);
        ftl.nand_mut().advance(now);
        let at = (!seed.is_multiple_of(3)).then_some(now);
        // Half of the work goes to an eighth of the pages.
        let span = if below(&mut random, 2) == 0 { pages } else { pages / 8 };
        let page = below(&mut random, span);
        match below(&mut random, 16) {
            0..=9 => {
                ftl.write(page, at)?;
                mapped[page as usize] = true;
            }
            10 => {
                ftl.trim(page)?;
                mapped[page as usize] = false;
            }
            11 if step % 7 == 0 => {
                ftl.flush(at)?;
            }
            _ => {
                let read = ftl.read(page, at)?;
                let expected = mapped[page as usize];
                assert_eq!(read != Read::Unmapped, expected, "seed {seed}: page {page}");
            }
        }
        if step % 997 == 0 {
            ftl.check_invariants().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    ftl.check_invariants().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    Ok(())
}

#[test]
fn every_page_holds_what_was_written_last() {
    for victim in victim::names() {
        for seed in 0..16 {
            let mut ftl = PageMapped::new(&tiny(seed, victim), seed).with_oracle();
            let mut mapped = vec![false; ftl.logical_pages() as usize];
            work(&mut ftl, &mut mapped, seed, 6_000).unwrap();
            let counted = mapped.iter().filter(|&&mapped| mapped).count() as u64;
            let report = ftl.report();
            assert_eq!(report.mapped_pages, counted, "{victim} seed {seed}");
            assert!(report.counts.victims > 0, "{victim} seed {seed}: {}", report.reclaim);
        }
    }
}

/// The same, large enough for several streams.
fn placing(kind: u64, placement: &str) -> Device {
    let mut device = tiny(kind, "greedy");
    device.nand.blocks_per_plane = 40;
    device.ftl.placement = placement.to_owned();
    device.check("placing").unwrap();
    device
}

#[test]
fn every_page_holds_what_was_written_last_wherever_it_is_placed() {
    for placement in placement::names() {
        for seed in 0..16 {
            let mut device = placing(seed, placement);
            // Half of them fail now and then.
            device.faults.program_failures_ppm = 500 * (seed as u32 & 1);
            device.faults.erase_failures_ppm = 1_000 * (seed as u32 & 1);
            let mut ftl = PageMapped::new(&device, seed).with_oracle();
            let mut mapped = vec![false; ftl.logical_pages() as usize];
            work(&mut ftl, &mut mapped, seed, 8_000).unwrap();
            let counted = mapped.iter().filter(|&&mapped| mapped).count() as u64;
            let report = ftl.report();
            assert_eq!(report.mapped_pages, counted, "{placement} seed {seed}");
            assert!(report.counts.victims > 0, "{placement} seed {seed}: {}", report.reclaim);
        }
    }
}

#[test]
fn failing_programs_and_erases_retire_blocks_and_lose_nothing() {
    let mut retired = 0;
    for seed in 0..32 {
        let mut device = tiny(seed, "greedy");
        device.nand.blocks_per_plane = 64;
        device.faults.program_failures_ppm = 500;
        device.faults.erase_failures_ppm = 2_000;
        let mut ftl = PageMapped::new(&device, seed).with_oracle();
        let mut mapped = vec![false; ftl.logical_pages() as usize];
        work(&mut ftl, &mut mapped, seed, 10_000).unwrap();
        retired += ftl.report().wear.retired_blocks;
    }
    assert!(retired > 100, "only {retired} blocks were retired: the test tests nothing");
}

/// What leaves an erase block that fails goes to open ones that the flush may be done with already.
#[test]
fn a_flush_ends_with_all_on_nand_though_programs_fail() {
    let mut failed = 0;
    for placement in ["together", "sepbit"] {
        for seed in 0..16 {
            let mut device = tiny(seed | 4, "greedy");
            device.nand.blocks_per_plane = 64;
            device.ftl.placement = placement.to_owned();
            device.faults.program_failures_ppm = 20_000;
            let mut ftl = PageMapped::new(&device, seed).with_oracle();
            let pages = ftl.logical_pages();
            let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
            for _ in 0..200 {
                for _ in 0..below(&mut random, 8) {
                    ftl.write(below(&mut random, pages / 4), None).unwrap();
                }
                let before = ftl.report().wear.retired_blocks;
                ftl.flush(None).unwrap();
                failed += ftl.report().wear.retired_blocks - before;
                let state = ftl.save().unwrap();
                let restored = PageMapped::new(&device, 99).restore(&state).map(|_| ());
                assert_eq!(restored, Ok(()), "{placement} seed {seed}");
            }
            ftl.check_invariants().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    assert!(failed > 100, "only {failed} programs of a flush failed: the test tests nothing");
}

/// A drive that wears out says so, again and again, and still reads what it holds.
#[test]
fn a_worn_out_drive_refuses_writes_and_keeps_its_data() {
    for seed in 0..8 {
        let mut device = tiny(seed, "greedy");
        device.faults.endurance_erases = Some(20);
        let mut ftl = PageMapped::new(&device, seed).with_oracle();
        let mut mapped = vec![false; ftl.logical_pages() as usize];
        let error = work(&mut ftl, &mut mapped, seed, 10_000_000).unwrap_err();
        assert!(matches!(error, FtlError::WornOut { .. }), "seed {seed}: {error}");
        for page in 0..ftl.logical_pages() {
            ftl.read(page, Some(u64::MAX / 4)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
        ftl.check_invariants().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(ftl.report().wear.retired_blocks > 0);
    }
}

#[test]
fn wear_levelling_narrows_the_gap() {
    let spread = |gap| {
        let mut device = tiny(0, "greedy");
        device.nand.blocks_per_plane = 64;
        device.ftl.wear_gap_max = gap;
        let mut ftl = PageMapped::new(&device, 1).with_oracle();
        let overwrites = Overwrites::HotCold { times: 200.0, hot_pages: 0.1, hot_writes: 1.0 };
        ftl.precondition(&Precondition { fill: 1.0, overwrites, seed: 5 }).unwrap();
        ftl.check_invariants().unwrap();
        let wear = ftl.report().wear;
        (wear.max - wear.min, wear.deviation)
    };
    let (gap, deviation) = spread(Some(10));
    let (gap_without, deviation_without) = spread(None);
    assert!(gap * 3 < gap_without, "{gap} with, {gap_without} without");
    assert!(deviation * 2.0 < deviation_without, "{deviation} with, {deviation_without} without");
}

#[test]
fn a_restored_drive_goes_on_as_the_saved_one() {
    // The policies that remember nothing: what others remember is not saved.
    let plain = [("greedy", 0), ("greedy", 5), ("greedy", 9), ("cost-benefit", 3)];
    let plain = plain.map(|(victim, seed)| (victim, seed, tiny(seed, victim)));
    let spread = [("apart", 1), ("dac", 3), ("dac", 6), ("dac", 9)];
    let spread = spread.map(|(placement, seed)| (placement, seed, placing(seed, placement)));
    for (policy, seed, device) in plain.into_iter().chain(spread) {
        let mut ftl = PageMapped::new(&device, seed);
        let mut mapped = vec![false; ftl.logical_pages() as usize];
        work(&mut ftl, &mut mapped, seed, 5_000).unwrap();
        let state = ftl.save().unwrap();
        let mut twin = PageMapped::new(&device, 99).restore(&state).unwrap();
        twin.check_invariants().unwrap();
        assert_eq!(twin.save().unwrap(), state, "seed {seed}");
        ftl.reset_counts();
        // Untimed, since the restored drive is at rest and the other is not.
        let untimed = 3 * seed;
        work(&mut ftl, &mut mapped.clone(), untimed, 5_000).unwrap();
        work(&mut twin, &mut mapped, untimed, 5_000).unwrap();
        assert_eq!(ftl.counts(), twin.counts(), "{policy} seed {seed}");
        assert_eq!(ftl.save().unwrap(), twin.save().unwrap(), "{policy} seed {seed}");
    }
}

#[test]
fn a_damaged_state_is_refused_and_never_panics() {
    damage(&tiny(1, "greedy"), &tiny(2, "greedy"));
    damage(&placing(1, "dac"), &placing(1, "sepbit"));
}

fn damage(device: &Device, other: &Device) {
    let mut ftl = PageMapped::new(device, 1);
    let mut mapped = vec![false; ftl.logical_pages() as usize];
    work(&mut ftl, &mut mapped, 1, 3_000).unwrap();
    let state = ftl.save().unwrap();
    let restore = |bytes: &[u8]| PageMapped::new(device, 1).restore(bytes).map(|_| ());
    assert_eq!(restore(b"something else"), Err(RestoreError::NotAState));
    assert!(restore(&state[..state.len() / 2]).is_err());
    assert!(restore(&state[..10]).is_err());
    let other = PageMapped::new(other, 1).restore(&state).map(|_| ());
    assert_eq!(other, Err(RestoreError::OtherDevice));
    // With the checksum made right again, so that what is inside is looked at.
    let mut random = Pcg64Mcg::new(77);
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut bytes = state.clone();
        let body = bytes.len() - 4;
        for _ in 0..1 + below(&mut random, 3) {
            let at = 12 + below(&mut random, body as u64 - 12) as usize;
            bytes[at] ^= 1 << below(&mut random, 8);
        }
        let checksum = crc32c::crc32c(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&checksum);
        match PageMapped::new(device, 1).restore(&bytes) {
            Err(_) => refused += 1,
            Ok(restored) => restored.check_invariants().unwrap(),
        }
    }
    assert!(refused > 500, "only {refused} of 2,000 were refused");
}

/// Any fill and any overwrites end, on every policy, also where nothing can be won.
#[test]
fn preconditioning_ends_whatever_is_asked() {
    for victim in victim::names() {
        for (kind, fill) in [(0, 0.0), (1, 0.5), (2, 1.0), (3, f64::NAN), (5, 7.0), (6, -1.0)] {
            for overwrites in [
                Overwrites::None,
                Overwrites::Sequential { times: 2.5 },
                Overwrites::Uniform { times: 3.0 },
                Overwrites::UniformUntilSteady { times_max: 50.0 },
                Overwrites::HotCold { times: 3.0, hot_pages: 0.2, hot_writes: 0.8 },
                Overwrites::HotCold { times: 1.0, hot_pages: 0.0, hot_writes: 1.0 },
                Overwrites::HotCold { times: f64::NAN, hot_pages: 1.0, hot_writes: 0.0 },
            ] {
                let mut ftl = PageMapped::new(&tiny(kind, victim), kind).with_oracle();
                let how = Precondition { fill, overwrites, seed: 3 };
                let report = ftl.precondition(&how).unwrap();
                ftl.check_invariants().unwrap_or_else(|error| panic!("{victim} {how:?}: {error}"));
                assert!(report.filled_pages <= ftl.logical_pages());
                assert_eq!(ftl.counts().host_pages, 0, "counts begin anew");
            }
        }
    }
}
