#!/bin/sh
# Installs what is missing of the Debian packages that hedge needs, builds it, and runs hedge-sim.
#
# usage: ./run.sh [--no-install] [ARGUMENTS OF hedge-sim]
#   without arguments: hedge-sim kv --duration 5 --warmup 2, the main job with shorter runs (about
#   4 minutes; hedge-sim kv alone takes 15)
#   --no-install   installs nothing, but says what is missing
# Works from any directory. The build is in build/release; a second call builds only what has changed.
set -eu
root=$(cd "$(dirname "$0")" && pwd)
me=run.sh
. "$root/tools/setup.sh"

install=yes
if [ "${1-}" = --no-install ]; then
    install=no
    shift
fi
[ $# -gt 0 ] || set -- kv --duration 5 --warmup 2

need_packages $install gcc libc6-dev make cmake pkg-config libjemalloc-dev libjansson-dev \
    zlib1g-dev libzstd-dev libsnappy-dev
build=$root/build/release
if [ ! -e "$build/CMakeCache.txt" ]; then
    say "configuring $build"
    (cd "$root" && quietly "$build/configure.log" cmake --preset release -DHEDGE_TESTS=OFF)
fi
say "building hedge-sim"
quietly "$build/build.log" cmake --build "$build" --parallel "$jobs" --target hedge-sim
say "running hedge-sim $*"
exec "$build/hedge-sim" "$@"
