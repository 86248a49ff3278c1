# Sourced by the scripts beside it: reads their arguments, and finds the tools they need, or installs them.

# has_flag FLAG "$@": whether FLAG was given. Stops the script if it was given anything else.
has_flag() {
    local flag=$1
    shift
    case "$*" in
    "") return 1 ;;
    "$flag") return 0 ;;
    esac
    echo "$0: unknown arguments: $*; use $flag, or no argument" >&2
    exit 2
}

# need_command COMMAND WHAT: stops if there is no COMMAND.
need_command() {
    command -v "$1" >/dev/null && return
    echo "needs $1: install $2" >&2
    exit 1
}

# has COMMAND: also where Debian puts servers, which is not on everybody's path.
has() {
    command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]
}

# need_package COMMAND PACKAGE: installs Debian's PACKAGE if there is no COMMAND and this may.
need_package() {
    if has "$1"; then
        echo "$1: here"
        return
    fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "$1: installing Debian's $2"
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$2" >/dev/null
        has "$1" && return
    fi
    echo "needs $1: install it (on Debian: sudo apt-get install $2)" >&2
    exit 1
}

# need_crate COMMAND CRATE VERSION: installs a tool from the crate registry.
need_crate() {
    if command -v "$1" >/dev/null; then
        echo "$1: here"
        return
    fi
    echo "$1: installing $2 $3"
    cargo install --quiet --locked "$2@$3"
}
