#!/bin/sh
# Make .venv with everything in it, from the lock files, hashes checked. `make setup` calls this.
#
# Needs: Python 3.11 or newer with venv, and the package registry this machine is set up for.
# Safe to repeat and to interrupt: the Makefile's stamp is written only after the last step.
set -eu
cd "$(dirname "$0")/.."
venv=.venv

usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3 python3.14 python3.13 python3.12 python; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.11 or newer found on PATH; install one, or say PYTHON=/path/to/python3.11" >&2
    exit 1
}

# Four steps; each says what it does and, on a terminal, counts its seconds, so that a slow registry
# does not look like a hang. What a step writes is kept back, and shown if it fails.
number=0
ticker=
said=$(mktemp)
trap 'stop_ticking; rm -f "$said"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

stop_ticking() {
    [ -n "$ticker" ] || return 0
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    ticker=
}

tick() {
    seconds=0
    while sleep 1; do
        seconds=$((seconds + 1))
        printf '\r%s ... %s s' "$1" "$seconds"
    done
}

step() {
    number=$((number + 1))
    title="setup: $number/4 $1"
    shift
    if [ ! -t 1 ]; then
        echo "$title"
    else
        printf '%s ...' "$title"
        tick "$title" &
        ticker=$!
    fi
    status=0
    "$@" >"$said" 2>&1 || status=$?
    stop_ticking
    [ ! -t 1 ] || echo
    [ $status -eq 0 ] || return $status
}

require() {
    step "$@" && return
    cat "$said" >&2
    echo "setup: this step failed; correct what is said above, then say \`make setup\` again" >&2
    exit 1
}

install() { $venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"; }

itself() {
    install --no-deps --no-build-isolation --editable . || return
    # Where PYTHONDONTWRITEBYTECODE is set, each start would compile all modules anew: half a second of CPU.
    $venv/bin/python -m compileall -q src
}

make_venv() {
    python=$(find_python)
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        echo "setup: $python has no venv module; on Debian and Ubuntu it is the package python3-venv" >&2
        exit 1
    fi
    require "making $venv with $("$python" --version)" "$python" -m venv --clear "$venv"
}

if usable $venv/bin/python && $venv/bin/python -c 'import pip' 2>/dev/null; then
    require "$venv is there, with $($venv/bin/python --version)" true
else
    make_venv
fi
require "installing uv, which installs the others" install --require-hashes -r requirements-uv.lock

# uv is some five times faster, but reads no pip configuration: where it finds no registry, pip does.
packages="$(grep -c '^[a-z].*==' requirements.lock) packages"
if ! step "installing $packages" \
    $venv/bin/uv pip install --compile-bytecode --require-hashes -r requirements.lock; then
    number=$((number - 1))
    require "uv could not; installing $packages with pip, which takes a minute" \
        install --require-hashes -r requirements.lock
fi
require "installing kubewright itself" itself
