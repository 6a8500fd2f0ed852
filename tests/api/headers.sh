#!/bin/sh
# Every header compiles alone, and twice in one file: the public ones as strict C17 and as C++17, the
# internal ones as the library's own code is compiled. So does a program that uses the public ones.
#
# usage: tests/api/headers.sh CC CXX GENERATED-HEADERS      CXX may be empty: the C++ half is left out
set -eu
cc=$1 cxx=$2 generated=$3
cd "$(dirname "$0")/../.."
bad=0 count=0
check() { # header, compiler and flags
    header=$1
    shift
    count=$((count + 1))
    printf '#include "%s"\n#include "%s"\nint hg_test_unit;\n' "$header" "$header" |
        "$@" -Wall -Wextra -Wshadow -Wundef -Werror -fsyntax-only - || {
        echo "headers.sh: $header does not compile alone: $*" >&2
        bad=1
    }
}
for header in include/hedge/*.h; do
    name=${header#include/}
    check "$name" "$cc" -x c -std=c17 -pedantic-errors -Wconversion -Wstrict-prototypes -Iinclude
    [ -z "$cxx" ] || check "$name" "$cxx" -x c++ -std=c++17 -pedantic-errors -Iinclude
done
for header in base/*.h alloc/*.h pacer/*.h runtime/*.h runtime/*/*.h; do
    case $header in
    *_inl.h | */\*.h) continue ;; # a part of another header, which says so; an empty folder
    esac
    check "$header" "$cc" -x c -std=gnu17 -D_GNU_SOURCE -DHG_DEBUG -I. -Iinclude -I"$generated"
done
program=tests/api/use.c
"$cc" -x c -std=c17 -pedantic-errors -Wall -Wextra -Werror -Iinclude -fsyntax-only $program || bad=1
[ -z "$cxx" ] ||
    "$cxx" -x c++ -std=c++17 -pedantic-errors -Wall -Wextra -Werror -Iinclude -fsyntax-only $program ||
    bad=1
[ $bad = 0 ] && echo "headers.sh: $count headers compile alone${cxx:+, as C and as C++}"
exit $bad
