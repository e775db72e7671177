//! Workloads by rule: the same requests for the same seed, in the shares and places that the
//! specification says, and mistakes named by field.

use std::collections::BTreeMap;

use mjolnir_workload::synthetic::{JobSpec, PhaseSpec, Workload, WorkloadSpec};
use mjolnir_workload::{Op, Request};

fn workload(text: &str) -> Workload {
    let spec: WorkloadSpec = toml::from_str(text).unwrap();
    Workload::new(&spec).unwrap()
}

fn first_job(text: &str) -> Vec<Request> {
    workload(&format!("[[job]]\n{text}")).generator(0).collect()
}

fn mistake(text: &str) -> String {
    let spec: WorkloadSpec = toml::from_str(text).unwrap();
    Workload::new(&spec).unwrap_err().to_string()
}

/// Every field of every request goes into it.
fn digest(requests: impl Iterator<Item = (usize, Request)>) -> u32 {
    requests.fold(0, |digest, (job, request)| {
        let line = format!("{job} {request:?}");
        crc32c::crc32c_append(digest, line.as_bytes())
    })
}

const TWO_KINDS: &str = r#"
    seed = 7
    [[job]]
    name = "database"
    rw = "randrw"
    rwmixread = 70
    rwmixtrim = 3
    rwmixzeroes = 2
    bssplit = "4k/80:16k/20,4k/50:8k/50"
    size = "8G"
    random_distribution = "zipf:1.1"
    rate_iops = 5000
    rate_process = "poisson"
    number_ios = 20000
    fsync = 16
    [[job.phase]]
    number_ios = 3000
    [[job.phase]]
    number_ios = 1000
    hot_offset = 40
    random_distribution = "hotcold:95/5"
    rate_iops = 20000
    [[job]]
    name = "log"
    volume = 1
    numjobs = 2
    rw = "write"
    bs = "32k"
    offset = "8G"
    size = "1G"
    rate_iops = 2000
    burst_on = "5ms"
    burst_off = "20ms"
    stream = 2
    runtime = "3s"
"#;

#[test]
fn the_same_seed_gives_the_same_requests_everywhere() {
    // Another value means that every workload changed: say so in the changelog.
    let requests = || workload(TWO_KINDS).interleaved().unwrap().take(30_000);
    assert_eq!(digest(requests()), 0x77ed_0f1d);
    assert_eq!(digest(requests()), digest(requests()));
    let other = TWO_KINDS.replace("seed = 7", "seed = 8");
    assert_ne!(digest(workload(&other).interleaved().unwrap().take(30_000)), digest(requests()));
}

#[test]
fn requests_stay_in_their_part_and_on_their_alignment() {
    for (text, align) in [
        (
            "rw = 'randrw'\nbssplit = '4k/50:64k/50'\nsize = '1M'\noffset = 12288\nnumber_ios = 5000",
            4096,
        ),
        ("rw = 'rw'\nbssplit = '512/50:3k/50'\nsize = 100000\nnumber_ios = 5000", 512),
        ("rw = 'randwrite'\nbs = '8k'\nblockalign = 512\nsize = '64k'\nnumber_ios = 5000", 512),
        (
            "rw = 'randread'\nbs = '4k'\nsize = 4096\nrandom_distribution = 'zipf:2'\nnumber_ios = 50",
            4096,
        ),
    ] {
        let workload = workload(&format!("[[job]]\n{text}"));
        let (start, end) = workload.jobs()[0].range();
        let requests: Vec<Request> = workload.generator(0).collect();
        assert!(requests.len() >= 50);
        for request in &requests {
            assert!(request.offset >= start && request.end() <= end, "{text}: {request:?}");
            assert_eq!((request.offset - start) % align, 0, "{text}: {request:?}");
        }
        assert_eq!(requests.iter().map(|it| it.offset).min(), Some(start), "{text}");
    }
}

#[test]
fn a_sequential_job_passes_over_its_part_and_begins_again() {
    let offsets = |text: &str| first_job(text).iter().map(|it| it.offset).collect::<Vec<_>>();
    assert_eq!(
        offsets("rw = 'write'\nbs = '4k'\nsize = '12k'\nnumber_ios = 5"),
        [0, 4096, 8192, 0, 4096]
    );
    assert_eq!(
        offsets("rw = 'read'\nbs = '4k'\nstride = '16k'\nsize = '36k'\nnumber_ios = 4"),
        [0, 16_384, 32_768, 0]
    );
    // As fio's, a job without a limit ends after its size.
    assert_eq!(offsets("rw = 'write'\nbs = '4k'\nsize = '12k'").len(), 3);
}

#[test]
fn operations_and_sizes_come_in_their_shares() {
    let requests = first_job(
        "rw = 'randrw'\nrwmixread = 75\nrwmixtrim = 10\nrwmixzeroes = 10\nbssplit = '4k/30:8k/70,16k/100,1m/100'\n\
         size = '1G'\nnumber_ios = 100000",
    );
    let mut counts = BTreeMap::new();
    for request in &requests {
        *counts.entry((request.op, request.length)).or_insert(0u64) += 1;
    }
    for (key, wanted) in [
        ((Op::Read, 4096), 18_000),
        ((Op::Read, 8192), 42_000),
        ((Op::Write, 16_384), 20_000),
        ((Op::WriteZeroes, 16_384), 10_000),
        ((Op::Trim, 1 << 20), 10_000),
    ] {
        assert!(counts[&key].abs_diff(wanted) < 1_000, "{key:?}: {} of {wanted}", counts[&key]);
    }
    assert_eq!(counts.len(), 5);
}

#[test]
fn hot_and_cold_get_their_accesses_and_phases_move_the_hot_set() {
    let requests = first_job(
        "rw = 'randwrite'\nsize = '400M'\nrandom_distribution = 'hotcold:90/10'\nnumber_ios = 40000\n\
         [[job.phase]]\nnumber_ios = 10000\n[[job.phase]]\nnumber_ios = 10000\nhot_offset = 50",
    );
    let within = |requests: &[Request], from: u64, to: u64| {
        requests.iter().filter(|it| (from << 20..to << 20).contains(&it.offset)).count()
    };
    for (phase, start) in [(0, 0), (1, 200), (2, 0), (3, 200)] {
        let requests = &requests[phase * 10_000..(phase + 1) * 10_000];
        let hot = within(requests, start, start + 40);
        assert!((8_850..9_150).contains(&hot), "phase {phase}: {hot}");
    }
}

#[test]
fn other_draws_favour_the_same_blocks() {
    let one = workload(
        "[[job]]\nrw = 'randread'\nsize = '64M'\nrandom_distribution = 'zipf:1.2'\nnumber_ios = 5000",
    );
    let places = |of: &Workload| of.generator(0).map(|r| r.offset).collect::<Vec<_>>();
    let favourite = |places: &[u64]| {
        let mut counts = BTreeMap::new();
        places.iter().for_each(|place| *counts.entry(*place).or_insert(0u32) += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).unwrap().0
    };
    let (first, second) = (places(&one), places(&one.clone().redrawn()));
    assert_ne!(first, second);
    assert_eq!(favourite(&first), favourite(&second));
}

#[test]
fn zipf_favours_few_blocks_that_lie_anywhere() {
    let requests = first_job(
        "rw = 'randread'\nsize = '4G'\nrandom_distribution = 'zipf:1.2'\nnumber_ios = 50000",
    );
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for request in &requests {
        *counts.entry(request.offset).or_default() += 1;
    }
    let mut by_count: Vec<(u64, u64)> = counts.iter().map(|(at, count)| (*count, *at)).collect();
    by_count.sort_unstable_by(|a, b| b.cmp(a));
    // 1 / zeta(1.2, 2^20 terms) is about 0.19.
    assert!((8_500..11_000).contains(&by_count[0].0), "{:?}", by_count[0]);
    let top: Vec<u64> = by_count[..10].iter().map(|(_, at)| *at).collect();
    let spread = top.iter().max().unwrap() - top.iter().min().unwrap();
    assert!(spread > 1 << 30, "{top:?}");
}

#[test]
fn timed_jobs_are_merged_by_time_and_others_take_turns() {
    let mut last = 0;
    for (_, request) in workload(TWO_KINDS).interleaved().unwrap() {
        assert!(request.time.0 >= last);
        last = request.time.0;
    }
    let jobs: Vec<usize> = workload(
        "[[job]]\nrw = 'read'\nsize = '16k'\niodepth = 2\n[[job]]\nrw = 'read'\nsize = '32k'\n",
    )
    .interleaved()
    .unwrap()
    .map(|(job, _)| job)
    .collect();
    assert_eq!(jobs, [0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
    let mixed = workload(
        "[[job]]\nrw = 'read'\nsize = '16k'\n[[job]]\nrw = 'read'\nsize = '32k'\nrate_iops = 5\n",
    );
    assert!(mixed.interleaved().unwrap_err().to_string().contains("rate_iops"));
}

#[test]
fn flushes_follow_every_so_many_writes() {
    let ops: Vec<Op> =
        first_job("rw = 'write'\nsize = '20k'\nfsync = 2").iter().map(|it| it.op).collect();
    use Op::{Flush, Write};
    assert_eq!(ops, [Write, Write, Flush, Write, Write, Flush, Write]);
}

#[test]
fn copies_of_a_job_draw_on_their_own() {
    let workload =
        workload("[[job]]\nnumjobs = 2\nrw = 'randread'\nsize = '1G'\nnumber_ios = 10\nname = 'a'");
    assert_eq!(workload.jobs().iter().map(|job| job.name()).collect::<Vec<_>>(), ["a.0", "a.1"]);
    let first: Vec<Request> = workload.generator(0).collect();
    assert_ne!(first, workload.generator(1).collect::<Vec<_>>());
}

#[test]
fn mistakes_are_named_with_job_and_field_and_the_nearest_word() {
    for (text, parts) in [
        ("sead = 1", &["field sead", "did you mean \"seed\""][..]),
        ("seed = 1", &["field job", "[[job]]"]),
        ("[[job]]\nsize = 1", &["job \"job 1\"", "field rw", "must be said"]),
        (
            "[[job]]\nname = 'x'\nrw = 'randwriet'",
            &["job \"x\"", "field rw", "did you mean \"randwrite\""],
        ),
        ("[[job]]\nrw = 'read'\nbsplit = '4k/100'", &["field bsplit", "\"bssplit\""]),
        ("[[job]]\nrw = 'read'", &["field size", "must be said"]),
        ("[[job]]\nrw = 'read'\nsize = '1X'", &["field size", "\"1X\""]),
        ("[[job]]\nrw = 'read'\nsize = '1k'", &["field size", "no room", "4096"]),
        ("[[job]]\nrw = 'read'\nsize = '2000P'", &["field size", "1 EiB"]),
        ("[[job]]\nrw = 'read'\nsize = '1G'\nbs = 0", &["field bs", "0 bytes"]),
        ("[[job]]\nrw = 'read'\nsize = '9G'\nbs = '2G'", &["field bs", "1 GiB"]),
        ("[[job]]\nrw = 'read'\nsize = '1G'\nbssplit = '4k/50:8k/40'", &["field bssplit", "90"]),
        ("[[job]]\nrw = 'read'\nsize = '1G'\nbssplit = '4k'", &["field bssplit", "SIZE/PERCENT"]),
        (
            "[[job]]\nrw = 'read'\nsize = '1G'\nbs='4k'\nbssplit = '4k/100'",
            &["field bssplit", "bs"],
        ),
        ("[[job]]\nrw = 'read'\nsize = '1G'\nrwmixread = 5", &["field rwmixread", "randrw"]),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\nrwmixread = 500", &["field rwmixread", "500"]),
        (
            "[[job]]\nrw = 'rw'\nsize = '1G'\nrandom_distribution = 'zipf:1'",
            &["random_distribution", "no meaning"],
        ),
        ("[[job]]\nrw = 'randrw'\nsize = '1G'\nrandom_distribution = 'zip:1'", &["\"zipf\""]),
        ("[[job]]\nrw = 'randrw'\nsize = '1G'\nrandom_distribution = 'zipf:x'", &["zipf:1.2"]),
        ("[[job]]\nrw = 'randrw'\nsize = '1G'\nrandom_distribution = 'zipf:NaN'", &["0 to 10"]),
        ("[[job]]\nrw = 'randrw'\nsize = '1G'\nrandom_distribution = 'zoned:50/50:50/40'", &["90"]),
        (
            "[[job]]\nrw = 'randrw'\nsize = '16k'\nrandom_distribution = 'hotcold:90/10'",
            &["less than one request"],
        ),
        (
            "[[job]]\nrw = 'rw'\nsize = '1G'\nrate_iops = 5\nrate_process = 'poison'",
            &["\"poisson\""],
        ),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\nrate_process = 'poisson'", &["without rate_iops"]),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\nrate_iops = 5\nburst_on = '1s'", &["field burst_off"]),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\nthinktime = 10", &["field thinktime", "no unit"]),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\nruntime = '5y'", &["field runtime", "unknown"]),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\niodepth = 0", &["field iodepth"]),
        ("[[job]]\nrw = 'rw'\nsize = '1G'\nnumjobs = 0", &["field numjobs"]),
        (
            "[[job]]\nrw = 'rw'\nsize = '1G'\n[[job.phase]]\nhot_offset = 5",
            &["field phase.number_ios"],
        ),
        (
            "[[job]]\nrw = 'randrw'\nsize = '1G'\n[[job.phase]]\nnumber_ios = 5\nhot_ofset = 5",
            &["field phase.hot_ofset", "\"hot_offset\""],
        ),
        (
            "[[job]]\nrw = 'randrw'\nsize = '1G'\n[[job.phase]]\nnumber_ios = 5\nrate_iops = 5",
            &["field phase.rate_iops"],
        ),
    ] {
        let error = mistake(text);
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

#[test]
fn a_specification_is_written_as_it_was_read() {
    let spec: WorkloadSpec = toml::from_str(TWO_KINDS).unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    let again: WorkloadSpec = serde_json::from_str(&text).unwrap();
    let digest_of = |spec| digest(Workload::new(&spec).unwrap().interleaved().unwrap().take(1000));
    assert_eq!(digest_of(again), digest_of(spec));
}

#[test]
fn a_specification_can_be_made_in_rust() {
    let spec = WorkloadSpec {
        seed: 3,
        jobs: vec![JobSpec {
            rw: Some("randwrite".to_owned()),
            size: Some("1G".into()),
            bs: Some(8192.into()),
            phase: vec![PhaseSpec { number_ios: Some(9), ..PhaseSpec::default() }],
            ..JobSpec::default()
        }],
        ..WorkloadSpec::default()
    };
    assert_eq!(Workload::new(&spec).unwrap().generator(0).take(100).count(), 100);
}
