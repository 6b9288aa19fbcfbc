#!/bin/sh
# Write the lock files anew: every version and hash that `make setup` may install.
# They name no registry, so they install from whichever one a machine is set up for.
# Arguments go to uv, e.g. `tools/lock.sh --upgrade` or `--upgrade-package ruff`.
set -eu
cd "$(dirname "$0")/.."

lock() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header "$@" >/dev/null
}

lock --output-file requirements-uv.lock --group lock "$@"
lock --output-file requirements.lock --extra testing --extra aws --extra grpc --extra s3 --group dev pyproject.toml "$@"
lock --output-file requirements-mutants.lock --group mutants --constraints requirements.lock "$@"
