#!/bin/busybox sh
# The first program of a machine with zoned devices: tests that run there. What they say goes to the console; the
# script outside looks for "guest: done" and "guest: FAILED".

/bin/busybox --install -s /bin
export PATH=/bin RUST_BACKTRACE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /run /tmp
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
ip link set lo up 2>/dev/null
# With several paths to a namespace the kernel shows no limits of open zones.
for module in $(cat /modules/order); do
    case $module in
    nvme-core) insmod /modules/$module.ko multipath=N ;;
    null_blk) insmod /modules/$module.ko nr_devices=0 ;;
    *) insmod /modules/$module.ko ;;
    esac || echo "insmod $module failed"
done
mount -t configfs config /sys/kernel/config
# Drives are found a moment after their module is there.
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/nvme0n1 ] && break; sleep 0.3; done

say() { echo "guest: $* ($(cut -d' ' -f1 /proc/uptime) s)"; }
end() { sync; poweroff -f; }
must() {
    # The name of a step, and its command.
    name=$1
    shift
    if "$@" >/tmp/step 2>&1; then
        say "ok: $name"
    else
        echo "guest: FAILED: $name: exit $?"
        tail -n 60 /tmp/step
        end
    fi
}
show() { echo "$1: $(cat /sys/block/$1/queue/zoned), $(cat /sys/block/$1/queue/nr_zones) zones, \
open $(cat /sys/block/$1/queue/max_open_zones), active $(cat /sys/block/$1/queue/max_active_zones)"; }

Z=/dev/nvme0n1
N=/dev/nullb0
SOCKET=/run/mjolnir.sock
# Serves a store, and waits until it is.
serve() {
    rm -f $SOCKET
    mjolnir serve $1 --nbd unix:$SOCKET >/tmp/server 2>&1 &
    server=$!
    for _ in $(seq 150); do grep -q "^ready:" /tmp/server && return 0; sleep 0.2; done
    cat /tmp/server
    return 1
}
load() {
    # Volume, kind of load, megabytes in all, and further options.
    volume=$1 kind=$2 bytes=$3
    shift 3
    fio --name=$volume --ioengine=nbd --uri="nbd+unix:///$volume?socket=$SOCKET" --rw=$kind --bs=16k \
        --iodepth=8 --size=${SIZE:-64M} --io_size=$bytes --verify=crc32c --randseed=7 --allow_file_create=0 "$@"
}

show nvme0n1
if mjolnir check $Z >/tmp/check 2>&1; then
    # Second life: the machine was reset in the middle of a load.
    say "the machine was reset"
    must "what the first life left is sound" mjolnir check $Z
    must "a server opens it" serve $Z
    must "what was flushed is there" load kept write 64M --verify_only
    must "a snapshot is there" sh -c "mjolnir snapshot list $Z | grep -q before"
    must "writes go on" load busy randwrite 64M --do_verify=1
    kill $server
    wait $server
    must "the store is sound in the end" mjolnir check $Z
    must "every block is what was written" mjolnir scrub $Z
    echo "guest: done"
    end
fi

mkdir /sys/kernel/config/nullb/nullb0 && cd /sys/kernel/config/nullb/nullb0
for set in memory_backed=1 zoned=1 blocksize=4096 size=256 zone_size=8 zone_capacity=6 zone_nr_conv=2 \
    zone_max_open=6 zone_max_active=7 power=1; do
    echo ${set#*=} >${set%=*} || echo "null_blk takes no $set"
done
cd /
show nullb0
must "the Device contract on NVMe and null_blk" \
    env MJOLNIR_ZONED_DEVICES="$Z /dev/nullb0" contract --ignored --nocapture

# Zones of null_blk turn read-only in the middle of a load, some of them open, some full, some empty. Its zones are
# of 16,384 sectors, and the store's begin with the fifth.
turn() { for zone in $2; do echo $((zone * 16384)) >/sys/kernel/config/nullb/nullb0/zone_$1; done; }
must "a store on null_blk" mjolnir format $N --force
must "its volume" mjolnir volume create $N kept --size 48M
must "its server" serve $N
SIZE=48M
must "overwrites on null_blk" load kept randwrite 64M --do_verify=1
load kept randwrite 96M --do_verify=1 --end_fsync=1 >/tmp/load 2>&1 &
load=$!
sleep 2
turn readonly "7 8 9 10"
if wait $load; then say "ok: overwrites while zones turn read-only"; else
    cat /tmp/load
    mjolnir stats $N
    cat /tmp/server
    echo "guest: FAILED: overwrites while zones turn read-only"
    end
fi
mjolnir stats $N | grep -iE "bad|failed"
kill $server
wait $server
must "the store with read-only zones is sound" mjolnir check $N
cat /tmp/step
must "every block of it is what was written" mjolnir scrub $N
# A zone with data goes offline: that is lost, and named.
turn offline "5"
for command in check scrub salvage scrub; do
    mjolnir $command $N >/tmp/step 2>&1
    say "$command after a zone went offline: exit $?"
    tail -n 12 /tmp/step
done
unset SIZE

must "format" mjolnir format $Z --force
cat /tmp/step
if mjolnir format $Z >/tmp/step 2>&1; then echo "guest: FAILED: a store was overwritten unasked"; end; fi
cat /tmp/step
must "a volume" mjolnir volume create $Z kept --size 64M
must "another" mjolnir volume create $Z busy --size 64M
must "serve" serve $Z
if mjolnir format $Z --force >/tmp/step 2>&1; then echo "guest: FAILED: a store in use was overwritten"; end; fi
must "a written volume" load kept write 64M --do_verify=1 --end_fsync=1
must "overwrites through reclaim" load busy randwrite 256M --do_verify=1
must "a snapshot" mjolnir snapshot create $Z busy@before
must "overwrites beside a snapshot" load busy randwrite 64M --do_verify=1
mjolnir stats $Z | head -n 30
say "a server is killed"
kill -9 $server
wait $server 2>/dev/null
must "a server opens what that left" serve $Z
must "what was written is there" load kept write 64M --verify_only
mjolnir stats $Z >/tmp/stats && grep -i "write.*failed\|bad" /tmp/stats
say "resetting the machine under load"
load busy randwrite 512M --do_verify=0 >/tmp/step 2>&1 &
sleep 4
echo b >/proc/sysrq-trigger
