#!/bin/sh
# Installs what is missing of the Debian packages that the tests need, builds hedge in four ways, and
# runs the tests. Ends non-zero when anything fails.
#
# usage: ./test.sh [--no-install] [ARGUMENTS OF ctest]
#   --no-install   installs nothing, but says what is missing
#
# Stages: clang    everything compiles with clang, warnings being errors
#         hostile  assertions, audits and lock ranks on: unit and stress tests
#         asan     AddressSanitizer and UBSan: unit and stress tests
#         release  gcc, warnings being errors: all tests and the lints. It comes last, and its list of
#                  tests ends with the results of the other stages.
# Arguments go to ctest of the stage release; where they select tests (-L, -R, -E ...) the other stages
# are left out. Works from any directory; builds are in build/test-*.
set -eu
root=$(cd "$(dirname "$0")" && pwd)
me=test.sh
. "$root/tools/setup.sh"

install=yes
if [ "${1-}" = --no-install ]; then
    install=no
    shift
fi
all_stages=yes
for argument in "$@"; do
    case $argument in
    -L* | -R* | -E* | -I* | -N | --label* | --tests-* | --exclude-* | --rerun-failed | --show-only*)
        all_stages=no
        ;;
    esac
done

need_packages $install gcc g++ libc6-dev make cmake pkg-config libjemalloc-dev libjansson-dev \
    zlib1g-dev libzstd-dev libsnappy-dev libcriterion-dev clang clang-format spin gnuplot-nox \
    libxml2-utils redis-server redis-tools
results=$root/build/test-release/stages
rm -rf "$results"
mkdir -p "$results"

# Configures and builds everything of a preset in build/test-NAME.
build() { # name, preset
    (cd "$root" && quietly "$root/build/test-$1/configure.log" \
        cmake --preset "$2" -B "$root/build/test-$1" -DHEDGE_WERROR=ON -DHEDGE_TESTS=ON) &&
        quietly "$root/build/test-$1/build.log" \
            cmake --build "$root/build/test-$1" --parallel "$jobs"
}

# Runs the unit and stress tests of a build, the latter smaller: SCALE per cent of their size.
test_smaller() { # name, scale
    HEDGE_TEST_SCALE=$2 ctest --test-dir "$root/build/test-$1" --label-regex 'unit|stress' \
        --parallel "$jobs" --output-on-failure --no-tests=error
}

# Runs one stage and leaves its result for the ctest of the last one to report (tools/stage-result).
stage() { # name, command...
    name=$1
    shift
    begin=$(date +%s)
    status=0
    "$@" >"$results/$name.log" 2>&1 || status=$?
    echo $status >"$results/$name.status"
    [ $status = 0 ] || tail -n 40 "$results/$name.log"
    say "stage $name: $([ $status = 0 ] && echo passed || echo FAILED), $(($(date +%s) - begin)) s"
}

stage_hostile() { build hostile hostile && test_smaller hostile 25; }
stage_asan() { build asan asan && test_smaller asan 10; }

if [ $all_stages = yes ]; then
    say "stage clang: compiling everything with clang"
    stage clang build clang clang
    say "stage hostile: gcc with assertions and audits, unit and stress tests"
    stage hostile stage_hostile
    say "stage asan: gcc with AddressSanitizer and UBSan, unit and stress tests"
    stage asan stage_asan
fi
say "stage release: gcc, all tests and lints"
build release release || fail "the release build failed"
exec ctest --test-dir "$root/build/test-release" --parallel "$jobs" --output-on-failure \
    --no-tests=error "$@"
