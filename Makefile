# Everything a developer may do. `make help` explains; each target sets up what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
unexport PYTHONDONTWRITEBYTECODE  # else every worker compiles every module anew, and a third of `make test` is that
BIN := .venv/bin
READY := .venv/.ready
CHECKS := ruff,format,--check,--output-format=concise ruff,check,--output-format=concise mypy \
	lint-imports,--no-logo python,tools/gen.py,--check

# Tests wait in real time for a quarter of their seconds, those on a real Kubernetes for more than half: one worker more than cores.
WORKERS ?= $(shell $(BIN)/python -c 'import os; print(os.cpu_count() + 1)')
SIMULATED := $(addprefix tests/sim/test_sim_,whole_clusters.py control_planes.py clusters.py toys.py apps.py)
MUTATED := tests/sim/test_sim_mutations.py

.PHONY: help setup demo test check gen bench kube sim mutations mutants test-kube test-versions node-image test-vm test-integration lock clean

help:  ## what you are reading
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## .venv with everything in it (Python 3.11 and a package registry suffice)
	@echo "ready: .venv"

$(READY): requirements.lock requirements-uv.lock pyproject.toml tools/setup.sh
	@tools/setup.sh
	@touch $@

demo: $(READY)  ## the life of a few machines, live on this terminal in under a minute (ARGS=clusters: of a cluster)
	@$(BIN)/kubewright demo $(ARGS)

test: $(READY)  ## every test that needs no real Kubernetes, on all cores (WORKERS=2: so many at a time; ARGS=-n0: for a debugger)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(if $(LATER),$(addprefix --ignore=,$(SIMULATED) $(MUTATED))) $(ARGS)

check: $(READY)  ## format, lint, types, floors, generated files: all but the tests
	@status=0; for each in $(CHECKS); do $(BIN)/$${each//,/ } || { echo "check: $${each//,/ } failed"; status=1; }; done; exit $$status

gen: $(READY)  ## write the generated files anew (CRDs, reference pages)
	@$(BIN)/python tools/gen.py

bench: $(READY) kube  ## requests, seconds and memory per machine and cluster, ours beside the Go programs
	@$(BIN)/python -m bench $(ARGS)

kube: $(READY)  ## a real Kubernetes and Cluster API, to compare ours with, built into the cache (RELEASE=1.35: an earlier one)
	@$(BIN)/python tools/kube/install.py $(RELEASE)

node-image: $(READY)  ## a disk from which VMs of driver qemu become nodes, from Debian's packages and Go modules, into the cache
	@$(BIN)/python tools/node_image/build.py

sim: $(READY)  ## simulated faults, on all cores: crash points of every story, and SEEDS=300 random schedules
	@SIM=more $(BIN)/python -m pytest -q -n logical $(SIMULATED)
	@$(BIN)/python -m simulation --crashes --seeds $(or $(SEEDS),300) $(ARGS)

mutations: $(READY)  ## bugs made on purpose: the simulator must catch each of them within 200 seeds
	@SIM=all $(BIN)/python -m pytest -q -n logical $(MUTATED) $(ARGS)

mutants: $(BIN)/mutmut  ## small bugs, one by one: do the unit tests notice? (ARGS=rollout: in one room; minutes each)
	@nice -n 19 $(BIN)/python tools/mutants/run.py $(ARGS)

$(BIN)/mutmut: $(READY) requirements-mutants.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-mutants.lock
	@touch $@

test-kube: $(READY) kube  ## the tests that run against a real kube-apiserver, each worker with its own (ARGS=-n0: one)
	@$(BIN)/python -m pytest -m kube -n $(WORKERS) --dist worksteal $(ARGS)

test-versions: $(READY) kube  ## upgrades between two releases of Kubernetes; builds the earlier one first, which takes a while
	@$(BIN)/python tools/kube/install.py 1.35
	@KUBEWRIGHT_VERSIONS=1 $(BIN)/python -m pytest -m kube tests/conformance/test_version_upgrades.py $(ARGS)

test-vm: $(READY) kube node-image  ## VMs of QEMU that become nodes: five whole lives, 45 minutes without KVM (ARGS='-k machines': one)
	@$(BIN)/python -m pytest -m vm -n0 tests/vm $(ARGS)

test-integration: $(READY)  ## MCM's integration test on two clusters of yours, by its variables (docs/how-to/test-a-driver-against-clusters.md)
	@$(BIN)/kubewright driver test $(ARGS)

lock: $(READY)  ## resolve the dependencies anew (ARGS=--upgrade for the newest)
	@tools/lock.sh $(ARGS)

clean:  ## remove .venv and every cache of this checkout (not the one of `make kube`)
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants build dist
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
