//! `nbdsh`, the shell of libnbd, uses every command that it knows, and is refused what is wrong.

use crate::real_support::store::TestStore;
use crate::real_support::tools;

/// Run by `nbdsh`, with `v`, `empty` and `snapshot` set to addresses.
const SCRIPT: &str = r#"
import errno
import random

K, M = 1 << 10, 1 << 20
random.seed(5)

def connect(uri):
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    h.connect_uri(uri)
    return h

def refused(why, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except nbd.Error as error:
        assert error.errnum == why, error
    else:
        raise AssertionError("nobody refused it")

h = connect(v)
h.set_strict_mode(0)    # The server's own refusals are wanted, not the library's.
assert h.get_size() == 16 * M
assert h.get_structured_replies_negotiated()
assert h.can_meta_context("base:allocation")
assert not h.is_read_only() and h.can_multi_conn()
assert h.can_flush() and h.can_fua() and h.can_trim() and h.can_zero() and h.can_fast_zero()
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
assert h.get_block_size(nbd.SIZE_PREFERRED) == 4 * K

# A model of the volume, changed as the volume is: any offset, any length.
model = bytearray(16 * M)
def assert_same(handle):
    for at in range(0, 16 * M, 4 * M):
        assert handle.pread(4 * M, at) == model[at:at + 4 * M], at

for step in range(300):
    length = random.choice([1, 511, 512, 4096, 5000, 65536, 300000])
    at = random.randrange(16 * M - length)
    deed = random.randrange(6)
    if deed < 3:
        data = random.randbytes(length)
        h.pwrite(data, at, nbd.CMD_FLAG_FUA if deed == 0 else 0)
        model[at:at + length] = data
    elif deed == 3:
        h.zero(length, at, random.choice([0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FUA]))
        model[at:at + length] = bytes(length)
    elif deed == 4:
        assert h.pread(length, at) == model[at:at + length], step
    else:
        h.flush()
assert_same(h)

# Trims are of whole blocks.
h.trim(2 * M, 3 * M)
model[3 * M:5 * M] = bytes(2 * M)
assert_same(h)

# A structured read tells holes from data.
chunks = []
def chunk(data, offset, status, error):
    chunks.append((offset, len(data), status))
h.pwrite(b"x" * 4096, 4 * M)
model[4 * M:4 * M + 4096] = b"x" * 4096
h.pread_structured(2 * M, 3 * M, chunk)
assert sum(length for _, length, _ in chunks) == 2 * M
assert (4 * M, 4096, nbd.READ_DATA) in chunks, chunks
assert any(status == nbd.READ_HOLE for _, _, status in chunks), chunks

# So does block status.
extents = []
def extent(context, offset, entries, error):
    assert context == "base:allocation"
    extents.extend(entries)
h.block_status(2 * M, 3 * M, extent)
assert extents == [M, 3, 4096, 0, M - 4096, 3], extents
extents.clear()
h.block_status(2 * M, 3 * M, extent, nbd.CMD_FLAG_REQ_ONE)
assert extents == [M, 3], extents
h.cache(M, 0)

# A part of a hole that is zeroed stays a hole, whatever is beside it.
for mode in (0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FAST_ZERO):
    h.zero(100, 3 * M + 50, mode)
    h.zero(100, 4 * M - 50, mode)
    h.zero(10000, 3 * M + 4000, mode)
model[4 * M:4 * M + 50] = bytes(50)
extents.clear()
h.block_status(2 * M, 3 * M, extent)
assert extents == [M, 3, 4096, 0, M - 4096, 3], extents
assert_same(h)

# Many at once, on two connections; a flush on one covers the other.
other = connect(v)
pieces = []
for handle in (h, other):
    for index in range(64):
        at = (12 * M if handle is h else 14 * M) + index * 16 * K
        data = random.randbytes(16 * K)
        model[at:at + len(data)] = data
        pieces.append((handle, handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), at)))
for handle, cookie in pieces:
    while not handle.aio_command_completed(cookie):
        handle.poll(-1)
h.flush()
assert_same(other)

# What is wrong is refused, and the connection lives on.
refused(errno.EINVAL, h.pread, 4096, 16 * M)
refused(errno.EINVAL, h.pread, 4096, 16 * M - 1)
refused(errno.ENOSPC, h.pwrite, b"y" * 4096, 16 * M - 1)
refused(errno.EINVAL, h.trim, 4096, 16 * M)
refused(errno.EINVAL, h.flush, 1 << 9)
assert_same(h)

# A snapshot takes no changes.
s = connect(snapshot)
s.set_strict_mode(0)
assert s.is_read_only()
refused(errno.EPERM, s.pwrite, b"z" * 4096, 0)
refused(errno.EPERM, s.trim, 4096, 0)
refused(errno.EPERM, s.zero, 4096, 0)
assert s.pread(16 * M, 0) == bytes(16 * M)

# The list of exports, and the one without a name.
names = []
o = nbd.NBD()
o.set_opt_mode(True)
o.connect_uri(empty)
o.opt_list(lambda name, description: names.append(name))
assert sorted(names) == ["v", "v@s"], names
o.set_export_name("nobody")
refused(errno.ENOENT, o.opt_go)
o.set_export_name("v")
o.opt_go()
assert o.pread(4096, 4 * M) == bytes(50) + b"x" * 4046
for handle in (h, other, s, o):
    handle.shutdown()

with open("model", "wb") as file:
    file.write(model)
print("all is well")
"#;

#[test]
fn every_command_of_libnbd_does_what_it_says() {
    if !tools::present("every_command_of_libnbd_does_what_it_says", &["nbdsh"]) {
        return;
    }
    let store = TestStore::new("64M", "16M");
    store.ok("snapshot create s.mj v@s");
    let server = store.serve();
    let set = |name: &str, export: &str| format!("{name} = {:?}", store.uri(export));
    let said = tools::succeed(
        tools::command("nbdsh")
            .args(["-c", &set("v", "v"), "-c", &set("empty", "")])
            .args(["-c", &set("snapshot", "v@s"), "-c", SCRIPT])
            .current_dir(store.folder()),
    );
    assert_eq!(said.trim(), "all is well");
    server.kill();
    // All of it was flushed.
    let server = store.serve();
    let model = std::fs::read(store.path("model")).unwrap();
    assert!(store.client("v").read(0, 16 << 20) == model, "the volume differs from the model");
    server.stop();
    store.check();
}
