#!/bin/sh
# Runs hedge-sim as a user would, on loads of a second, and checks what comes out: exit statuses, the
# report's width, that files appear and nothing else does, and Ctrl-C.
#
# usage: kv.sh HEDGE-SIM       exit 0: all as it should be, 1: not
set -u
sim=$1
. "$(dirname "$0")/lib.sh"
small="--conns 50 --rate 1000 --keys 2000 --duration 1 --warmup 0.2"

# A comparison, with all its files.
# shellcheck disable=SC2086
expect 0 kv $small --policy max:5,off --repetitions 2 --json a.json --csv a.csv --series s.csv \
    --cycles c.csv --slowest w.csv --hgrm percentiles --fail-if 'p99 > 60s' --fail-if 'dropped > 0'
[ ! -s err ] || fault "standard error is not a terminal, and yet it says: $(cat err)"
for text in 'max:5  *2/2' 'off  *1/2' 'peak heap over goal' 'Against off (the floor)' \
    'fewer than 6' 'marking slices'; do
    has out "$text"
done
has a.json '"policy": "off"'
has a.json '"gc": "off"'
has a.json '"p999": '
[ "$(wc -l <a.csv)" = 5 ] || fault "a.csv: $(wc -l <a.csv) lines, expected 5"
[ "$(wc -l <w.csv)" = 41 ] || fault "w.csv: $(wc -l <w.csv) lines, expected 41"
[ "$(wc -l <s.csv)" -gt 30 ] || fault "s.csv: $(wc -l <s.csv) lines, expected one in 100 ms"
[ "$(ls percentiles | wc -l)" = 4 ] || fault "percentiles: $(ls percentiles), expected 4 files"
[ -z "$(ls | grep tmp)" ] || fault "left over: $(ls)"

# Both runs of a repetition see the same arrivals: as many operations, but for those on the edge.
awk -F, 'NR > 1 { n[$3 "," $1] = $4 }
    END { for (r = 1; r <= 2; r++) {
              d = n[r ",max:5"] - n[r ",off"]
              if (d < -20 || d > 20 || n[r ",off"] < 800) exit 1 } }' a.csv ||
    fault "operations of paired runs: $(cut -d, -f1,3,4 a.csv | tr '\n' ' ')"

# More garbage than its nodes, and stacks that are not alike in each collection.
# shellcheck disable=SC2086
expect 0 kv $small --policy max:5 --gogc 50 --garbage-bytes 40000 --depth 60 --stack-noise 100 \
    --duration 2 --json n.json --csv n.csv --cycles n.cycles
has out '12 garbage nodes and 40,000 bytes,$'
has out '^  *43.8 KB of garbage per operation'
has out 'tasks park 0 to 120 frames deep'
has n.json '"garbage_bytes": 40000'
has n.json '"stack_noise": 1.0'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "bytes_per_op") at = i }
    NR == 2 { exit !($at > 43000 && $at < 50000) }' n.csv || fault "bytes of an operation: $(cat n.csv)"
awk -F, 'NR > 1 { n++; if (n == 1 || $14 < least) least = $14; if ($14 > most) most = $14 }
    END { exit !(n >= 5 && most > 1.5 * least) }' n.cycles || fault "stacks are alike: $(cut -d, -f3,14 n.cycles)"

# Over TCP: the same report, the same arrivals; and a limit of descriptors that does not suffice.
# shellcheck disable=SC2086
expect 0 kv $small --net --policy max:5,off --repetitions 1 --json t.json --csv t.csv \
    --fail-if 'p99 > 60s' --fail-if 'dropped > 0'
has out 'over TCP on 127.0.0.1'
has t.json '"net": true'
has a.json '"net": false'
awk -F, 'NR == FNR { if ($3 == 1 && $1 == "off") n = $4; next }
    $1 == "off" { d = $4 - n; exit !(d > -100 && d < 100) }' a.csv t.csv || # those on the edge, at 1000/s
    fault "operations over TCP and channels: $(cut -d, -f1,3,4 a.csv t.csv | tr '\n' ' ')"
# shellcheck disable=SC2086
expect 0 kv $small --net --policy max:5 --gogc 50 --value-bytes 20000 --stack-noise 50 --read-percent 50
if ! (ulimit -Sn 100 && ulimit -Hn 100 && ulimit -Hn 200) 2>/dev/null; then # who may raise it, does
    limited() { (ulimit -Sn 100 && ulimit -Hn 100 && exec "$sim" "$@"); }
    # shellcheck disable=SC2086
    limited kv $small --net --policy max:5 >out 2>err
    got=$?
    [ $got = 3 ] || fault "100 descriptors for 50 connections: $(cat err)"
    has err '50 connections need 164 descriptors, and this process may open 100'
    has err 'or --conns 17'
fi
# A soft limit is raised by itself.
# shellcheck disable=SC2086
(ulimit -Sn 64 && exec "$sim" kv $small --net --policy max:5) >out 2>err || fault "soft limit: $(cat err)"

# A check that fails, usage that is wrong, a floor that does not fit.
# shellcheck disable=SC2086
expect 1 kv $small --policy off --fail-if 'p99 > 1ns'
has out 'check failed for off'
expect 2 kv --conns none
has err 'conns: expected a whole number'
expect 2 none
has err 'expected a command'
expect 3 kv --policy off --rate 1000000 --duration 100000
has err 'nothing is left to run'
expect 0 env
has out GOGC
expect 0 kv --help
has out 'Examples:'

# Ctrl-C: ends early, reports what was measured.
# shellcheck disable=SC2086
"$sim" kv $small --duration 100 --policy max:5 --json early.json >out 2>err &
pid=$!
sleep 4
kill -INT $pid
wait $pid
got=$?
[ $got = 130 ] || fault "Ctrl-C: status $got, expected 130; $(cat err)"
has out 'stopped early'
has early.json '"interrupted": true'
exit $bad
