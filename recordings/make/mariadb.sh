#!/bin/bash
# MariaDB: a load like TPC-C's (mariadb.lua) on one small warehouse, four clients, InnoDB past the
# page cache, a log that is synced with each transaction.
source "$(dirname "$0")/stage.sh"
need mariadbd=mariadb-server-core mariadb-install-db=mariadb-server-core mariadb=mariadb-client-core \
    sysbench=sysbench
stage mariadb 512M

mkdir "$mount/data"
mariadb-install-db --no-defaults --user=root --datadir="$mount/data" --skip-test-db \
    --innodb-log-file-size=16M --auth-root-authentication-method=normal >/dev/null 2>&1
mariadbd --no-defaults --user=root --datadir="$mount/data" --socket="$work/m.sock" \
    --pid-file="$work/m.pid" --skip-networking --innodb-buffer-pool-size=24M \
    --innodb-flush-method=O_DIRECT --innodb-log-file-size=16M --log-bin="$mount/data/binlog" \
    --max-binlog-size=4M --expire-logs-days=0 --server-id=1 2>"$work/mariadb.log" &
load_pids+=($!)
patiently mariadb --no-defaults --user=root --socket="$work/m.sock" -e 'CREATE DATABASE shop' ||
    die "mariadbd: $(tail -n 5 "$work/mariadb.log")"

run() {
    sysbench "$(dirname "$0")/mariadb.lua" --db-driver=mysql --mysql-socket="$work/m.sock" \
        --mysql-user=root --mysql-db=shop --mysql-ignore-errors=1020,1205,1213 \
        --rand-seed=1 --threads="$1" --time="$2" --events=0 --rate="$3" "$4" >"$work/sysbench.log" ||
        die "sysbench: $(tail -n 5 "$work/sysbench.log")"
}
run 1 0 0 prepare
run 4 40 150 run
kill "${load_pids[0]}"
wait "${load_pids[0]}" || true
load_pids=()
keep
