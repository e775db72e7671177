//! Classes become streams, and streams are told as classes again.

use std::convert::Infallible;

use mjolnir_device::{Device, DeviceInfo, MemoryDevice};
use mjolnir_map::Map;
use mjolnir_policy::placement::{BlockView, PlacementPolicy, Shape, Source, Stream};
use mjolnir_units::{Lba, TreeId, ZoneId};

use super::*;
use crate::log::Log;
use crate::space::{Claim, RELIEF_STREAM};

const VOLUME: TreeId = TreeId(1);
const ZONE_BLOCKS: u64 = 64;

/// Clients' blocks are of class 1. Reclaim's are of class 0, 1 or 2, by their address.
struct ByAddress(u8);

impl PlacementPolicy for ByAddress {
    fn name(&self) -> &'static str {
        "by-address"
    }

    fn streams(&self) -> u8 {
        self.0
    }

    fn place(&self, block: &BlockView) -> Stream {
        match block.source {
            Source::Client => Stream(1.min(self.0 - 1)),
            Source::Reclaim => Stream((block.lba.0 % 3) as u8 % self.0),
        }
    }

    fn fixed(&self, source: Source) -> Option<Stream> {
        (source == Source::Client).then_some(Stream(1.min(self.0 - 1)))
    }
}

fn info(open_zones_max: Option<u32>) -> DeviceInfo {
    DeviceInfo { open_zones_max, ..MemoryDevice::of_zones(64, ZONE_BLOCKS).info() }
}

fn by_address(client_streams: u8, open_zones_max: Option<u32>) -> Placement {
    let make = |shape: &Shape| -> Result<Box<dyn PlacementPolicy>, Infallible> {
        Ok(Box::new(ByAddress(shape.streams_max.min(3))))
    };
    let options = OpenOptions { client_streams, ..OpenOptions::default() };
    Placement::made_by(make, &options, &info(open_zones_max)).unwrap()
}

fn named(name: &str) -> Placement {
    let options = OpenOptions { placement: name.into(), ..OpenOptions::default() };
    Placement::new(&options, &info(None)).unwrap()
}

fn block(lba: u64, class: Option<Stream>) -> Moved {
    Moved { tree: VOLUME, lba, at: Pba(1000 + 2 * lba), class, birth: 7 }
}

fn space() -> Space {
    let mut space = Space::new(64, ZONE_BLOCKS);
    space.reserve_for_checkpoint(0, 0);
    for zone in (0..64).map(ZoneId) {
        space.push_free(zone);
        if let Some(zone) = space.next_to_reset(|_| false, |_| false) {
            space.push_ready(zone);
        }
    }
    space
}

#[test]
fn reclaims_classes_have_streams_of_their_own_where_only_clients_are_fixed() {
    let placement = by_address(3, None);
    assert_eq!((placement.classes(), placement.spread(), placement.streams()), (3, 3, 5));
    assert_eq!(placement.reclaim_streams(), 3);
    // Clients' neighbours share a stream: that of class 1, or one beyond those of the classes.
    let of_client =
        |lba: u64| placement.stream_of(Stream(1), Source::Client, VOLUME, lba) - CLIENT_STREAM;
    let clients: Vec<u8> = (0..3).map(|region| of_client(region << 10)).collect();
    let mut sorted = clients.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 3, 4], "{clients:?}");
    assert_eq!(placement.first_of_clients(), CLIENT_STREAM + 1);
    let of_moved = |lba: u64| placement.of_moved(&block(lba, None), 9) - CLIENT_STREAM;
    assert_eq!([of_moved(0), of_moved(2), of_moved(3)], [0, 2, 0]);
    assert!(clients.contains(&of_moved(1)), "class 1 is the clients'");
}

#[test]
fn every_stream_is_told_as_its_class() {
    let placement = by_address(3, None);
    let class = |stream: u8| placement.class_of(stream).map(|class| class.0);
    let classes = [0, 1, 2, 3, 4, 5].map(|stream| class(CLIENT_STREAM + stream));
    assert_eq!(classes, [Some(0), Some(1), Some(2), Some(1), Some(1), None]);
    assert_eq!(class(RECLAIM_STREAM), None, "its blocks are of several");
    assert_eq!(class(RELIEF_STREAM), None);
    let (apart, dac, autostream) = (named("apart"), named("dac"), named("autostream"));
    assert_eq!(apart.class_of(RECLAIM_STREAM), Some(Stream(1)));
    assert_eq!(apart.class_of(CLIENT_STREAM), Some(Stream(0)));
    assert_eq!(dac.class_of(RECLAIM_STREAM), None);
    assert_eq!(dac.class_of(CLIENT_STREAM + 5), Some(Stream(5)));
    assert_eq!(autostream.class_of(RECLAIM_STREAM), Some(Stream(5)), "all that it moves");
}

#[test]
fn few_open_zones_take_clients_spread_first_and_then_classes() {
    // Of these, three are the map's, reclaim's and relief's.
    for (zones, classes, spread, name) in [
        (9, 3, 4, "by-address"),
        (7, 3, 2, "by-address"),
        (6, 3, 1, "by-address"),
        (5, 2, 1, "by-address"),
        (4, 2, 1, "apart"),
    ] {
        let placement = by_address(4, Some(zones));
        assert_eq!(placement.name(), name, "{zones} zones");
        assert_eq!((placement.classes(), placement.spread()), (classes, spread), "{zones} zones");
        let open = u32::from(CLIENT_STREAM + placement.streams());
        assert!(open <= zones, "{open} streams of {zones} zones");
        // `apart` has reclaim's class in reclaim's own stream.
        assert_eq!(placement.wanted, 3);
    }
}

/// Appends a relocated block to reclaim's own stream, as where a class has no room.
fn displace(placement: &mut Placement, log: &mut Log, space: &mut Space, block: &Moved) -> Pba {
    let wanted = placement.of_moved(block, 9);
    assert_ne!(wanted, RECLAIM_STREAM);
    let (at, fit) = log.allocate(space, RECLAIM_STREAM, 32, 1).unwrap();
    placement.moved(space, block, (at, fit), (wanted, RECLAIM_STREAM), 9);
    let record = crate::format::record::Record::Moved {
        tree: block.tree,
        lba: block.lba,
        blocks: 1,
        birth: block.birth,
    };
    log.push(RECLAIM_STREAM, record, bytes::Bytes::from(vec![0; 4096]), 32);
    at
}

#[test]
fn a_block_that_reclaim_had_to_put_elsewhere_keeps_its_class() {
    let mut placement = named("dac");
    let mut space = space();
    let streams = usize::from(CLIENT_STREAM + placement.streams());
    let mut log = Log::new(&info(None), |_| 0, 1, streams, 100);
    let mut map = Map::new();
    map.create(VOLUME, 1 << 20);
    // Out of class 4 and out of class 1: a class colder each.
    let warm = displace(&mut placement, &mut log, &mut space, &block(10, Some(Stream(4))));
    let cold = displace(&mut placement, &mut log, &mut space, &block(20, Some(Stream(1))));
    assert_eq!(placement.displaced_blocks, 2);
    assert_eq!(space.zone_of(warm), space.zone_of(cold), "side by side");
    let class = |placement: &Placement, space: &Space, at: Pba| {
        placement.class_at(space.get(space.zone_of(at)), at.offset(ZONE_BLOCKS))
    };
    assert_eq!(class(&placement, &space, warm), Some(Stream(3)));
    assert_eq!(class(&placement, &space, cold), Some(Stream(0)));
    // Reclaimed again, it goes on from there.
    let again = Moved { at: warm, ..block(10, class(&placement, &space, warm)) };
    assert_eq!(placement.of_moved(&again, 9), CLIENT_STREAM + 2);
    // So does what a client writes in its place.
    map.write(VOLUME, Lba(10), warm, 1).unwrap();
    let (stream, _) = placement.place_client((&map, &log, &space), VOLUME, 10, 1).ok().unwrap();
    assert_eq!(stream, CLIENT_STREAM + 4);
    assert!(placement.bytes() > named("dac").bytes(), "its memory is counted");
    // The log has no place for it: after a restart it is not known.
    assert_eq!(class(&named("dac"), &space, warm), None);
    // The segment is given up, and another one opened in its zone.
    let zone = space.zone_of(warm);
    space.seal(zone, 40, 1, 200);
    space.push_free(zone);
    assert!(space.open(Claim::Map, RECLAIM_STREAM).is_some());
    assert_eq!(placement.class_at(space.get(zone), 2), Some(Stream(3)), "known until it is reset");
}
