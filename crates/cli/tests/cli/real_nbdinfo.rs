//! `nbdinfo` lists volumes and snapshots, and its map tells what is data, also after trims.

use serde_json::Value;

use crate::real_support::store::TestStore;
use crate::real_support::tools;

#[test]
fn exports_are_listed_and_snapshots_are_read_only() {
    if !tools::present("exports_are_listed_and_snapshots_are_read_only", &["nbdinfo"]) {
        return;
    }
    let store = TestStore::new("64M", "1G");
    store.ok("volume create s.mj w --size 12K");
    let server = store.serve();
    store.ok("snapshot create s.mj v@s");
    let list = tools::ok("nbdinfo", &["--list", "--json", &store.uri("")]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let mut exports: Vec<(&str, u64, bool)> = list["exports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|export| {
            assert_eq!(export["can_multi_conn"], true);
            assert_eq!(export["can_flush"], true);
            assert_eq!(export["can_trim"], !export["is_read_only"].as_bool().unwrap());
            (
                export["export-name"].as_str().unwrap(),
                export["export-size"].as_u64().unwrap(),
                export["is_read_only"].as_bool().unwrap(),
            )
        })
        .collect();
    exports.sort_unstable();
    assert_eq!(exports, [("v", 1 << 30, false), ("v@s", 1 << 30, true), ("w", 12 << 10, false)]);
    assert_eq!(tools::ok("nbdinfo", &["--size", &store.uri("w")]).trim(), "12288");
    let absent = tools::run(tools::command("nbdinfo").arg(store.uri("nobody")));
    assert_eq!(absent.code, Some(1), "{absent:?}");
    server.stop();
}

/// What `nbdinfo --map` tells, as (offset, length, kind) with neighbours of a kind joined.
fn map(store: &TestStore, export: &str) -> Vec<(u64, u64, String)> {
    let text = tools::ok("nbdinfo", &["--map", "--json", &store.uri(export)]);
    let list: Value = serde_json::from_str(&text).unwrap();
    let mut map: Vec<(u64, u64, String)> = Vec::new();
    for extent in list.as_array().unwrap() {
        let length = extent["length"].as_u64().unwrap();
        let kind = extent["description"].as_str().unwrap();
        match map.last_mut() {
            Some(last) if last.2 == kind => last.1 += length,
            _ => map.push((extent["offset"].as_u64().unwrap(), length, kind.to_owned())),
        }
    }
    map
}

fn expected(extents: &[(u64, u64, &str)]) -> Vec<(u64, u64, String)> {
    extents.iter().map(|&(at, length, kind)| (at, length, kind.to_owned())).collect()
}

#[test]
fn the_map_is_true_after_trims() {
    if !tools::present("the_map_is_true_after_trims", &["nbdinfo"]) {
        return;
    }
    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    let store = TestStore::new("64M", "1G");
    let server = store.serve();
    assert_eq!(map(&store, "v"), expected(&[(0, 1024 * M, "hole,zero")]));

    let mut client = store.client("v");
    client.write(8 * M, &vec![7; 4 * M as usize]);
    client.write(1023 * M, &[7; 4096]);
    store.ok("snapshot create s.mj v@s");
    // A trim gives whole blocks back; of the others it changes nothing.
    client.trim(9 * M + 100, M as u32 + 8192);
    assert_eq!(client.read(9 * M, 4097), [vec![7; 4096], vec![0]].concat());
    assert_eq!(client.read(10 * M + 8191, 2), [0, 7]);
    let now = [
        (0, 8 * M, "hole,zero"),
        (8 * M, M + 4 * K, "data"),
        (9 * M + 4 * K, M + 4 * K, "hole,zero"),
        (10 * M + 8 * K, 2 * M - 8 * K, "data"),
        (12 * M, 1011 * M, "hole,zero"),
        (1023 * M, 4 * K, "data"),
        (1023 * M + 4 * K, M - 4 * K, "hole,zero"),
    ];
    assert_eq!(map(&store, "v"), expected(&now));
    // The snapshot is as it was.
    let then = [
        (0, 8 * M, "hole,zero"),
        (8 * M, 4 * M, "data"),
        (12 * M, 1011 * M, "hole,zero"),
        (1023 * M, 4 * K, "data"),
        (1023 * M + 4 * K, M - 4 * K, "hole,zero"),
    ];
    assert_eq!(map(&store, "v@s"), expected(&then));
    drop(client);
    server.kill();
    let server = store.serve();
    assert_eq!(map(&store, "v@s"), expected(&then));
    server.stop();
    store.check();
}
