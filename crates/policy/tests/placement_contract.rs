//! What every placement policy keeps to, whatever it is called: streams below their number and
//! within the shape's, decisions that remember nothing, equal answers to equal histories, and
//! memory with a bound. And what each of them is for.

use mjolnir_policy::placement::{
    self, BlockView, PlacementPolicy, Previous, ReclaimedSegment, Shape, Source, Stream,
};
use mjolnir_units::{Lba, TreeId};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// What a policy may hold by default, whatever the store's size.
const MEMORY_MAX: usize = 16 << 20;

fn block(source: Source, lba: u64, now: u64, previous: Option<(u8, u64)>) -> BlockView {
    let previous = previous
        .map(|(stream, birth_sequence)| Previous { stream: Stream(stream), birth_sequence });
    BlockView { source, volume: TreeId(1), lba: Lba(lba), now_sequence: now, previous }
}

fn client(lba: u64, now: u64, previous: Option<(u8, u64)>) -> BlockView {
    block(Source::Client, lba, now, previous)
}

fn moved(lba: u64, now: u64, previous: (u8, u64)) -> BlockView {
    block(Source::Reclaim, lba, now, Some(previous))
}

fn policy(name: &str, streams_max: u8) -> Box<dyn PlacementPolicy> {
    placement::by_name_for(name, &Shape { streams_max, ..Shape::default() }).unwrap()
}

/// Feeds equal random histories to two policies of a name, and holds both to the contract.
fn drive(name: &str, shape: &Shape, steps: u32, seed: u64) {
    let context = format!("{name}, {shape:?}, seed {seed}");
    let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let mut twins = [(); 2].map(|()| placement::by_name_for(name, shape).unwrap());
    let streams = twins[0].streams();
    assert!((1..=shape.streams_max).contains(&streams), "{context}: {streams} streams");
    let (mut now, mut last) = (1u64 << random.next_u64().trailing_zeros().min(40), 0);
    for _ in 0..steps {
        now += random.next_u64() % 3;
        let draw = random.next_u64();
        if draw.is_multiple_of(50) {
            let segment = ReclaimedSegment {
                stream: Stream((draw >> 8) as u8 % streams),
                opened_sequence: now.saturating_sub(draw >> 40),
                sealed_sequence: now.saturating_sub(draw >> 44),
                now_sequence: now,
                used_blocks: shape.segment_blocks,
                live_blocks: shape.segment_blocks / 2,
            };
            twins.iter_mut().for_each(|policy| policy.reclaimed(&segment));
            continue;
        }
        let source = if draw.is_multiple_of(3) { Source::Reclaim } else { Source::Client };
        last = if draw.is_multiple_of(5) { last + 1 } else { random.next_u64() >> (draw % 60) };
        // A birth may lie ahead of now, where it was interpolated.
        let previous = (!draw.is_multiple_of(7)).then(|| {
            let birth = now.saturating_sub(random.next_u64() >> (draw % 61)) + draw % 2;
            ((draw >> 16) as u8 % streams, birth)
        });
        let volume = TreeId((draw >> 32) as u32 % 4);
        let view = BlockView { volume, ..block(source, last, now, previous) };
        let stream = twins[0].place(&view);
        assert!(stream.0 < streams, "{context}: {stream:?} of {streams} for {view:?}");
        assert_eq!(twins[0].place(&view), stream, "{context}: asked again about {view:?}");
        assert_eq!(twins[1].place(&view), stream, "{context}: its twin, about {view:?}");
        for policy in &mut twins {
            if let Some(fixed) = policy.fixed(source) {
                assert_eq!(fixed, stream, "{context}: {view:?}");
            }
            // Sometimes it lands elsewhere.
            let stream = if draw.is_multiple_of(11) { Stream(0) } else { stream };
            policy.wrote(&view, stream);
        }
    }
    let most = shape.memory_bytes_max as usize + 300;
    assert!(twins[0].memory_bytes() <= most, "{context}: {}", twins[0].memory_bytes());
}

/// Policies whose parameters change what they do.
const SET: [&str; 6] = [
    "dac:classes=1",
    "sepbit:clients=1",
    "sepbit:clients=1,sample=1,young=0.5,middle=1",
    "autostream:classes=9,chunk=1,half-life=1",
    "interval:classes=64,over=1",
    "interval:classes=2,over=1024",
];

#[test]
fn every_policy_keeps_the_contract() {
    for name in placement::names().chain(SET) {
        for seed in 0..24u64 {
            let segments = [1, 20, 100_000][seed as usize % 3];
            let streams_max = 1 + seed as u8 % 8;
            let memory_bytes_max = if seed.is_multiple_of(2) { 2_000 } else { MEMORY_MAX as u64 };
            let shape = Shape { streams_max, segment_blocks: 64, segments, memory_bytes_max };
            drive(name, &shape, 3_000, seed);
        }
    }
}

#[test]
fn memory_stays_where_it_began() {
    let huge = Shape { segments: u64::MAX, ..Shape::default() };
    for name in placement::names() {
        let mut policy = placement::by_name_for(name, &huge).unwrap();
        let before = policy.memory_bytes();
        assert!(before <= MEMORY_MAX, "{name} begins with {before} bytes");
        for now in 0..100_000u64 {
            let view = client(now * 1_000_003, now, Some((0, now / 2)));
            let stream = policy.place(&view);
            policy.wrote(&view, stream);
        }
        assert_eq!(policy.memory_bytes(), before, "{name}");
    }
}

#[test]
fn apart_keeps_sources_apart_and_together_does_not() {
    let (fresh, old) = (client(1, 9, None), moved(1, 9, (0, 3)));
    let apart = policy("apart", 8);
    assert_eq!([apart.place(&fresh), apart.place(&old)], [Stream(0), Stream(1)]);
    let together = policy("together", 8);
    assert_eq!([together.place(&fresh), together.place(&old)], [Stream(0), Stream(0)]);
    assert_eq!(policy("apart", 1).place(&old), Stream(0), "there is but one");
}

#[test]
fn dac_warms_what_is_overwritten_and_cools_what_is_moved() {
    let dac = policy("dac", 8);
    assert_eq!(dac.place(&client(1, 9, None)), Stream(0));
    assert_eq!(dac.place(&client(1, 9, Some((2, 3)))), Stream(3));
    assert_eq!(dac.place(&client(1, 9, Some((5, 3)))), Stream(5), "no warmer");
    assert_eq!(dac.place(&moved(1, 9, (2, 3))), Stream(1));
    assert_eq!(dac.place(&moved(1, 9, (0, 3))), Stream(0), "no colder");
}

#[test]
fn sepbit_learns_how_long_short_lives_are() {
    let mut sepbit = policy("sepbit", 8);
    let now = 1_000_000;
    assert_eq!(sepbit.place(&client(1, now, None)), Stream(1), "nothing is known of it");
    assert_eq!(sepbit.place(&client(1, now, Some((1, 3)))), Stream(0), "no lifetime is known");
    for _ in 0..16 {
        sepbit.reclaimed(&ReclaimedSegment {
            stream: Stream(0),
            opened_sequence: now - 1000,
            sealed_sequence: now - 500,
            now_sequence: now,
            used_blocks: 100,
            live_blocks: 1,
        });
    }
    for (age, stream) in [(0, 0), (999, 0), (1000, 1)] {
        assert_eq!(sepbit.place(&client(1, now, Some((1, now - age)))), Stream(stream), "{age}");
    }
    assert_eq!(sepbit.place(&moved(1, now, (0, now - 90_000))), Stream(2), "out of stream 0");
    for (age, stream) in [(3_999, 3), (4_000, 4), (15_999, 4), (16_000, 5)] {
        assert_eq!(sepbit.place(&moved(1, now, (1, now - age))), Stream(stream), "{age}");
    }
    // Other streams teach it nothing.
    for _ in 0..16 {
        sepbit.reclaimed(&ReclaimedSegment {
            stream: Stream(3),
            opened_sequence: 0,
            sealed_sequence: 5,
            now_sequence: now,
            used_blocks: 100,
            live_blocks: 1,
        });
    }
    assert_eq!(sepbit.place(&client(1, now, Some((1, now - 1000)))), Stream(1));
}

#[test]
fn autostream_follows_the_temperature_of_a_chunk() {
    let mut autostream = policy("autostream", 8);
    let mut streams = Vec::new();
    for now in 0..60 {
        // Here and there in one chunk, never in sequence.
        let view = client(now * 37 % 512, now, None);
        streams.push(autostream.place(&view).0);
        autostream.wrote(&view, Stream(streams[streams.len() - 1]));
    }
    // Streams 0 to 4 from the 1st, 3rd, 8th, 21st and 55th write on.
    let first = [0, 1, 2, 3, 4].map(|stream| streams.iter().position(|&s| s == stream));
    assert_eq!(first, [Some(0), Some(2), Some(7), Some(20), Some(54)], "{streams:?}");
    let later = |halves: u64| autostream.place(&client(5, 59 + halves * 16_384, None));
    assert_eq!([1, 2, 3, 6].map(later), [Stream(3), Stream(2), Stream(2), Stream(0)]);
    let next = client(59 * 37 % 512 + 1, 1 << 40, None);
    assert_eq!(autostream.place(&next), Stream(4), "in sequence: where the last one went");
    assert_eq!(autostream.place(&moved(5, 60, (4, 3))), Stream(5));
}

#[test]
fn interval_averages_over_versions() {
    let mut interval = policy("interval", 8);
    let mut now = 1_000_000_000;
    let mut write = |after: u64| {
        let view = client(7, now, Some((0, now - after)));
        now += after;
        let stream = interval.place(&view);
        interval.wrote(&view, stream);
        stream.0
    };
    let (short, long) = (4096, 4096 << 12);
    assert_eq!(write(long), 7);
    let after: Vec<u8> = (0..60).map(|_| write(short)).collect();
    assert!(after[0] > 5, "one short interval does not make it hot: {after:?}");
    assert!(after.is_sorted_by(|a, b| a >= b) && *after.last().unwrap() <= 1, "{after:?}");
    let fresh = client(8, now, None);
    assert_eq!(interval.place(&fresh), Stream(7), "never overwritten");
}
