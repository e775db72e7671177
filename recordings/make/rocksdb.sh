#!/bin/bash
# RocksDB: db_bench fills a database in random order, and then overwrites it six times over.
source "$(dirname "$0")/stage.sh"
need db_bench=rocksdb-tools
stage rocksdb 512M

db_bench --db="$mount/db" --benchmarks="fillrandom$(printf ',overwrite%.0s' {1..6})" --seed=1 \
    --num=400000 --key_size=16 --value_size=240 --compression_type=none \
    --write_buffer_size=$((4 << 20)) --target_file_size_base=$((4 << 20)) \
    --max_bytes_for_level_base=$((16 << 20)) --max_background_jobs=2 \
    --cache_size=$((8 << 20)) --open_files=500 >/dev/null 2>&1
keep
