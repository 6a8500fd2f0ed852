#!/bin/sh
# Runs hedge-sim pacer as a user would: exit statuses and messages, the report's width, files that appear
# whole, the same bytes for the same seed however many processes, the golden report, and Ctrl-C.
#
# usage: pacer.sh HEDGE-SIM GOLDEN       exit 0: all as it should be, 1: not
# After a change that is meant to move figures: the command below (golden) writes GOLDEN anew; read the
# difference before it is committed.
set -u
sim=$1
golden=$2
subcommand=pacer
. "$(dirname "$0")/lib.sh"
# refused TEXT ARGUMENT...: status 2, nothing on standard output, and a message with TEXT
refused() {
    text=$1
    shift
    expect 2 "$@"
    [ ! -s out ] || fault "hedge-sim pacer $*: wrong usage, and yet a report"
    has err "$text"
}

# Wrong usage names the value and what is possible.
refused 'expected constant, low, .*within, .*replay, or all, not "noise"' --model noise
refused 'each model once, not low twice' --model low,low
refused '"best": expected mean:N, pi, max:N' --policy best
refused '"max:33": expected a whole number from 1 to 32' --policy mean:2,max:33
refused 'each policy once, not max:5 twice' --policy max,max:5
refused 'some of deadband, credit and landing joined by +, not "softness"' --damping softness
refused 'each set once, not none twice' --damping none,none
refused '--gogc: expected a whole number from 1 to 100000, not "off"' --gogc off
refused '--cycles: expected a whole number from 1' --cycles 0
refused '--seeds: expected a whole number from 1' --seeds -3
refused '--jobs: expected' --jobs none
refused 'expected a file that can be written' --json nowhere/a.json
refused 'expected options only, not "uniform"' uniform

# What there is.
expect 0 --list
for text in 'models' 'constant ' 'within ' 'policies' 'max:5 ' 'quantile:8:0.9 ' 'adaptive '; do
    has out "$text"
done
expect 0 --help
has out '--damping=LIST'

# Same seed, same bytes; the golden report.
small="--seeds 6 --cycles 100 --seed 5"
# shellcheck disable=SC2086
expect 0 $small --jobs 1 --json a.json --csv a.csv
mv out one
# shellcheck disable=SC2086
expect 0 $small --jobs 3 --json b.json --csv b.csv
cmp -s one out || fault "another report with three processes"
cmp -s a.json b.json || fault "other JSON with three processes"
cmp -s a.csv b.csv || fault "other CSV with three processes"
[ -z "$(ls | grep tmp)" ] || fault "left over: $(ls)"
[ ! -s err ] || fault "standard error is not a terminal, and yet it says: $(cat err)"
has a.json '"program": "hedge-sim pacer"'
has a.json '"cycles_to_release": 5.0'
has a.json '"cycles_to_release": null'
[ "$(wc -l <a.csv)" = 127 ] || fault "a.csv: $(wc -l <a.csv) lines, expected 127"
# Elsewhere the compiler may fuse multiplications and additions, and the last digits differ.
if [ "$(uname -m)" = x86_64 ]; then
    sed 1d one | diff "$golden" - >difference || fault "not the golden report: $(cat difference)"
fi

# A recorded trace: not among all, deterministic, and only with its model.
data=$(dirname "$golden")/data
few="--seeds 6 --cycles 60 --policy mean:2,max:5"
# shellcheck disable=SC2086
expect 0 --model replay --trace "$data/hedge.log" $few --jobs 1 --json t.json
has out 'process #1: 28 of its 30 cycles'
has out 'plays them 2.86 times over'
has out '^max:5   *[1-9][0-9.]*  *0.0 '
has t.json '"trace_cycles": 28'
mv out one
# shellcheck disable=SC2086
expect 0 --model replay --trace "$data/hedge.log" $few --jobs 3 --json u.json
cmp -s one out || fault "another report of a trace with three processes"
cmp -s t.json u.json || fault "other JSON of a trace with three processes"
# shellcheck disable=SC2086
expect 0 --model constant,replay --trace "$data/go1.19.log" --damping all,none $few --seeds 50
has out 'process #1: 37 of its 38 cycles'
has out 'runs repeat from'
# shellcheck disable=SC2086
expect 0 --model replay --trace "$data/journald.log" --pid cache $few
has out 'process cache\[812\]'
# shellcheck disable=SC2086
"$sim" pacer --model replay --trace - $few <"$data/hedge.log" >out || fault "a trace from a pipe: $?"
refused 'expected --trace FILE with replay' --model replay
refused '--trace: expected with --model replay' --trace "$data/hedge.log"
refused '--pid: expected with --model replay' --pid 812 --model low
refused 'none.log: cannot be opened' --model replay --trace none.log
head -c 3000 "$data/hedge.log" >cut.log
refused '--trace: cut.log: line 19, column 37: expected' --model replay --trace cut.log
# shellcheck disable=SC2086
expect 0 --model replay --trace cut.log --lenient $few --json t.json
tr '\n' ' ' <out >line
has line '1 broken line of the file was passed over'
has t.json '"trace_broken": 1'
# shellcheck disable=SC2086
expect 0 --model replay --trace "$data/gctrace-only.log" --assume scan=2MiB $few --json t.json
tr '\n' ' ' <out >line
has line 'For 18 of them the scan work is assumed (2 MiB)'
has t.json '"assume_scan_bytes": 2097152.0'
# shellcheck disable=SC2086
expect 0 --model replay --trace "$data/gctrace-only.log" --sweep assume=scan=2MiB,scan=8MiB $few
has out '^scan=8MiB  *max:5 '
refused '--assume: expected scan=BYTES, from 1 to 1e15, as scan=200MiB, not "scan=0"' --assume scan=0
refused '--assume: expected scan=BYTES' --model replay --trace cut.log --assume 5MiB
refused '--lenient: expected with --model replay' --lenient
refused '--assume: expected with --model replay' --assume scan=5MiB
refused 'GODEBUG=gctrace=1,gcpacertrace=1' --model replay --trace "$data/gctrace-only.log"
refused '--pid NAME: expected one of: api' --model replay --trace "$data/journald.log"
# shellcheck disable=SC2086
expect 0 --model replay --sweep "trace=$data/hedge.log,$data/go1.19.log" $few
has out '4 runs of 2 results'
has out 'hedge.log  *max:5 '
has out 'go1.19.log  *max:5 '
has out 'model replay everywhere'
refused 'nowhere.log: cannot be opened' --model replay --sweep trace=nowhere.log
refused 'with a sweep, not standard input' --model replay --trace - --sweep gogc=50,100

# The effect of dampers.
expect 0 --model uniform --policy mean:2,max:5 --damping each --seeds 6 --cycles 50
has out 'effect of the dampers'
[ "$(grep -c 'credit+landing' out)" = 3 ] || fault "a set of dampers is missing"
expect 0 --model low --policy pi --damping none --seeds 2 --cycles 20
has out 'dampers on: none'
has out '95 % interval from 6 seeds on'

# Ctrl-C stops early and still reports. An asynchronous child of a shell ignores SIGINT: TERM does the same.
"$sim" pacer --cycles 20000 --seeds 1000 --json c.json >out 2>err &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
got=$?
[ $got = 143 ] || fault "interrupted: status $got, expected 143; $(cat err)"
has out ' of them whole)'
has c.json '"runs"'

exit $bad
