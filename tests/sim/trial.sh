#!/bin/sh
# Runs hedge-sim timer, compress and conn as a user would: exit statuses and messages, the reports'
# width, files that appear whole, targets that hold whatever the machine does, Ctrl-C.
#
# usage: trial.sh HEDGE-SIM       exit 0: all as it should be, 1: not
set -u
sim=$1
. "$(dirname "$0")/lib.sh"
# refused TEXT COMMAND ARGUMENT...: status 2, nothing on standard output, and a message with TEXT
refused() {
    text=$1
    shift
    expect 2 "$@"
    [ ! -s out ] || fault "hedge-sim $*: wrong usage, and yet a report"
    has err "$text"
}
# met TEXT: a target is reported as met. Those of time depend on the machine, and are not asked for here.
met() {
    has out "^target    $1.*, met$"
}

# Wrong usage names the value and what is possible.
refused 'expected none, snappy, zlib, zstd, or all, not "lz4"' compress --codec zlib,lz4
refused 'expected no, yes, or both, not "maybe"' compress --reuse maybe
refused '--bytes: expected a size from 64 to 64MiB, not "1GiB"' compress --bytes 1GiB
refused '--level: expected a whole number from 1 to 9, not "10"' compress --level 10
refused 'expected per-read, go-copy, batched, or all, not "none"' conn --metrics none
refused '--conns: expected a whole number from 1 to 10000, not "0"' conn --conns 0
refused 'expected pooled, stack, or both, not "heap"' timer --style heap
refused '--repetitions: expected a whole number from 1 to 20, not "21"' timer --repetitions 21
refused 'expected options only, not "now"' timer now
refused 'expected a file that can be written' conn --json nowhere/a.json
for command in timer compress conn; do
    expect 0 $command --help
    has out 'Examples:'
    has out '  hedge-sim '$command
done

# All codecs, both ways; every message is compared by the run itself.
expect 0 compress --messages 150 --bytes 16KiB --repetitions 1 --json a.json --csv a.csv
for row in none snappy zlib zstd; do
    has out "^$row  *no  "
    has out "^$row  *yes  "
done
met 'zlib, bytes per message saved by reuse'
has a.json '"program": "hedge-sim compress"'
has a.json '"bytes_per_op": '
[ "$(wc -l <a.csv)" = 9 ] || fault "a.csv: $(wc -l <a.csv) lines, expected 9"
expect 0 compress --codec zlib,zstd --conns 4 --messages 100 --bytes 700 --repetitions 1 --procs 2

# The metrics are compared with what went over the connections by the run itself.
expect 0 conn --conns 8 --requests 300 --flush 0.01 --repetitions 2 --csv b.csv
met 'allocations, batched over per-read'
has out '^tasks     per-read: 3.0. started per request'
[ "$(wc -l <b.csv)" = 7 ] || fault "b.csv: $(wc -l <b.csv) lines, expected 7"
expect 0 conn --metrics batched --conns 1 --requests 10 --repetitions 1
! grep -q '^target' out || fault "one way alone has no targets: $(grep target out)"

expect 0 timer --uses 200 --repetitions 1 --check --json c.json
has out '^pooled  '
met 'stack, bytes per use'
met 'stack, allocations per use'
has c.json '"late_p50_ns": '
expect 0 timer --tasks 50 --uses 20 --after 1000 --repetitions 1

# A missed target is a failure only when it is asked for.
expect 0 compress --codec zlib --messages 20 --bytes 256KiB --repetitions 1 --level 1
has out 'bytes per message saved by reuse.*MISSED$'
expect 1 compress --codec zlib --messages 20 --bytes 256KiB --repetitions 1 --level 1 --check

[ -z "$(ls | grep tmp)" ] || fault "left over: $(ls)"

# Ctrl-C stops early and still reports. An asynchronous child of a shell ignores SIGINT: TERM does the same.
"$sim" timer --style stack --uses 1000000 --after 1000 >out 2>err &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
got=$?
[ $got = 143 ] || fault "interrupted: status $got, expected 143; $(cat err)"
has out '^stack .* \*$'

exit $bad
