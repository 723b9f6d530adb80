# SPDX-License-Identifier: Apache-2.0
# The commands of this project; `make help` lists them. They need make, a shell and a Python >= 3.12 somewhere.
.DEFAULT_GOAL := help
.PHONY: help install demo dev test test-all lint format bench nightly docs clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
export DAGSTER_DISABLE_TELEMETRY := 1
export HARBOR_TELEMETRY := 0
export LITELLM_LOCAL_MODEL_COST_MAP := True

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## set up everything in .venv

$(STAMP): pyproject.toml constraints.txt
	@python=$$(tools/find-python) || exit 1; \
	echo "Setting up $(VENV) with $$($$python --version); the first time takes a few minutes."; \
	if [ -x $(BIN)/python ] && ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then rm -rf $(VENV); fi; \
	[ -x $(BIN)/python ] || $$python -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(STAMP) ## run the bundled experiment through Dagster to a report
	@$(BIN)/python -m metric_benchmark_dagster.demo

dev: $(STAMP) ## serve the Dagster UI
	@$(BIN)/python -m metric_benchmark_dagster.dev

test: $(STAMP) ## run the tests, with real Harbor trials in the local sandbox
	@$(PYTEST) -m "not docker and not browser and not live and not slow"

test-all: $(STAMP) ## run all tests, also those that need Docker, a browser or a running Dagster
	@$(PYTEST)

lint: $(STAMP) ## check style, types and who imports whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/pyright

format: $(STAMP) ## put the code into its standard layout
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP) ## run the benchmarks that take minutes
	@$(BIN)/python benchmarks/harbor_overhead/run.py
	@$(BIN)/python benchmarks/inference/run.py
	@$(BIN)/python benchmarks/evidence/run.py
	@$(BIN)/python benchmarks/platform/run.py

docs: $(STAMP) ## build the documentation site into build/site, without network
	@$(BIN)/python -m tools.docs_pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

nightly: $(STAMP) ## run what takes hours: the examples whole, an agent under another Python, 300 kills, 1 000 flipped bytes, calibration of the statistics
	@$(PYTEST) -m nightly
	@$(BIN)/python benchmarks/faults/run.py
	@$(BIN)/python benchmarks/evidence/flips.py
	@$(BIN)/python benchmarks/calibration/run.py

clean: ## remove what these commands made
	rm -rf $(VENV) runs screenshots
