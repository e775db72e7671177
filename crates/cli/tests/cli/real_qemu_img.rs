//! `qemu-img convert` into a volume and out of it, between formats: equal content, and only data
//! is copied.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::real_support::chance::Chance;
use crate::real_support::store::TestStore;
use crate::real_support::tools;

const SIZE: u64 = 1 << 30;
const RUNS: [(u64, usize); 3] = [(0, 2 << 20), (300 << 20, 6 << 20), (SIZE - (1 << 20), 1 << 20)];

#[test]
fn images_are_converted_for_the_price_of_their_data() {
    let name = "images_are_converted_for_the_price_of_their_data";
    if !tools::present(name, &["qemu-img"]) {
        return;
    }
    let store = TestStore::new("64M", "1G");
    let server = store.serve();
    let qemu_img = |words: &[&str]| {
        tools::succeed(tools::command("qemu-img").args(words).current_dir(store.folder()))
    };
    let file = File::create(store.path("source.raw")).unwrap();
    file.set_len(SIZE).unwrap();
    let mut chance = Chance::new(3);
    for (at, length) in RUNS {
        file.write_all_at(&chance.bytes(length), at).unwrap();
    }
    let data: u64 = RUNS.iter().map(|(_, length)| *length as u64).sum();
    let about_data = data..data + (1 << 20);

    qemu_img(&["convert", "-f", "raw", "-O", "qcow2", "source.raw", "source.qcow2"]);
    let uri = store.uri("v");
    qemu_img(&["convert", "-n", "-f", "qcow2", "-O", "raw", "source.qcow2", &uri]);
    let written = store.stat("client_write_bytes");
    assert!(about_data.contains(&written), "{written} written for {data}");
    let same = qemu_img(&["compare", "-f", "raw", "-F", "raw", "source.raw", &uri]);
    assert!(same.contains("identical"), "{same}");

    store.ok("snapshot create s.mj v@s");
    for format in ["raw", "qcow2"] {
        let before = store.stat("client_read_bytes");
        let (from, to) = (store.uri("v@s"), format!("back.{format}"));
        qemu_img(&["convert", "-f", "raw", "-O", format, &from, &to]);
        let read = store.stat("client_read_bytes") - before;
        assert!(about_data.contains(&read), "{read} read for {data}");
        let taken = store.path(&to).metadata().unwrap().blocks() * 512;
        assert!(taken < data + (2 << 20), "{to} takes {taken}");
        let same = qemu_img(&["compare", "-f", "raw", "-F", format, "source.raw", &to]);
        assert!(same.contains("identical"), "{same}");
    }

    // A volume over which another image is written has nothing of the old one.
    qemu_img(&["create", "-q", "-f", "qcow2", "empty.qcow2", "1G"]);
    qemu_img(&["convert", "-n", "-f", "qcow2", "-O", "raw", "empty.qcow2", &uri]);
    let same = qemu_img(&["compare", "-f", "raw", "-F", "qcow2", &uri, "empty.qcow2"]);
    assert!(same.contains("identical"), "{same}");
    let volumes = store.json("volume list s.mj --mapped");
    assert_eq!(volumes[0]["mapped_bytes"], 0, "zeroes are holes");
    server.stop();
    store.check();
}
