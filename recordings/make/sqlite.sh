#!/bin/bash
# SQLite: a table with two indexes filled in small transactions, rows updated and deleted at random,
# first with a rollback journal, then with a write-ahead log, and a VACUUM at the end.
source "$(dirname "$0")/stage.sh"
need sqlite3=sqlite3
stage sqlite 512M

# Random numbers come from a generator of its own, so that every run asks for the same.
transactions() { # FIRST COUNT
    awk -v first="$1" -v count="$2" 'BEGIN {
        x = first
        for (n = first; n < first + count; n++) {
            print "BEGIN;"
            for (i = 0; i < 8; i++) {
                x = (x * 16807) % 2147483647
                printf "INSERT INTO item(key, text) VALUES(%d, hex(zeroblob(%d)));\n", x, 20 + x % 300
            }
            x = (x * 16807) % 2147483647
            printf "UPDATE item SET text = hex(zeroblob(%d)) WHERE id = %d;\n", x % 200, x % (8 * n + 1)
            x = (x * 16807) % 2147483647
            printf "DELETE FROM item WHERE id = %d;\n", x % (8 * n + 1)
            print "COMMIT;"
        }
    }'
}

database=$mount/items.db
{
    echo "PRAGMA cache_size = -2000;"
    echo "CREATE TABLE item(id INTEGER PRIMARY KEY, key INTEGER, text TEXT);"
    echo "CREATE INDEX by_key ON item(key);"
    echo "CREATE INDEX by_text ON item(text);"
    transactions 1 800
    echo "PRAGMA journal_mode = WAL;"
    transactions 801 2700
    echo "VACUUM;"
} | sqlite3 "$database" >/dev/null
keep
