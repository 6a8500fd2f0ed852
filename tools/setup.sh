# shellcheck shell=sh disable=SC2154,SC2034
# Sourced by run.sh and test.sh, which set `me` and `root`: Debian packages, and steps with a log.

# To standard error, so that what hedge-sim prints can be piped.
say() { echo "$me: $*" >&2; }

fail() {
    echo "$me: $*" >&2
    exit 1
}

# Of the packages given, those that are not installed.
missing_packages() {
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            printf '%s ' "$package"
    done
}

# Installs what is missing of the packages that follow; $1 "no": says what is missing and stops there.
need_packages() {
    install=$1
    shift
    if ! command -v dpkg-query >/dev/null; then
        say "this is no Debian: it is up to you that there are (under Debian's names) $*"
        return 0
    fi
    missing=$(missing_packages "$@")
    if [ -z "$missing" ]; then
        say "all Debian packages that are needed are there ($*)"
        return 0
    fi
    say "these Debian packages are missing: $missing"
    apt="apt-get install --yes --no-install-recommends $missing"
    [ "$install" = yes ] || fail "not installed (--no-install); as root: $apt"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "only root can install them: $apt"
        as_root="sudo"
    fi
    say "installing them with apt-get"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update --quiet >/dev/null ||
        fail "apt-get update failed"
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive $apt >/dev/null ||
        fail "apt-get could not install them"
}

# Runs a command with its output in a log; shows the end of the log when it fails. $1 the log.
quietly() {
    log=$1
    shift
    mkdir -p "${log%/*}"
    "$@" >"$log" 2>&1 && return 0
    status=$?
    tail -n 60 "$log" >&2
    echo "$me: failed: $* (the whole output: $log)" >&2
    return $status
}

jobs=$(nproc 2>/dev/null || echo 2)
