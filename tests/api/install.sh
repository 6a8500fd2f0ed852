#!/bin/sh
# Installs a build into an empty folder and uses it from there as a program would: through pkg-config,
# with the shared library and with the static one.
#
# usage: tests/api/install.sh BUILD-DIRECTORY CC
set -eu
build=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >"$work/log" || { cat "$work/log"; exit 1; }
pc=$(find "$work/usr" -name hedge.pc)
PKG_CONFIG_PATH=${pc%/*}
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir hedge)
flags="-std=c17 -Wall -Wextra -Werror $(pkg-config --cflags hedge)"
libs=$(pkg-config --libs hedge)
static=$(pkg-config --static --libs hedge)
# shellcheck disable=SC2086
$cc $flags "$here/use.c" -o "$work/shared" $libs
LD_LIBRARY_PATH=$libdir "$work/shared"
readelf -d "$work/shared" | grep -q 'NEEDED.*libhedge\.so\.'
rm -f "$libdir"/libhedge.so*
# shellcheck disable=SC2086
$cc $flags "$here/use.c" -o "$work/static" $static
"$work/static"
