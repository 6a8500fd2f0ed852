#!/bin/sh
# Runs hedge-sim limit, and hedge-sim pacer with a memory limit, as a user would: exit statuses and
# messages, the report's width, files that appear whole, checks, Ctrl-C, and the golden report of the
# simulated models.
#
# usage: limit.sh HEDGE-SIM GOLDEN       exit 0: all as it should be, 1: not
# After a change that is meant to move figures: the command below (golden) writes GOLDEN anew; read the
# difference before it is committed.
set -u
sim=$1
golden=$2
. "$(dirname "$0")/lib.sh"
# refused TEXT COMMAND ARGUMENT...: status 2, nothing on standard output, and a message with TEXT
refused() {
    text=$1
    shift
    expect 2 "$@"
    [ ! -s out ] || fault "hedge-sim $*: wrong usage, and yet a report"
    has err "$text"
}

# Wrong usage names the value and what is possible.
refused 'expected below, near, leak, hard, or all, not "above"' limit --scenario above
refused 'each scenario once, not leak twice' limit --scenario leak,leak
refused 'expected a size from 1MiB .* not "64MB"' limit --limit 64MB
refused 'expected a size from 1MiB .* not "1KiB"' limit --limit 1KiB
refused '--procs: expected a whole number from 1 to 1024, not "0"' limit --procs 0
refused '--duration: expected a number from 0.1 to 100000, not "nan"' limit --duration nan
refused '"best": expected mean:N' limit --policy best
refused 'there is no figure "p99"; expected one of seconds' limit --fail-if 'p99 > 1'
refused 'expected off.cycles or cycles, not on.cycles' limit --fail-if 'on.cycles > 1'
refused 'expected a file that can be written' limit --json nowhere/a.json
refused 'expected options only, not "below"' limit below
refused 'expected a size from 1MiB .* not "off"' pacer --limit off
expect 3 limit --limit 1000TiB
has err 'the programs would need'
expect 0 limit --help
has out '--scenario=LIST'

# One scenario, live and short.
expect 1 limit --scenario near --limit 8MiB --procs 1 --duration 0.3 --json a.json --csv a.csv \
    --fail-if 'ops == 0' --fail-if 'gc_cpu_share >= off.gc_cpu_share && cycles > 0'
for text in '^near   off ' '^       8 MiB ' '^       predicted ' 'limit_passed called ' \
    '^check failed for near: gc_cpu_share >= '; do
    has out "$text"
done
[ "$(grep -c '^check failed' out)" = 1 ] || fault "checks: $(grep check out)"
[ ! -s err ] || fault "standard error is not a terminal, and yet it says: $(cat err)"
has a.json '"program": "hedge-sim limit"'
has a.json '"predicted_gc_cpu_share": 0'
[ "$(wc -l <a.csv)" = 3 ] || fault "a.csv: $(wc -l <a.csv) lines, expected 3"
[ -z "$(ls | grep tmp)" ] || fault "left over: $(ls)"

# The simulated models: the golden report.
expect 0 pacer --list
has out '  limit-leak '
small="--model limit-below,limit-near,limit-leak --policy mean:2,max:5"
# shellcheck disable=SC2086
expect 0 pacer $small --seeds 6 --cycles 200 --seed 5 --jobs 2
# Elsewhere the compiler may fuse multiplications and additions, and the last digits differ.
if [ "$(uname -m)" = x86_64 ]; then
    sed 1d out | diff "$golden" - >difference || fault "not the golden report: $(cat difference)"
fi
expect 0 pacer --model limit-near,constant --policy max:5 --limit 1GiB --seeds 2 --cycles 20 --json b.json
has out '^constant  *max:5 '
has b.json '"limit": 1073741824'

# Ctrl-C stops early and still reports. An asynchronous child of a shell ignores SIGINT: TERM does the same.
"$sim" limit --scenario below --limit 8MiB --procs 1 --duration 60 >out 2>err &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
got=$?
[ $got = 143 ] || fault "interrupted: status $got, expected 143; $(cat err)"
has out '^below  off .* \*$'

exit $bad
