//! An image of 6144 bytes goes into a volume of that size and out again by the clients that people use.

use crate::real_support::chance::Chance;
use crate::real_support::store::TestStore;
use crate::real_support::tools;

#[test]
fn an_image_of_6144_bytes_is_copied_both_ways() {
    let name = "an_image_of_6144_bytes_is_copied_both_ways";
    if !tools::present(name, &["nbdcopy", "nbdinfo", "qemu-img", "nbdsh"]) {
        return;
    }
    let store = TestStore::new("64M", "6144");
    store.ok("volume create s.mj w --size 6144");
    let server = store.serve();
    let (v, w) = (store.uri("v"), store.uri("w"));
    let path = |name: &str| store.path(name).to_str().unwrap().to_owned();
    let image = Chance::new(9).bytes(6144);
    std::fs::write(store.path("image.iso"), &image).unwrap();

    assert_eq!(tools::ok("nbdinfo", &["--size", &v]).trim(), "6144");
    let told = tools::ok("nbdinfo", &[&v]);
    for line in ["block_size_minimum: 1\n", "block_size_preferred: 4096"] {
        assert!(told.contains(line), "{told}");
    }
    tools::ok("nbdcopy", &["--flush", &path("image.iso"), &v]);
    tools::ok("nbdcopy", &[&v, &path("nbdcopy.iso")]);
    assert!(std::fs::read(store.path("nbdcopy.iso")).unwrap() == image);

    tools::ok("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &path("image.iso"), &w]);
    tools::ok("qemu-img", &["convert", "-f", "raw", "-O", "raw", &w, &path("qemu.iso")]);
    assert!(std::fs::read(store.path("qemu.iso")).unwrap() == image);
    let same = tools::ok("qemu-img", &["compare", "-f", "raw", "-F", "raw", &v, &w]);
    assert!(same.contains("identical"), "{same}");

    // By sectors, as the kernel's client does, up to the last one.
    let sectors = "
for sector in range(12): h.pwrite(bytes([sector + 1]) * 512, sector * 512)
whole = b''.join(bytes([sector + 1]) * 512 for sector in range(12))
h.flush()
assert h.pread(512, 5632) == bytes([12]) * 512 and h.pread(6144, 0) == whole
h.zero(2048, 4096)
assert h.pread(6144, 0) == whole[:4096] + bytes(2048)
";
    tools::ok("nbdsh", &["-u", &w, "-c", sectors]);
    let mapped = store.json("volume list s.mj --mapped");
    let mapped: Vec<_> = [0, 1].map(|at: usize| mapped[at]["mapped_bytes"].as_u64()).into();
    assert_eq!(mapped, [Some(6144), Some(4096)], "all of the tail was zeroed, and is a hole");
    server.stop();
    store.check();
}
