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

make_venv() {
    python=$(find_python)
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        echo "setup: $python has no venv module; on Debian and Ubuntu it is the package python3-venv" >&2
        exit 1
    fi
    echo "setup: $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
}

# uv is some five times faster, but reads no pip configuration: where it finds no registry, pip does.
install_locked() {
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
    if ! $venv/bin/uv pip install --quiet --compile-bytecode --require-hashes -r requirements.lock; then
        echo "setup: uv could not install; trying pip"
        $venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    fi
}

usable $venv/bin/python && $venv/bin/python -c 'import pip' 2>/dev/null || make_venv
install_locked
$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
