# Every target makes what it lacks: the first one you run also makes the environment.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 4
RUNS ?= 1
READY := .venv/.from-requirements-dev
FITTING := .venv-predictors
READY_TO_FIT := $(FITTING)/.from-requirements-predictors
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help setup lint format test predictors e2e e2e-chaos demo cluster-up cluster-down crds bench lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## the Python environment in .venv, from hash-pinned locks
	@echo "ready: .venv/bin/weft -h, or what \`make help\` lists"

lint: $(READY) ## rules, format, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## lay out the code and repair what can be repaired without a thought
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: lint ## lint, then unit, property, golden, protocol and API-server tests (the first run builds binaries with Go)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

predictors: $(READY_TO_FIT) ## Dynamo's predictors with the libraries that fit them, in an environment of their own: .venv-predictors
	$(FITTING)/bin/python -m pytest tests/twin/policies bench/test_predictors.py

e2e: $(READY) ## a real kubelet with real vLLM pods on the CPU and real NIXL (Linux, root, containerd)
	$(BIN)/python -m pytest e2e --ignore=e2e/test_chaos.py --durations 12

e2e-chaos: $(READY) ## there, a pair that is changed and killed under load, RUNS=3 times; figures go to build/
	@for run in $$(seq $(RUNS)); do \
		$(BIN)/python -m pytest e2e/test_chaos.py && cp build/chaos.json build/chaos-$$run.json || exit 1; \
	done

demo: $(READY) ## the main job on an embedded control plane with simulated GPU nodes; leaves a report in build/
	$(BIN)/python -m e2e.demo

cluster-up: $(READY) ## a cluster to try things on, with simulated GPU nodes
	$(BIN)/python -m e2e.cluster up

cluster-down: $(READY) ## stop that cluster
	$(BIN)/python -m e2e.cluster down

crds: $(READY) ## write the CRDs, for manifests and for the chart, from the pydantic models
	$(BIN)/weft crds crds
	$(BIN)/weft crds charts/weft/files/crds

bench: $(READY) ## measure what has a floor: decide and the demo (`python -m bench test ci` times those)
	$(BIN)/python -m bench

lock: $(READY) ## resolve requirements/*.txt again; UPGRADE=--upgrade takes newer releases
	$(COMPILE) $(UPGRADE) pyproject.toml --output-file requirements/runtime.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra dev --extra plot --constraints requirements/runtime.txt \
		--output-file requirements/dev.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra dev --extra plot --extra predictors --constraints requirements/dev.txt \
		--output-file requirements/predictors.txt

clean: ## remove the environment, the caches and what runs have left in this folder
	rm -rf .venv $(FITTING) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Weft needs Python 3.11 or later (make PYTHON=...)")'
	@echo "1 of 3: an empty Python environment in .venv"
	@$(PYTHON) -m venv .venv
	@echo "2 of 3: $$(grep -c '==' $<) packages of $< into it, downloaded where they are not cached: about a minute"
	@$(PIP) --require-hashes --requirement $<
	@echo "3 of 3: Weft itself, from this folder"
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(READY_TO_FIT): requirements/predictors.txt
	@echo "$$(grep -c '==' $<) packages of $< into $(FITTING), downloaded where they are not cached: some minutes"
	@$(PYTHON) -m venv $(FITTING)
	@$(FITTING)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@$(FITTING)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
