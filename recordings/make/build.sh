#!/bin/bash
# A package build: this repository's source is unpacked, its crates for the map, the policies and the
# Store contract are compiled with all that they depend on, changed, compiled again, packed, and all
# of it thrown away; three times over.
source "$(dirname "$0")/stage.sh"
need git=git tar=tar gzip=gzip
command -v cargo >/dev/null || die "cargo is missing: install Rust from rustup.rs"
# What it depends on is fetched before the clock counts; the rest is offline.
(cd "$root" && cargo fetch --locked --quiet)
stage build 256M

build() {
    (cd "$mount/source" && CARGO_TARGET_DIR=$mount/target CARGO_PROFILE_DEV_OPT_LEVEL=0 \
        cargo build --locked --offline --quiet --jobs 2 \
        -p mjolnir-map -p mjolnir-policy -p mjolnir-store)
}

for round in 1 2 3; do
    mkdir "$mount/source"
    git -C "$root" archive HEAD -- Cargo.toml Cargo.lock crates xtask | tar -x -C "$mount/source"
    build
    echo "// Changed." >>"$mount/source/crates/units/src/lib.rs"
    build
    tar -cz -C "$mount" -f "$mount/package-$round.tar.gz" target/debug
    rm -rf "$mount/source" "$mount/target"
done
keep
