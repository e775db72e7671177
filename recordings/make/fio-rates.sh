#!/bin/bash
# Five fio jobs at once for 40 seconds, each at a fixed rate, on files of their own, past the page
# cache: an appended log, random overwrites with and without a hot part, rewriting in large pieces,
# reads among writes; and beside them files that are made and deleted.
source "$(dirname "$0")/stage.sh"
need fio=fio
stage fio-rates 1G

fio --output=/dev/null --directory="$mount" --ioengine=psync --direct=1 --time_based --runtime=40 \
    --thread --randrepeat=1 --fallocate=none \
    --name=log --rw=write --bs=16k --size=64m --rate_iops=100 --fsync=8 \
    --name=hot --rw=randwrite --bs=4k --size=96m --random_distribution=zipf:1.1 --rate_iops=600 \
    --name=uniform --rw=randwrite --bs=4k --size=96m --rate_iops=300 --fdatasync=64 \
    --name=large --rw=write --bs=256k --size=128m --rate_iops=20 \
    --name=mixed --rw=randrw --rwmixread=70 --bssplit=4k/60:8k/20:32k/20 --size=96m --rate_iops=200,100 &
load_pids+=($!)
# A file of 2 MiB each second, of which the last eight are kept.
(
    for number in $(seq 40); do
        dd if=/dev/zero of="$mount/made-$number" bs=256k count=8 conv=fsync status=none
        rm -f "$mount/made-$((number - 8))"
        sleep 1
    done
) &
load_pids+=($!)
for pid in "${load_pids[@]}"; do wait "$pid"; done
load_pids=()
keep
