#!/bin/bash
# Boots a Debian kernel under software emulation with two kinds of zoned devices, and runs init.sh in it.
#
#   boot.sh FOLDER MJOLNIR CONTRACT
#
# FOLDER keeps the kernel and what is made of it. MJOLNIR is the program, CONTRACT the test of the Device contract.
# Ends with 77 and a reason on the last line where that cannot be.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 mjolnir=$2 contract=$3
modules="configfs crc32c_generic libcrc32c nvme null_blk"
mkdir -p "$folder"
cd "$folder"
folder=$PWD

skip() {
    echo "$*"
    exit 77
}

# The archive's backports have the kernel. The lists lie here: nothing of the system's own is changed.
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)-backports
backports() {
    mkdir -p apt/sources apt/lists/partial
    cp /etc/apt/sources.list.d/* apt/sources/ 2>/dev/null || true
    echo "deb http://deb.debian.org/debian $suite main" >apt/sources/guest.list
    apt=(-q -o "Dir::Etc::SourceParts=$folder/apt/sources" -o "Dir::State::Lists=$folder/apt/lists")
    apt-get "${apt[@]}" update >&2
}
needed="qemu-system-x86_64 busybox cpio zstd depmod xz strip"
missing() {
    for program in $needed; do
        command -v $program >/dev/null || return 0
    done
    return 1
}
export PATH=$PATH:/usr/sbin:/sbin
if missing && [ "${MJOLNIR_INSTALL:-}" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing QEMU and what makes its machine" >&2
    backports || skip "the lists of $suite cannot be had"
    DEBIAN_FRONTEND=noninteractive apt-get "${apt[@]}" install -y --no-install-recommends -t "$suite" \
        qemu-system-x86 busybox-static cpio zstd kmod xz-utils binutils >&2 || true
fi
for program in $needed dpkg-deb apt-get fio; do
    command -v $program >/dev/null || skip "$program is missing"
done
if [ ! -d kernel ]; then
    backports || skip "the lists of $suite cannot be had"
    package=$(apt-cache "${apt[@]}" depends "linux-image-amd64/$suite" | awk '/Depends:/ { print $2; exit }') || true
    [ -n "$package" ] || skip "the archive has no kernel in $suite"
    apt-get "${apt[@]}" download "$package" >&2 || skip "$package cannot be downloaded"
    rm -rf unpacked && dpkg-deb -x "$package"_*.deb unpacked && rm "$package"_*.deb
    depmod -b unpacked "$(ls unpacked/lib/modules)"
    mv unpacked kernel
fi
version=$(ls kernel/lib/modules)

rm -rf root
mkdir -p root/{bin,dev,etc,lib,lib64,modules,proc,run,sys,tmp}
cp "$(command -v busybox)" root/bin/busybox
# A module after all that it needs.
add() {
    local name=${1##*/} needed
    name=${name%%.ko*}
    grep -qsx "$name" root/modules/order && return
    for needed in $(grep "^$1:" "kernel/lib/modules/$version/modules.dep" | cut -d: -f2); do add "$needed"; done
    case $1 in
    *.xz) xz -dc "kernel/lib/modules/$version/$1" >"root/modules/$name.ko" ;;
    *) cp "kernel/lib/modules/$version/$1" "root/modules/$name.ko" ;;
    esac
    echo "$name" >>root/modules/order
}
touch root/modules/order
for module in $modules; do
    path=$(grep -oE "^[^:]*/${module}\.ko(\.xz)?:" "kernel/lib/modules/$version/modules.dep" | head -n 1 | tr -d :) || true
    [ -z "$path" ] || add "$path"
done
# A program with the libraries that it is linked with.
program() {
    cp -L "$1" "root/bin/$2"
    strip "root/bin/$2" 2>/dev/null || true
    { ldd "$1" || true; } | { grep -oE '/[^ )]+' || true; } | while read -r library; do
        mkdir -p "root$(dirname "$library")"
        cp -Ln "$library" "root$library" 2>/dev/null || true
    done
}
program "$mjolnir" mjolnir
program "$contract" contract
program "$(command -v fio)" fio
cp "$here/init.sh" root/init
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet) | zstd -q -3 -f -o initrd.zst

rm -f zns.img
truncate -s 512M zns.img
echo "booting Linux $version" >&2
# The machine may reset itself once; it powers off in the end.
timeout "${GUEST_SECONDS:-600}" qemu-system-x86_64 -accel tcg,thread=multi -M q35 -cpu max -smp 2 -m 2048 \
    -nic none -display none -serial stdio -kernel kernel/boot/vmlinuz-* -initrd initrd.zst \
    -append "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on rdinit=/init" \
    -device nvme,id=n0,serial=zns0 -drive file=zns.img,id=z,if=none,format=raw,cache=writeback \
    -device nvme-ns,drive=z,bus=n0,nsid=1,zoned=true,zoned.zone_size=8M,zoned.zone_capacity=6M,zoned.max_open=8,zoned.max_active=12,logical_block_size=4096,physical_block_size=4096 \
    </dev/null | tr -d '\r' | tee console.txt || true
grep -q '^guest: done' console.txt && ! grep -q '^guest: FAILED' console.txt
