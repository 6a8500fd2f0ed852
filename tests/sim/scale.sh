#!/bin/sh
# Runs `hedge-sim scale` as a user would: the report against a golden one, byte for byte, the same
# bytes twice, files, checks, Ctrl-C.
#
# usage: scale.sh HEDGE-SIM GOLDEN      exit 0: all as it should be, 1: not
# A change of the model changes the golden report: look at the difference, then
#   scale.sh HEDGE-SIM GOLDEN write
set -u
sim=$1
golden=$2
. "$(dirname "$0")/lib.sh"
small="scale --vcpus 4 --conns 1000 --rate 100000 --live-heap 50M --duration 1 --warmup 0.5"
unset GOGC GOMAXPROCS GOMEMLIMIT HEDGE_GOGC HEDGE_GOMAXPROCS HEDGE_GOMEMLIMIT

report() {
    for profile in hedge go1.19 go1.23; do
        # shellcheck disable=SC2086
        expect 0 $small --profile $profile --repetitions 2 --noise 20
        sed 1d out # its first line has the commit
    done
}
report >report
[ "${3:-}" != write ] || cp report "$golden"
diff "$golden" report >difference || fault "the report is not the golden one: $(cat difference)"
awk 'length > 80 { exit 1 }' report || fault "a line of the report is wider than 80 columns"

# shellcheck disable=SC2086
expect 0 $small --json a.json --csv a.csv
# shellcheck disable=SC2086
expect 0 $small --json b.json --csv b.csv
cmp -s a.json b.json || fault "the same seed gave other JSON"
cmp -s a.csv b.csv || fault "the same seed gave another CSV"
for text in '"program": "hedge-sim scale"' '"profile": "hedge"' '"assist_share"'; do
    grep -q -e "$text" a.json || fault "a.json has no $text"
done

# shellcheck disable=SC2086
expect 1 $small --policy max:5 --fail-if 'p50 > 1ns'
expect 2 scale --profile java
grep -q 'go1.19' err || fault "an unknown profile: $(cat err)"

# Ctrl-C, a moment later, of a run that would take hours: what was simulated until then is reported.
# shellcheck disable=SC2086
"$sim" $small --duration 100000 --policy max:5,off >out 2>err &
pid=$!
sleep 1
kill -INT $pid
wait $pid
status=$?
[ $status = 130 ] || fault "Ctrl-C: status $status"
grep -q 'stopped early' out || fault "Ctrl-C: no word of it in the report"
exit $bad
