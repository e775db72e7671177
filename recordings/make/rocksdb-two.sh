#!/bin/bash
# Two RocksDB on one file system, at once and at fixed rates: one of small values with levelled
# compaction past the page cache, which reads while it writes, and one of large values with universal
# compaction through the page cache.
source "$(dirname "$0")/stage.sh"
need db_bench=rocksdb-tools
stage rocksdb-two 1G

db_bench --db="$mount/small" --benchmarks=fillrandom,overwrite,readrandomwriterandom --seed=1 \
    --num=300000 --key_size=16 --value_size=100 --compression_type=none --readwritepercent=50 \
    --write_buffer_size=$((2 << 20)) --target_file_size_base=$((2 << 20)) \
    --max_bytes_for_level_base=$((8 << 20)) --max_background_jobs=2 \
    --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1 \
    --writable_file_max_buffer_size=65536 --compaction_readahead_size=65536 \
    --benchmark_write_rate_limit=$((2 << 20)) --benchmark_read_rate_limit=2000 \
    --reads=60000 --cache_size=$((4 << 20)) >/dev/null 2>&1 &
load_pids+=($!)
db_bench --db="$mount/large" --benchmarks=fillrandom,overwrite,overwrite --seed=2 \
    --num=20000 --key_size=16 --value_size=4000 --compression_type=none --compaction_style=1 \
    --write_buffer_size=$((8 << 20)) --max_background_jobs=2 \
    --benchmark_write_rate_limit=$((5 << 20)) --cache_size=$((4 << 20)) >/dev/null 2>&1 &
load_pids+=($!)
for pid in "${load_pids[@]}"; do wait "$pid"; done
load_pids=()
keep
