# What the scripts beside this one share. Each sources it, and then
#
#   need PROGRAM=PACKAGE ...    installs what is missing, by apt
#   stage NAME BYTES            serves a new volume NAME with `--record`, and mounts it as ext4 at $mount
#   ... the program runs in $mount ...
#   keep                        unmounts, ends the recording, and puts it in recordings/NAME.mjtrace
#
# Recording begins before the file system is made, so that it can be replayed from an empty volume.
# Whatever happens, mounts, loop devices, processes and files are gone at the end.
#
# Needs root, FUSE and loop devices, and the program: MJOLNIR, or target/release/mjolnir.

set -euo pipefail
# Everyone's, wherever it runs.
export LC_ALL=C PATH="/usr/sbin:/usr/bin:/sbin:/bin:$PATH"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mjolnir=${MJOLNIR:-$root/target/release/mjolnir}
# Everything lies in here; `work` is short, so that sockets fit in.
work=
mount=
loop=
fuse_pid=
server_pid=
# Processes of the load, to be ended with it.
load_pids=()

die() {
    echo "$0: $*" >&2
    exit 1
}

need() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    echo "installing ${missing[*]}" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "${missing[@]}" \
        >/dev/null || die "cannot install ${missing[*]}: run apt-get update first"
}

mounted() { # FILE OR FOLDER; `mountpoint` knows folders alone
    grep -qF " $1 " /proc/self/mountinfo
}

patiently() { # COMMAND...: until it succeeds, for at most 30 seconds
    local try
    for try in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    return 1
}

stage() { # NAME BYTES
    name=$1
    [ "$(id -u)" = 0 ] || die "mounting needs root"
    [ -x "$mjolnir" ] || die "$mjolnir is missing: cargo build --release -p mjolnir-cli, or set MJOLNIR"
    need nbdfuse=libnbd-bin fusermount3=fuse3 mkfs.ext4=e2fsprogs losetup=mount
    trap strike EXIT
    trap 'exit 130' INT TERM
    work=$(mktemp -d "${TMPDIR:-/tmp}/record.XXXXXX")
    # Large enough that nothing waits for reclaim.
    "$mjolnir" format "$work/s.mj" --size 8G >/dev/null
    "$mjolnir" volume create "$work/s.mj" "$name" --size "$2" >/dev/null
    "$mjolnir" serve "$work/s.mj" --nbd "unix:$work/n.sock" --record "$work/r.mjtrace" \
        >"$work/server.log" 2>&1 &
    server_pid=$!
    patiently grep -q ready "$work/server.log" || die "the server: $(cat "$work/server.log")"
    touch "$work/volume"
    nbdfuse "$work/volume" "nbd+unix:///$name?socket=$work/n.sock" &
    fuse_pid=$!
    patiently mounted "$work/volume" || die "nbdfuse does not mount"
    loop=$(losetup --find --show --sector-size 4096 --direct-io=on "$work/volume")
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0,discard "$loop"
    mount=$work/mount
    mkdir "$mount"
    mount -t ext4 -o noatime,discard "$loop" "$mount"
}

strike() {
    trap - EXIT
    local pid
    for pid in "${load_pids[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid" || true
    done
    unstage || true
    # A mount that is left would have its files removed.
    [ -z "$work" ] || mounted "$work/mount" || mounted "$work/volume" || rm -rf "$work"
}

unstage() {
    [ -z "$mount" ] || ! mounted "$mount" || patiently umount "$mount" || umount -l "$mount"
    [ -z "$loop" ] || losetup -d "$loop" || true
    loop=
    if [ -n "$fuse_pid" ]; then
        # A loop device may hold on for a bit.
        ! mounted "$work/volume" || patiently fusermount3 -u "$work/volume" ||
            fusermount3 -u -z "$work/volume"
        wait "$fuse_pid" || true
        fuse_pid=
    fi
    if [ -n "$server_pid" ]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid"
        server_pid=
    fi
}

keep() {
    sync -f "$mount"
    unstage
    local file=$root/recordings/$name.mjtrace
    mv "$work/r.mjtrace" "$file"
    "$mjolnir" trace info "$file"
}
