#!/bin/sh
# hedge-sim serve as its users run it: with redis-cli and redis-benchmark, beside redis-server, with
# bad clients, with many connections while collections are verified, stopped by signals. Leaves out
# what needs redis-server, redis-cli or redis-benchmark where that is not installed, and says so.
#
# usage: serve.sh HEDGE-SIM SERVE-COMPARE SERVE-ABUSE DATA-FOLDER      exit 0: all as it should be, 1: not
# Environment: HEDGE_TEST_SEED repeats the random requests of a failed run; SERVE_TEST_CLIENTS: how
# many connections there are in the crowd (500).
set -u
sim=$1
compare=$2
abuse=$3
data=$4
. "$(dirname "$0")/lib.sh"
seed=${HEDGE_TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
clients=${SERVE_TEST_CLIENTS:-500}
server=
redis=
load=
trap 'kill $server $redis $load 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
have() {
    command -v "$1" >/dev/null 2>&1 || { echo "serve.sh: no $1: its checks are left out"; false; }
}
# until_is SECONDS COMMAND...: runs the command until it succeeds
until_is() {
    tries=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.05
    done
}
# start ARGUMENT...: a server with a socket of its own and its output in `report`
start() {
    rm -f hedge.sock report
    "$sim" serve --unixsocket "$work/hedge.sock" "$@" >report 2>err &
    server=$!
    until_is 20 grep -q 'listening on unix:' report || fault "no server: $(cat report err)"
}
# stop SIGNAL: it ends in order, with its report
stop() {
    kill -"$1" $server
    wait $server
    got=$?
    server=
    [ $got = 0 ] || fault "after SIG$1: status $got, expected 0; $(cat err)"
    has report '^requests  *[0-9]'
    has report '^assist, % of GC CPU'
    has report 'p99.9'
    [ ! -e hedge.sock ] || fault "the socket is left behind"
    awk 'length > 80 { exit 1 }' report || fault "a line of the report is wider than 80 columns"
}

# ---- usage ----
expect 2 serve --port none
has err 'none needs --unixsocket'
expect 2 serve --port 65536
has err 'port'
expect 2 serve --max-clients 0
has err 'max-clients'
expect 2 serve --output-limit 3
has err 'output-limit'
expect 2 serve --bind ''
has err 'bind'
expect 2 serve now
has err 'expected options only'
expect 0 serve --help
has out 'Examples:'
expect 3 serve --bind 192.0.2.1 --port 0
has err '192.0.2.1:0: '
expect 3 serve --port none --unixsocket "$work/none/socket"
has err 'none/socket: '

# ---- the socket of a server that was killed is taken over, that of one that lives is not ----
start --port none
expect 3 serve --port none --unixsocket "$work/hedge.sock"
has err 'in use'
kill -KILL $server
wait $server 2>/dev/null
[ -S hedge.sock ] || fault "SIGKILL leaves no socket: this test tests nothing"
rm report
"$sim" serve --port none --unixsocket "$work/hedge.sock" >report 2>err &
server=$!
until_is 20 grep -q 'listening on unix:' report || fault "a stale socket is in the way: $(cat err)"
stop INT

# ---- bad clients; then SIGTERM ----
start --port none --max-clients 300 --output-limit 4MiB
"$abuse" "$work/hedge.sock" 300 4194304 || fault "bad clients: $(cat err)"
stop TERM

# ---- the same requests to redis-server; memory is checked and overwritten meanwhile, and system calls
# are interrupted or do half ----
if have redis-server; then
    redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --dir "$work" \
        >redis.log 2>&1 &
    redis=$!
    HEDGEDEBUG=gccheck=1,gcpoison=1,gcstress=50,osfault=10 start --port none
    until_is 20 test -S redis.sock || fault "no redis-server: $(cat redis.log)"
    "$compare" "$work/redis.sock" "$work/hedge.sock" "$data/serve_requests.txt" "$seed" 10000 ||
        fault "not as redis-server does it (HEDGE_TEST_SEED=$seed)"
    stop INT
    kill $redis
    wait $redis
    redis=
fi

# ---- redis-cli, over TCP ----
if have redis-cli; then
    start --port 0
    port=$(sed -n 's/^listening on 127.0.0.1:\([0-9]*\)$/\1/p' report)
    cli() { redis-cli -p "$port" "$@" 2>&1; }
    [ "$(cli PING)" = PONG ] || fault "PING: $(cli PING)"
    [ "$(cli SET k 'a b')" = OK ] && [ "$(cli GET k)" = 'a b' ] || fault "SET, GET: $(cli GET k)"
    [ "$(printf 'INCR n\nINCR n\nGET n\n' | cli)" = "$(printf '1\n2\n2')" ] || fault "from a pipe"
    seq 1 3000 | sed 's/.*/SET key:& v/' | cli --pipe >out || fault "--pipe: $(cat out)"
    has out 'errors: 0, replies: 3000'
    [ "$(cli --scan --pattern 'key:*' | sort -u | wc -l)" = 3000 ] || fault "--scan"
    [ "$(cli DBSIZE)" = 3002 ] || fault "DBSIZE: $(cli DBSIZE)"
    cli COMMAND DOCS get | grep -q 'Returns the string value' || fault "COMMAND DOCS"
    cli INFO gc | grep -q '^gc_cycles:' || fault "INFO gc: $(cli INFO gc)"
    case $(cli --bigkeys) in *'Sampled 3002 keys'*) ;; *) fault "--bigkeys: $(cli --bigkeys)" ;; esac
    # SHUTDOWN stops it as a signal does.
    cli SHUTDOWN NOSAVE
    wait $server
    got=$?
    server=
    [ $got = 0 ] || fault "SHUTDOWN: status $got, expected 0; $(cat err)"
    has report '^requests  *[0-9]'
fi

# ---- redis-benchmark: all its default tests, then a crowd; every collection is verified ----
if have redis-benchmark; then
    HEDGEDEBUG=gccheck=1 GOGC=50 start --port none
    redis-benchmark -s "$work/hedge.sock" -n 2000 -r 1000 -P 4 --csv >out 2>bench ||
        fault "redis-benchmark: $(cat bench)"
    [ "$(grep -c '^"[A-Z]' out)" -ge 20 ] || fault "not all tests of redis-benchmark ran"
    ! grep -qi error bench || fault "redis-benchmark: $(cat bench)"
    redis-benchmark -s "$work/hedge.sock" -n 20000 -r 20000 -c "$clients" -d 200 \
        -t set,get,lpush,lrange_100,hset,zadd,spop,mset --csv >out 2>bench ||
        fault "redis-benchmark -c $clients: $(cat bench)"
    ! grep -qi error bench || fault "redis-benchmark -c $clients: $(cat bench)"
    stop INT
    [ "$(sed -n 's/^collections  *\([0-9,]*\)$/\1/p' report | tr -d ,)" -gt 3 ] ||
        fault "no collections: $(cat report)"
    has report '^  dropped  *0$'

    # Stopped in the middle of a load: nobody is waited for until he has sent all.
    start --port none
    redis-benchmark -s "$work/hedge.sock" -n 100000000 -c 100 -P 16 -t set,get --csv >out 2>bench &
    load=$!
    connected() { [ "$(redis-cli -s hedge.sock INFO clients | tr -d '\r' |
        sed -n 's/^connected_clients://p')" -gt 100 ]; }
    until_is 20 connected || fault "the load does not begin: $(cat bench)"
    begin=$(date +%s)
    stop TERM
    [ $(($(date +%s) - begin)) -lt 5 ] || fault "it took $(($(date +%s) - begin)) s to stop"
    kill $load 2>/dev/null # it may wait for ever for connections that it has itself given up
    wait $load
    load=
fi
exit $bad
