//! Random requests from several connections at once, against bytes in a vector.
//!
//! Each connection keeps to its own part of one volume, and to requests in flight that do not
//! touch each other, so that what it must read is known. Operations finish out of order, and the
//! streams are cut at random.

mod support;

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_lite::future::zip;
use mjolnir_nbd::{Options, serve};
use mjolnir_store::Store;
use proptest::prelude::*;
use support::client::{Assembly, Client, Reply, number};
use support::memory::MemoryStore;
use support::pipe::lopsided;
use support::run;

const BLOCK: usize = 4096;
/// Blocks of one connection's part.
const BLOCKS: usize = 24;
const PART: usize = BLOCKS * BLOCK;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read { unsplit: bool },
    Write { fill: u8, durable: bool },
    Zeroes { keep: bool },
    Trim,
    Status { one: bool },
    Flush,
    Cache,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Kind,
    offset: usize,
    length: usize,
    /// Requests that may be in flight beside this one.
    beside: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        3 => any::<bool>().prop_map(|unsplit| Kind::Read { unsplit }),
        4 => any::<(u8, bool)>().prop_map(|(fill, durable)| Kind::Write { fill, durable }),
        1 => any::<bool>().prop_map(|keep| Kind::Zeroes { keep }),
        1 => Just(Kind::Trim),
        2 => any::<bool>().prop_map(|one| Kind::Status { one }),
        1 => Just(Kind::Flush),
        1 => Just(Kind::Cache),
    ];
    // Whole blocks half of the time.
    let range = prop_oneof![
        (0..BLOCKS, 1..=BLOCKS).prop_map(|(first, count)| (first * BLOCK, count * BLOCK)),
        (0..PART, 1..3 * BLOCK),
    ];
    (kind, range, 0..12usize).prop_map(|(kind, (offset, length), beside)| Step {
        kind,
        offset,
        length: length.min(PART - offset),
        beside,
    })
}

/// What a part of the volume should hold.
struct Model {
    bytes: Vec<u8>,
    mapped: [bool; BLOCKS],
}

impl Model {
    fn apply(&mut self, step: &Step) {
        let range = step.offset..step.offset + step.length;
        match step.kind {
            Kind::Write { fill, .. } => {
                self.bytes[range.clone()].fill(fill);
                self.mapped[range.start / BLOCK..range.end.div_ceil(BLOCK)].fill(true);
            }
            Kind::Zeroes { .. } | Kind::Trim => {
                if matches!(step.kind, Kind::Zeroes { .. }) {
                    self.bytes[range.clone()].fill(0);
                }
                for block in 0..BLOCKS {
                    if range.start <= block * BLOCK && (block + 1) * BLOCK <= range.end {
                        self.bytes[block * BLOCK..(block + 1) * BLOCK].fill(0);
                        self.mapped[block] = false;
                    }
                }
            }
            Kind::Read { .. } | Kind::Status { .. } | Kind::Flush | Kind::Cache => {}
        }
    }

    fn check_status(&self, step: &Step, payload: &[u8]) {
        let mut at = step.offset;
        let descriptors = payload[4..].chunks(8);
        assert!(!matches!(step.kind, Kind::Status { one: true }) || descriptors.len() == 1);
        for pair in descriptors {
            let (length, state) = (number(&pair[..4]) as usize, number(&pair[4..]));
            assert!(length > 0 && at + length <= step.offset + step.length);
            for block in at / BLOCK..(at + length).div_ceil(BLOCK) {
                assert_eq!(state, if self.mapped[block] { 0 } else { 3 }, "block {block}");
            }
            at += length;
        }
        assert!(at == step.offset + step.length || matches!(step.kind, Kind::Status { one: true }));
    }
}

/// One client with its requests in flight.
struct Talker {
    client: Client,
    base: usize,
    model: Model,
    in_flight: BTreeMap<u64, (Step, Assembly)>,
}

impl Talker {
    async fn send(&mut self, cookie: u64, step: Step) {
        let blocks = |step: &Step| step.offset / BLOCK..(step.offset + step.length).div_ceil(BLOCK);
        let ours = blocks(&step);
        while self.in_flight.len() > step.beside
            || self.in_flight.values().any(|(other, _)| {
                let theirs = blocks(other);
                theirs.start < ours.end && ours.start < theirs.end
            })
        {
            self.receive().await;
        }
        let offset = (self.base + step.offset) as u64;
        let (flags, command) = match step.kind {
            Kind::Read { unsplit } => (u16::from(unsplit) << 2, 0),
            Kind::Write { durable, .. } => (u16::from(durable), 1),
            Kind::Zeroes { keep } => (u16::from(keep) << 1, 6),
            Kind::Trim => (0, 4),
            Kind::Status { one } => (u16::from(one) << 3, 7),
            Kind::Flush => (0, 3),
            Kind::Cache => (0, 5),
        };
        self.in_flight.insert(cookie, (step, Assembly::new(offset, step.length as u32)));
        match step.kind {
            Kind::Write { fill, .. } => {
                self.client.write(flags, cookie, offset, &vec![fill; step.length]).await;
            }
            Kind::Flush => self.client.request(flags, command, cookie, 0, 0).await,
            _ => self.client.request(flags, command, cookie, offset, step.length as u32).await,
        }
    }

    /// Receives a reply or a chunk of one, and checks it.
    async fn receive(&mut self) {
        let reply = self.client.reply().await;
        assert_eq!(reply.error(), 0, "{reply:?}");
        let (step, assembly) = self.in_flight.get_mut(&reply.cookie()).expect("a request of ours");
        match (step.kind, &reply) {
            (Kind::Read { .. }, _) => assembly.add(&reply),
            (Kind::Status { .. }, Reply::Chunk { kind: 5, payload, done: true, .. }) => {
                self.model.check_status(step, payload);
            }
            (_, Reply::Simple { .. }) => self.model.apply(step),
            (kind, _) => panic!("{reply:?} answers no {kind:?}"),
        }
        if !reply.is_last() {
            return;
        }
        let (step, assembly) = self.in_flight.remove(&reply.cookie()).expect("found above");
        if let Kind::Read { unsplit } = step.kind {
            assert!(!unsplit || assembly.pieces == 1);
            let expected = &self.model.bytes[step.offset..step.offset + step.length];
            assert!(assembly.finish() == expected, "{step:?} read something else");
        }
    }
}

fn check(connections: Vec<Vec<Step>>, step: usize, capacity: usize, options: &Options) {
    let store = Rc::new(MemoryStore::with_default((connections.len() * PART) as u64));
    store.dawdle.set(true);
    let mut all: std::pin::Pin<Box<dyn Future<Output = Vec<Model>> + '_>> =
        Box::pin(async { Vec::new() });
    for (index, steps) in connections.into_iter().enumerate() {
        let (near, far) = lopsided(usize::MAX, capacity, step);
        let store = store.clone();
        let talk = async move {
            let model = Model { bytes: vec![0; PART], mapped: [false; BLOCKS] };
            let client = Client::new(near);
            let mut talker =
                Talker { client, base: index * PART, model, in_flight: BTreeMap::new() };
            talker.client.go("", true).await;
            for (cookie, step) in steps.into_iter().enumerate() {
                talker.send(cookie as u64, step).await;
            }
            while !talker.in_flight.is_empty() {
                talker.receive().await;
            }
            talker.client.goodbye().await;
            talker.model
        };
        all = Box::pin(async move {
            let (mut models, (end, model)) =
                zip(all, zip(serve(&*store, far, options), talk)).await;
            end.unwrap();
            models.push(model);
            models
        });
    }
    let models = run(all);
    let id = store.find("").unwrap().id;
    let expected: Vec<u8> = models.into_iter().flat_map(|model| model.bytes).collect();
    assert!(store.bytes_of(id) == expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn concurrent_requests_do_what_a_vector_would(
        connections in prop::collection::vec(prop::collection::vec(step(), 0..80), 1..4),
        step in prop_oneof![Just(usize::MAX), 1..100usize, 100..10_000usize],
        capacity in prop_oneof![Just(usize::MAX), 1..100usize, 100..100_000usize],
        requests in 1..20usize,
        bytes in prop_oneof![Just(0), 1..200_000u64, Just(64 << 20)],
    ) {
        let options = Options {
            requests_in_flight_max: requests,
            bytes_in_flight_max: bytes,
            ..Options::default()
        };
        check(connections, step, capacity, &options);
    }
}
