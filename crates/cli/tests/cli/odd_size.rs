//! A volume of the exact size of an image that is no multiple of 4096: commands take and tell it, clients see
//! it and nothing past it, and what was cut off stays away.

use crate::support::nbd::{EINVAL, ENOSPC};
use crate::support::{Folder, pattern};

#[test]
fn a_volume_has_the_size_of_an_image() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj iso --size 6144");
    let json = folder.ok("--json volume list s.mj");
    assert!(json.contains("\"bytes\": 6144") || json.contains("\"bytes\":6144"), "{json}");
    let data = pattern(3, 6144);
    let server = folder.serve("");
    let mut client = server.client("iso");
    assert_eq!(client.size, 6144);
    client.write(0, 0, &data).unwrap();
    assert_eq!(client.read(0, 6144).unwrap(), data);
    assert_eq!(client.read(6144, 512), Err(EINVAL));
    assert_eq!(client.read(4096, 4096), Err(EINVAL));
    assert!(matches!(client.write(0, 6144, &[1; 512]), Err(ENOSPC | EINVAL)));
    client.leave();
    folder.ok("snapshot create s.mj iso@a");
    folder.ok("clone s.mj iso@a copy");
    folder.ok("volume resize s.mj iso --size 4608 --shrink --force");
    folder.refused(
        "volume resize s.mj iso --size 4096",
        &["4.50 KiB", "512 B stored past that", "--shrink"],
    );
    folder.ok("volume resize s.mj iso --size 12K");
    let mut client = server.client("iso");
    let expected = [&data[..4608], &[0; 12_288 - 4608]].concat();
    assert_eq!(client.read(0, 12_288).unwrap(), expected);
    assert_eq!(server.client("copy").read(0, 6144).unwrap(), data);
    client.leave();
    folder.ok("snapshot restore s.mj iso@a --force");
    server.kill();

    let server = folder.serve("");
    for name in ["iso", "iso@a", "copy"] {
        let mut client = server.client(name);
        assert_eq!((client.size, client.read(0, 6144).unwrap()), (6144, data.clone()), "{name}");
    }
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
}

#[test]
fn ranges_reach_to_the_end_of_a_volume() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj a --size 6144");
    folder.ok("volume create s.mj b --size 2K");
    let data = pattern(4, 6144);
    std::fs::write(folder.path("image.iso"), &data).unwrap();
    folder.ok("range write s.mj image.iso a:0");
    folder.ok("range clone s.mj a:4K+2K b:0");
    folder.refused("range write s.mj image.iso v:0", &["6144", "4096", "end of v"]);
    folder.refused("range clone s.mj a:4K+2K v:0", &["2048", "4096", "end of v, 16777216"]);
    folder.refused("range trim s.mj a:4K+1K", &["1024", "4096", "end of a, 6144"]);
    folder.refused("range trim s.mj a:4K+4K", &["passes the end of a", "6144"]);
    let server = folder.serve("");
    assert_eq!(server.client("a").read(0, 6144).unwrap(), data);
    assert_eq!(server.client("b").read(0, 2048).unwrap(), data[4096..]);
    server.stop();
    folder.ok("range trim s.mj a:4K+2K");
    let mapped = folder.ok("--json volume list s.mj --mapped");
    assert!(mapped.contains("4096") && mapped.contains("2048"), "{mapped}");
}
