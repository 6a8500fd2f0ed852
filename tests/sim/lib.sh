# lib.sh: what the scripts here share that run hedge-sim as a user would. Sourced, with $sim set to the
# program, and $subcommand to the command that expect runs where it is always the same. Leaves the shell
# in a folder of its own, which goes away with it; `bad` is 1 once something was not as it should be.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
fault() {
    echo "$(basename "$0"): $*" >&2
    [ ! -e out ] || sed 's/^/    /' out >&2
    bad=1
}
# expect STATUS ARGUMENT...: runs hedge-sim into out, err; what it prints fits 80 columns
expect() {
    wanted=$1
    shift
    # shellcheck disable=SC2086
    "$sim" ${subcommand-} "$@" >out 2>err
    got=$?
    [ $got = "$wanted" ] || fault "hedge-sim ${subcommand-} $*: status $got, expected $wanted; $(cat err)"
    awk 'gsub(/±/, "+") >= 0 && length > 80 { exit 1 }' out ||
        fault "hedge-sim ${subcommand-} $*: a line is wider than 80 columns"
}
# has FILE PATTERN
has() {
    grep -q -e "$2" "$1" || fault "$1 has no \"$2\": $(cat "$1")"
}
