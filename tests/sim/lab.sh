#!/bin/sh
# The laboratory's tools as a user runs them: replay of recorded traces, a page and what a browser
# makes of it, sweeps of kv on loads of a second, jobs, merge, Ctrl-C. Leaves out what needs gnuplot,
# xmllint or chromium where that is not installed, and says so.
#
# usage: lab.sh HEDGE-SIM DATA-FOLDER       exit 0: all as it should be, 1: not
set -u
sim=$1
data=$2
. "$(dirname "$0")/lib.sh"
TMPDIR=$work/tmp
mkdir "$TMPDIR"
export TMPDIR
have() {
    command -v "$1" >/dev/null 2>&1 || { echo "lab.sh: no $1: its checks are left out"; false; }
}

# ---- replay ----
expect 0 replay "$data/go1.19.log" --json a.json --csv a.csv
has out 'max:5 .* 36 '
has out 'bytes and times'
has a.json '"program": "hedge-sim replay"'
[ "$(wc -l <a.csv)" = 39 ] || fault "a.csv: $(wc -l <a.csv) lines, expected 39"
expect 0 replay "$data/gctrace-only.log"
has out 'not asked'
expect 0 replay --assume scan=2MiB "$data/gctrace-only.log"
has out 'assumed scan work'
expect 0 replay --pid 812 "$data/journald.log"
has out 'cache\[812\]: 12 cycles'
expect 2 replay --pid api "$data/journald.log"
has err 'api\[4711\], cache\[812\], api\[5120\]'
head -c 3000 "$data/hedge.log" >cut.log
expect 2 replay cut.log
has err 'cut.log: line 19, column 37: expected'
expect 0 replay --lenient cut.log
expect 2 replay "$sim"
expect 2 replay a.csv
has err 'lines 1 to 39: expected "gc 1 '
expect 2 replay none.log
has err 'none.log: cannot be opened'
expect 2 replay --policy best cut.log
has err 'policy: "best": expected mean:N'
expect 2 replay --assume 5 cut.log
has err 'assume: expected scan=BYTES'
expect 2 replay --assume scan=2M "$data/gctrace-only.log"
has err 'assume: expected scan=BYTES, from 1 to 1e15, as scan=200MiB, not "scan=2M"'
"$sim" replay - <"$data/hedge.log" >out 2>err || fault "replay of standard input: $(cat err)"

# ---- pages ----
# page FILE PLOTS: well formed, and in the browser's own view all plots are there, nothing was asked for,
# no error was logged.
page() {
    if have xmllint; then
        xmllint --noout "$1" 2>err || fault "$1 is not well formed: $(head -3 err)"
    fi
    have chromium || return
    timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --window-size=360,800 --enable-logging=stderr --v=0 --dump-dom "file://$work/$1" >dom 2>log
    plots=$(grep -c '<svg' dom)
    [ "$plots" = "$2" ] || fault "the browser shows $plots plots of $1, expected $2"
    if grep -q 'CONSOLE' log; then
        fault "the browser complains about $1: $(grep CONSOLE log | head -3)"
    fi
}
if have gnuplot; then
    expect 0 replay "$data/journald.log" --report page.html
    page page.html 15
    expect 0 pacer --model uniform,replay --trace "$data/hedge.log" --policy mean:2,max:5 \
        --damping all,none --seeds 6 --cycles 40 --report pacer.html
    page pacer.html 6
    has pacer.html '95 % interval'
    has pacer.html 'process #1: 28 of its 30 cycles'
    has pacer.html '<td>max:5</td><td>none</td>'
    expect 0 pacer --model uniform --policy max:5 --sweep gogc=50,100 --seeds 6 --cycles 40 \
        --report swept.html
    has swept.html 'Over gogc'
    has swept.html 'its 95 % interval over seeds'
    page swept.html 6
    # scale: no plot of what a simulation does not have, nothing that says so either
    expect 0 scale --vcpus 4 --conns 500 --rate 100000 --live-heap 30M --duration 0.5 --warmup 0 \
        --policy mean:2,max:5,off --repetitions 1 --report scale.html
    plots=$(grep -c '<svg' scale.html)
    [ "$plots" = 4 ] || fault "scale.html has $plots plots, expected 4"
    has scale.html 'Heap and goal at each collection: max:5'
    for text in 'nothing to draw' 'Blame' 'resident' 'hedge-sim kv'; do
        ! grep -q "$text" scale.html || fault "scale.html has \"$text\""
    done
    # A recorded program's quantities, on the page of one run and on that of a sweep.
    recorded="--trace $data/go1.19.log --service 300 --profile go1.23 --policy max:5 --conns 500
        --vcpus 60 --duration 0.2 --warmup 0"
    # shellcheck disable=SC2086
    expect 0 scale $recorded --rate 5000 --report recorded.html
    has recorded.html 'The recorded program'
    has recorded.html '<td>from it</td><td>[0-9.]* MB of live heap</td>'
    # shellcheck disable=SC2086
    expect 0 scale $recorded --sweep rate=5000,9000 --report recorded.html --json recorded.json
    has recorded.html '<td>from it</td><td>[0-9.]* MB of live heap</td><td>everywhere</td>'
    has recorded.html '<td>recorded at 9,000 requests/s</td><td>rate 9000</td>'
    has recorded.json '"recorded": {'
    expect 0 merge recorded.json --report recorded.html
    has recorded.html '<td>[0-9.]* MB of live heap</td><td>everywhere</td>'
    expect 2 scale --calibrate here.json --report scale.html
    has err 'without --calibrate'
    # Six live runs of 5 s would be too long: Ctrl-C after the first, and the page has that.
    "$sim" scale --check --conns 200 --report check.html >out 2>err &
    pid=$!
    tries=0
    until grep -q '^ *[12] .*,000 ' out || [ $tries = 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -INT $pid
    wait $pid
    got=$?
    [ $got = 130 ] || fault "scale --check, Ctrl-C: status $got; $(cat err)"
    has check.html 'Predicted against measured latency'
    [ "$(grep -c '<svg' check.html)" = 1 ] || fault "check.html has not one plot"
    if have xmllint; then
        xmllint --noout scale.html check.html 2>err || fault "not well formed: $(head -3 err)"
    fi
else
    for command in "replay $data/hedge.log" pacer; do
        # shellcheck disable=SC2086
        expect 2 $command --report page.html
        has err 'gnuplot-nox'
    done
fi

# ---- a program from a trace ----
expect 0 scale --trace "$data/hedge.log" --trace-rate 20000 --conns 500 --rate 20000 --vcpus 4 \
    --duration 0.5 --warmup 0 --policy max:5 --json t.json
has out 'from it .* us of CPU time per request'
has out 'given *recorded at 20,000'
has t.json '"trace": '
expect 2 scale --trace cut.log
has err 'trace: cut.log: line 19, column 37: expected'
expect 0 scale --trace "$data/go1.19.log" --service 300 --profile go1.23 --policy max:5 --conns 500 \
    --rate 5000 --vcpus 60 --duration 0.5 --warmup 0 --gogc 50,400 --want 'p99<=20ms'
has out 'given *--gogc'
has out 'p99<=20ms holds'
has out 'single runs; 95 % intervals need 6'

# ---- a memory limit, simulated ----
expect 0 scale --vcpus 4 --conns 500 --rate 50000 --live-heap 30M --duration 0.5 --warmup 0 \
    --gogc 400 --policy max:5 --limit 60MiB,off --json l.json --want 'p99<=20ms'
has out '^60MiB '
has l.json '"limit": "60MiB"'
has out 'at limit 60MiB'
expect 2 scale --limit 60MiB,1Zib
has err 'limit: expected bytes'

# ---- sweeps ----
small="--conns 20 --rate 500 --keys 1000 --duration 0.3 --warmup 0"
# shellcheck disable=SC2086
expect 0 kv $small --policy max:5 --gogc 50,200 --limit 512MiB --json s.json --csv s.csv \
    --want 'p99<=10s'
has out '2 runs of 2 results'
has out 'policy max:5 everywhere'
has out 'holds at 2 of 2'
has s.json '"gogc": "200"'
[ "$(wc -l <s.csv)" = 3 ] || fault "s.csv: $(wc -l <s.csv) lines, expected 3"
# shellcheck disable=SC2086
expect 1 kv $small --policy max:5 --sweep gogc=50 --want 'p99<=1ns'
# shellcheck disable=SC2086
expect 1 kv $small --policy max:5 --sweep gogc=50 --fail-if 'p99 > 1ns'
has err 'check failed for max:5'
expect 2 kv --sweep gogc=50,60 --series s.csv
has err 'series: expected without a sweep'
expect 2 kv --sweep nosuch=1,2
has err 'nosuch'
expect 2 kv --sweep gogc=50,none
has err 'gogc: expected a whole number'
expect 2 kv --limit 512MiB,1Zib
has err 'limit: expected bytes'
expect 2 kv --sweep gogc=1:2
has err 'expected'
expect 2 kv --want 'p99<=5ms'
has err 'want: expected with a sweep'
[ -z "$(ls "$TMPDIR")" ] || fault "left over: $(ls "$TMPDIR")"

# pacer's points run at once, with one process each; their jobs, merged, are the same table.
few="--model uniform --policy mean:2,max:5 --seeds 6 --cycles 60"
# shellcheck disable=SC2086
expect 0 pacer $few --sweep gogc=50:150:50 --json p.json --csv p.csv --want 'late_cycles_share<0.3'
has out '6 runs of 3 results'
has out '^150  *max:5 '
has out '^  *[0-9.]*\.\.[0-9.]* '
has out '95 % interval over seeds'
has p.json '"ci95": {'
has out 'holds at 3 of 6'
has out 'heap_over_live [0-9.]*) at gogc 50, policy max:5'
[ "$(wc -l <p.csv)" = 7 ] || fault "p.csv: $(wc -l <p.csv) lines, expected 7"
mv out swept
# shellcheck disable=SC2086
"$sim" pacer $few --jobs 2 --sweep gogc=50:150:50 --json p.json --emit-jobs >jobs.txt ||
    fault "pacer --emit-jobs: status $?"
has jobs.txt '--jobs 2 --gogc 100 --json p-0002.json$'
sh -e ./jobs.txt >/dev/null || fault "a job of pacer failed"
expect 0 merge p-0001.json p-0002.json p-0003.json --want 'late_cycles_share<0.3'
cmp -s swept out || fault "merged jobs of pacer differ from the sweep: $(diff swept out)"
# shellcheck disable=SC2086
expect 1 pacer $few --sweep gogc=100 --want 'late_cycles_share<0'
expect 2 pacer --sweep gogc=50,100 --list
has err 'list: expected without a sweep'
expect 2 pacer --sweep model=uniform,noise
has err 'expected values that --model takes, not "noise"'

# ---- jobs and merge ----
# shellcheck disable=SC2086
"$sim" kv $small --policy max:5 --seed 7 --sweep gogc=50:150:100 --emit-jobs --json "a job.json" \
    >jobs.txt || fault "--emit-jobs: status $?"
[ "$(wc -l <jobs.txt)" = 2 ] || fault "expected two jobs: $(cat jobs.txt)"
sh -e ./jobs.txt >/dev/null || fault "a job failed"
expect 0 merge "a job-0001.json" "a job-0002.json" --json m.json --csv m.csv
has out '2 runs of 2 results'
has out '^150 '
has m.json '"gogc": "150"'
expect 0 merge m.json s.json --csv again.csv
[ "$(wc -l <again.csv)" = 5 ] || fault "again.csv: $(wc -l <again.csv) lines, expected 5"
expect 2 merge m.json a.json
has err 'a.json: expected results of hedge-sim kv, as in m.json, not of hedge-sim replay'
head -c 400 m.json >cut.json
expect 2 merge m.json cut.json --json none.json
has err 'cut.json: line .*: expected JSON'
[ ! -e none.json ] || fault "a refused merge left a file"

# ---- Ctrl-C: ends the point that runs, reports it, starts no more ----
# shellcheck disable=SC2086
"$sim" kv $small --duration 100 --policy max:5 --sweep gogc=50,100 --json early.json >out 2>err &
pid=$!
sleep 3
kill -INT $pid
wait $pid
got=$?
[ $got = 130 ] || fault "Ctrl-C: status $got, expected 130; $(cat err)"
has out 'not all points were made'
has early.json '"gogc": "50"'
[ -z "$(ls "$TMPDIR")" ] || fault "left over after Ctrl-C: $(ls "$TMPDIR")"
exit $bad
