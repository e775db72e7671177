//! A trace is brought to a device by stated rules, and what was changed is counted.

mod support;

use mjolnir_workload::fit::{
    AddressRule, FitError, FitSpec, Fitter, REGION_BYTES, Replay, Target, TimeRule, VolumeRule,
};
use mjolnir_workload::trace::{Format, ReadOptions, Summary, TraceError, TraceReader};
use mjolnir_workload::{Op, Request, VolumeId};
use support::{Chance, request};

const MIB: u64 = 1 << 20;

fn target(bytes: u64) -> Target {
    Target { bytes, block_bytes: 4096 }
}

fn fold() -> FitSpec {
    FitSpec { addresses: AddressRule::Fold, ..FitSpec::default() }
}

fn scale() -> FitSpec {
    FitSpec { addresses: AddressRule::Scale, ..FitSpec::default() }
}

fn ranges(fitter: &mut Fitter, request: &Request) -> Vec<(u64, u64)> {
    fitter.fit(request).unwrap().map(|piece| (piece.offset, piece.length)).collect()
}

#[test]
fn exact_addresses_refuse_what_goes_past_the_end() {
    let mut fitter = Fitter::new(&FitSpec::default(), target(MIB), &[10 * MIB]).unwrap();
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Write, 0, MIB)), [(0, MIB)]);
    let error = fitter.fit(&request(0, 0, Op::Write, 4096, MIB)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("a write of 1048576 bytes at 4096") && text.contains("fold"), "{text}");
}

#[test]
fn folding_takes_addresses_modulo_the_size_and_splits_at_the_end() {
    let mut fitter = Fitter::new(&fold(), target(MIB), &[100 * MIB]).unwrap();
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Write, 5 * MIB + 8192, 4096)),
        [(8192, 4096)]
    );
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Read, 2 * MIB - 4096, 12_288)),
        [(MIB - 4096, 4096), (0, 8192)]
    );
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Trim, 3 * MIB + 4096, 50 * MIB)), [(0, MIB)]);
    let report = fitter.report();
    assert_eq!(
        (report.folded, report.split, report.cut, report.read, report.written),
        (3, 1, 1, 3, 4)
    );
}

#[test]
fn scaling_keeps_the_place_within_a_region() {
    // 8 regions to 4: pairs share one.
    let mut fitter = Fitter::new(&scale(), target(4 * MIB), &[8 * MIB]).unwrap();
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Write, 5 * MIB + 8192, 4096)),
        [(2 * MIB + 8192, 4096)]
    );
    // Regions 1 and 2 become 0 and 1, which are neighbours still; 2 and 3 both become 1.
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Write, 2 * MIB - 4096, 8192)),
        [(MIB - 4096, 8192)]
    );
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Write, 3 * MIB - 4096, 8192)),
        [(2 * MIB - 4096, 4096), (MIB, 4096)]
    );
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Trim, 0, 8 * MIB)), [(0, 4 * MIB)]);
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Trim, MIB - 4096, 8192)),
        [(MIB - 4096, 4096), (0, 4096)],
        "no more than was trimmed"
    );
    let mut fitter = Fitter::new(&scale(), target(MIB), &[1 << 59]).unwrap();
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Trim, 4096, 1 << 58)), [(0, MIB)]);
    // 2 regions to 8: neighbours are apart.
    let mut fitter = Fitter::new(&scale(), target(8 * MIB), &[2 * MIB]).unwrap();
    assert_eq!(
        ranges(&mut fitter, &request(0, 0, Op::Write, MIB - 4096, 8192)),
        [(MIB - 4096, 4096), (4 * MIB, 4096)]
    );
}

#[test]
fn volumes_become_one() {
    let ends = [3 * MIB / 2, 10, MIB];
    let place = |rule, volume| {
        let spec = FitSpec { volumes: rule, ..FitSpec::default() };
        let mut fitter = Fitter::new(&spec, target(64 * MIB), &ends).unwrap();
        ranges(&mut fitter, &Request { volume: VolumeId(volume), ..request(0, 0, Op::Read, 0, 10) })
    };
    assert_eq!(place(VolumeRule::Concatenate, 0), [(0, 4096)]);
    assert_eq!(place(VolumeRule::Concatenate, 1), [(2 * MIB, 4096)]);
    assert_eq!(place(VolumeRule::Concatenate, 2), [(3 * MIB, 4096)]);
    assert_eq!(place(VolumeRule::Overlay, 2), [(0, 4096)]);
    assert_eq!(place(VolumeRule::Only(VolumeId(2)), 2), [(0, 4096)]);
    assert_eq!(place(VolumeRule::Only(VolumeId(2)), 1), []);
    let spec = FitSpec { volumes: VolumeRule::Only(VolumeId(9)), ..FitSpec::default() };
    assert_eq!(Fitter::new(&spec, target(MIB), &ends).unwrap_err(), FitError::NoVolume(9, 3));
}

#[test]
fn requests_become_whole_blocks() {
    let mut fitter = Fitter::new(&FitSpec::default(), target(MIB), &[MIB]).unwrap();
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Write, 512, 512)), [(0, 4096)]);
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Read, 4095, 2)), [(0, 8192)]);
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Trim, 512, 8192)), [(4096, 4096)]);
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Trim, 512, 4096)), []);
    assert_eq!(ranges(&mut fitter, &request(0, 0, Op::Flush, 0, 0)), [(0, 0)]);
    let report = fitter.report();
    assert_eq!((report.widened, report.widened_bytes), (2, 3584 + 8190));
    assert_eq!((report.trims_narrowed, report.trims_dropped), (1, 1));
    let lines = report.lines().join("\n");
    assert!(lines.contains("2 requests widened to whole blocks of 4096 bytes"), "{lines}");
}

#[test]
fn times_are_stretched_or_dropped() {
    let time = |rule| {
        let spec = FitSpec { time: rule, ..FitSpec::default() };
        let mut fitter = Fitter::new(&spec, target(MIB), &[MIB]).unwrap();
        let fitted = fitter.fit(&request(1_000, 0, Op::Read, 0, 4096)).unwrap().next().unwrap();
        (fitted.time.0, fitter.queue_depth())
    };
    assert_eq!(time(TimeRule::AsRecorded), (1_000, None));
    assert_eq!(time(TimeRule::Stretch(50)), (500, None));
    assert_eq!(time(TimeRule::QueueDepth(32)), (0, Some(32)));
    let spec = FitSpec { time: TimeRule::Stretch(0), ..FitSpec::default() };
    assert!(Fitter::new(&spec, target(MIB), &[]).is_err());
}

#[test]
fn passes_follow_each_other_in_time() {
    let text = "0 0 0 8 0\n1000 0 8 8 1\n3000 0 16 8 0\n";
    let options = ReadOptions { format: Some(Format::MqSim), ..ReadOptions::strict() };
    let mut summary = Summary::new();
    let open = || TraceReader::open(text.as_bytes(), "t", &options);
    for request in open().unwrap() {
        summary.add(&request.unwrap());
    }
    let spec = FitSpec { passes: 3, ..FitSpec::default() };
    let fitter = Fitter::new(&spec, target(MIB), summary.volume_ends()).unwrap();
    let mut replay = Replay::new(open, fitter).unwrap();
    let times: Vec<u64> = replay.by_ref().map(|request| request.unwrap().time.0).collect();
    assert_eq!(times, [0, 1000, 3000, 4500, 5500, 7500, 9000, 10_000, 12_000]);
    assert_eq!((replay.report().passes, replay.report().read), (3, 9));
}

#[test]
fn a_replay_begins_after_requests_of_the_trace_and_keeps_its_times() {
    let requests: Vec<_> =
        (0..4).map(|n| request(n * 1_000, n as u32 % 2, Op::Write, 0, 4096)).collect();
    let open = || Ok::<_, TraceError>(requests.clone().into_iter().map(Ok));
    let spec = FitSpec { volumes: VolumeRule::Only(VolumeId(1)), passes: 2, ..FitSpec::default() };
    let fitter = Fitter::new(&spec, target(MIB), &[MIB, MIB]).unwrap();
    let mut replay = Replay::new(open, fitter).unwrap().begun_after(2);
    let times: Vec<u64> = replay.by_ref().map(|piece| piece.unwrap().time.0).collect();
    assert_eq!(times, [3_000, 5_000, 7_000]);
    assert_eq!((replay.report().read, replay.report().of_other_volumes), (6, 3));
}

#[test]
fn a_trace_that_breaks_off_ends_the_replay_with_its_error() {
    let open = || TraceReader::open(&b"0 0 0 8 0\nx\n"[..], "t", &ReadOptions::strict());
    let fitter = Fitter::new(&fold(), target(MIB), &[MIB]).unwrap();
    let mut replay = Replay::new(open, fitter).unwrap();
    assert!(replay.next().unwrap().is_ok());
    let error: TraceError = match replay.next().unwrap().unwrap_err() {
        mjolnir_workload::fit::ReplayError::Trace(error) => error,
        other => panic!("{other}"),
    };
    assert!(error.to_string().contains("line 2"));
    assert!(replay.next().is_none());
}

#[test]
fn devices_and_traces_that_make_no_sense_are_refused() {
    for (bytes, block_bytes) in [(0, 4096), (4095, 4096), (4096, 0)] {
        let target = Target { bytes, block_bytes };
        assert_eq!(
            Fitter::new(&fold(), target, &[]).unwrap_err(),
            FitError::Target { bytes, block_bytes }
        );
    }
    assert!(Fitter::new(&scale(), target(8192), &[MIB]).is_err());
    let odd = Target { bytes: 3 * MIB, block_bytes: 3 * MIB };
    assert_eq!(Fitter::new(&scale(), odd, &[MIB]).unwrap_err(), FitError::RegionBlocks(3 * MIB));
    assert_eq!(Fitter::new(&fold(), target(MIB), &[1 << 60, 1]).unwrap_err(), FitError::TooLong);
    let mut fitter = Fitter::new(&fold(), target(MIB), &[4096]).unwrap();
    assert!(matches!(
        fitter.fit(&request(0, 0, Op::Read, 4096, 4096)),
        Err(FitError::NotSummarised { volume: 0, end: 8192, known: 4096 })
    ));
}

/// Every block of the trace goes where a map from block to block says, which is computed here the
/// slow way.
#[test]
fn each_block_goes_where_the_rule_says() {
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let device = (1 + chance.below(20)) * MIB + chance.below(200) * 4096;
        let trace = (1 + chance.below(40)) * MIB;
        let is_fold = chance.below(2) == 0;
        let spec = if is_fold { fold() } else { scale() };
        let mut fitter = Fitter::new(&spec, target(device), &[trace]).unwrap();
        let (from, to) = (trace.div_ceil(REGION_BYTES), device / REGION_BYTES);
        for _ in 0..50 {
            let length = (1 + chance.below(700)) * 4096;
            let offset = chance.below((trace.saturating_sub(length) / 4096) + 1) * 4096;
            if offset + length > trace {
                continue;
            }
            let op = [Op::Read, Op::Write][chance.below(2) as usize];
            let pieces: Vec<Request> =
                fitter.fit(&request(0, 0, op, offset, length)).unwrap().collect();
            let blocks: Vec<u64> = pieces
                .iter()
                .flat_map(|piece| (piece.offset / 4096)..(piece.end() / 4096))
                .collect();
            let length = if is_fold { length.min(device) } else { length };
            let mut wanted: Vec<u64> = (offset / 4096..(offset + length) / 4096)
                .map(|block| {
                    let at = block * 4096;
                    let at = match (is_fold, from == to) {
                        (true, _) => at % device,
                        (false, true) => at,
                        (false, false) => {
                            at / REGION_BYTES * to / from * REGION_BYTES + at % REGION_BYTES
                        }
                    };
                    at / 4096
                })
                .collect();
            if is_fold && length == device {
                wanted.sort_unstable();
            }
            assert_eq!(blocks, wanted, "seed {seed}");
            assert!(pieces.iter().all(|piece| piece.end() <= device), "seed {seed}");
        }
    }
}
