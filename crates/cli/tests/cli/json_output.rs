//! Everything that prints data prints it as JSON when asked, with sizes as plain numbers.

use serde_json::Value;

use crate::support::{Folder, pattern};

fn json(folder: &Folder, words: &str) -> Value {
    folder.json(words)
}

#[test]
fn data_is_printed_as_json_at_rest_and_served() {
    let folder = Folder::empty();
    let made = json(&folder, "format s.mj --size 64M");
    assert_eq!(made["segment_bytes"], 1 << 20);
    let made = json(&folder, "volume create s.mj v --size 16M");
    assert_eq!((&made["name"], &made["bytes"]), (&"v".into(), &(16 << 20).into()));
    json(&folder, "snapshot create s.mj v@a");
    let server = folder.serve("");
    server.client("v").write(0, 8192, &pattern(1, 4096)).unwrap();
    let read_all = |served: bool| {
        let volumes = json(&folder, "volume list s.mj --mapped");
        assert_eq!(volumes[0]["mapped_bytes"], 4096);
        assert_eq!(json(&folder, "snapshot list s.mj")[0]["name"], "v@a");
        let diff = json(&folder, "snapshot diff s.mj v@a v");
        assert_eq!(diff, serde_json::json!([{ "offset": 8192, "length": 4096, "data": true }]));
        let stats = json(&folder, "stats s.mj");
        assert_eq!(stats["served"], served);
        for term in ["device_write_bytes", "accepted_write_bytes", "write_amplification"] {
            assert!(stats[term].is_number(), "{term}");
        }
        assert_eq!(stats["accepted_write_bytes"], if served { 4096 } else { 0 });
        for kind in ["live_bytes", "uncounted_bytes", "stale_bytes", "metadata_bytes", "free_bytes"]
        {
            assert!(stats["space"][kind].is_u64(), "{kind}");
        }
        assert!(stats["write_latency"]["p99_ns"].is_u64() && stats["map_bytes"].is_u64());
        assert!(json(&folder, "gc status s.mj")["reclaim_cycles"].is_u64());
        let check = json(&folder, "check s.mj");
        assert_eq!((&check["online"], &check["problems"]), (&served.into(), &Value::Array(vec![])));
        assert_eq!(json(&folder, "scrub s.mj")["damage"], Value::Array(vec![]));
        assert!(json(&folder, "gc run s.mj")["segments"].is_u64());
        assert_eq!(json(&folder, "checkpoint s.mj"), serde_json::json!({}));
    };
    read_all(true);
    server.stop();
    read_all(false);
    assert!(json(&folder, "grow s.mj --size 96M")["bytes"].as_u64().unwrap() > 64 << 20);
    let said = folder.ok("snapshot diff s.mj v v");
    assert_eq!(said, "nothing differs between v and v\n");
    let empty = json(&folder, "snapshot diff s.mj v v");
    assert_eq!(empty, Value::Array(vec![]));
}

#[test]
fn readiness_is_told_as_json() {
    let folder = Folder::with_store();
    let server = folder.serve("--json");
    let ready: Value = serde_json::from_str(&server.ready).unwrap();
    assert!(ready["ready"][0].as_str().unwrap().starts_with("nbd+unix:///v?socket=/"));
    assert!(ready["control"].as_str().unwrap().ends_with("/s.mj.ctl"));
    server.stop();
}
