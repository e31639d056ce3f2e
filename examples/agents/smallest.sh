#!/bin/sh
# The smallest agent in POSIX shell: indexes the first four columns that the default task names, measures that once and
# commits it, whatever came out. It quotes no files, so it fails as a positive control.
set -eu
IFS= read -r hello

# "... FROM table WHERE column ..." becomes an index on the column
plan=$(printf '%s\n' "$hello" | tr '"' '\n' |
    sed -n 's/^SELECT .* FROM \([a-z]*\) WHERE \([a-z]*\) .*/CREATE INDEX ix_\2 ON \1 (\2) WHERE \2 IS NOT NULL;/p' |
    head -n 4 | tr '\n' ' ')

ask() {
    printf '%s\n' "$1"
    IFS= read -r reply
}
ask "{\"id\": 1, \"action\": \"experiment\", \"candidate\": \"$plan\"}"
ask "{\"id\": 2, \"action\": \"commit\", \"candidate\": \"$plan\"}"
ask '{"id": 3, "action": "finish"}'
