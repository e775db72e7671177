//! Damage of what clients wrote: a read fails, the server says so, and a scrub names the range.

use crate::support::{Folder, pattern};

#[test]
fn a_read_of_damaged_data_fails_and_the_operator_is_told() {
    let folder = Folder::with_store();
    let data = pattern(7, 64 << 10);
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 1 << 20, &data).unwrap();
    client.flush().unwrap();
    drop(client);
    server.stop();

    let path = folder.path("s.mj");
    let mut bytes = std::fs::read(&path).unwrap();
    let mut blocks = bytes.chunks_exact(4096);
    let at = blocks.position(|block| block == &data[8192..12288]);
    bytes[at.expect("the data lies in the file as it is") * 4096 + 17] ^= 4;
    std::fs::write(&path, bytes).unwrap();

    let server = folder.serve("");
    let mut client = server.client("v");
    assert!(client.read((1 << 20) + 8192, 4096).is_err());
    assert_eq!(client.read(1 << 20, 8192).unwrap(), data[..8192]);
    server.wait_for("did not match their checksums");
    server.wait_for("the last, for client, at device block");
    drop(client);
    let stats = folder.json("stats s.mj");
    assert_eq!((&stats["checksum_errors"], &stats["read_errors"]), (&1.into(), &0.into()));
    assert_eq!(stats["checksum_errors_by"]["client"], 1);
    let last = &stats["last_read_error"];
    assert_eq!((&last["kind"], &last["purpose"]), (&"mismatch".into(), &"client".into()));
    let place = format!("device block {}", last["block"]);
    assert!(folder.ok("stats s.mj").contains(&place));
    let check = folder.ok("check s.mj");
    assert!(check.contains("0 failed, 1 did not match"), "{check}");
    let check = folder.json("check s.mj");
    assert_eq!((&check["checksum_errors"], &check["met"]), (&1.into(), &serde_json::json!([])));
    let told = server.log().matches("did not match").count();
    assert_eq!(told, 1, "told once, and at most once in some seconds: {}", server.log());
    server.stop();
    let said = folder.run("scrub s.mj");
    assert_ne!(said.code, Some(0));
    assert!(said.out.contains("lost: v:1056768+4096"), "{}", said.out);
}
