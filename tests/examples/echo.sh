#!/bin/sh
# Runs the echo server and its client as README.md does: over TCP and a Unix socket, many clients at
# once, an address that is taken, a server that is not there.
#
# usage: echo.sh ECHO      exit 0: all as it should be, 1: not
set -u
echo=$1
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill $server 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fault() {
    echo "echo.sh: $*" >&2
    bad=1
}
# serve ADDRESS: starts the server, sets `server` and, when it listens, `address`
serve() {
    : >listening
    "$echo" "$1" >listening 2>err &
    server=$!
    tries=0
    until grep -q 'listening on' listening; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { fault "the server on $1 does not listen: $(cat err)"; exit 1; }
        sleep 0.05
    done
    address=$(sed 's/listening on //' listening)
}
stop() {
    kill $server
    wait $server 2>/dev/null
    server=
}

for where in 127.0.0.1:0 "unix:$work/socket"; do
    serve "$where"
    got=$("$echo" "$address" one two three | tr '\n' ' ')
    [ "$got" = 'one two three ' ] || fault "$address answers \"$got\""
    clients=
    for i in 1 2 3 4 5 6 7 8; do
        "$echo" "$address" "a$i" "b$i" >"out.$i" &
        clients="$clients $!"
    done
    for client in $clients; do
        wait "$client" || fault "a client failed"
    done
    for i in 1 2 3 4 5 6 7 8; do
        [ "$(tr '\n' ' ' <"out.$i")" = "a$i b$i " ] || fault "client $i got $(cat "out.$i")"
    done
    "$echo" "$address" 2>err && fault "a second server on $address"
    grep -q 'Address already in use' err || fault "a taken address: $(cat err)"
    stop
done
"$echo" "unix:$work/nobody" hello 2>err && fault "a client without a server"
grep -q 'No such file or directory' err || fault "no server: $(cat err)"
"$echo" 2>err
[ $? = 2 ] || fault "no arguments"
exit $bad
