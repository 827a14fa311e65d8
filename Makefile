# Needs GNU make, a POSIX shell and Python 3.11 or newer; everything else is installed into .venv.
# PYTHON names the interpreter that creates .venv; by default tools/find_python.sh looks for one.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

DEVICE ?= auto
JOBS ?= 2
WHAT ?= all
# Mesa's software driver runs small kernels ten times faster without its thread pool.
LP_NUM_THREADS ?= 0
# Tests run side by side; a BLAS with threads of its own makes each slower.
OPENBLAS_NUM_THREADS ?= 1
# Tests start hundreds of processes; where no bytecode may be written, each compiles every module that it imports.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
SOURCES := frontend dialects passes interpreters checks runtime tools lab web/__init__.py
# What is checked strictly, at the place where tools/check_types.sh puts it; a quarter of the time of all types.
STRICT_TYPES := build/types/tensorgrad/dialects build/types/tensorgrad/passes
CHECKED := $(SOURCES) tests examples benchmarks distribution

# The editable install links file by file, so the stamps' name changes with the list of package files and with
# pyproject.toml; that of the environment itself changes with its place, because a moved one is broken.
KEY := $(shell { cat pyproject.toml; find $(SOURCES) -name '*.py' -o -name '*.pyi' -o -name 'py.typed' -o -name 'page.*' | LC_ALL=C sort; } | cksum | tr ' ' -)
PLACE := $(shell pwd | cksum | tr ' ' -)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=strict
PYTEST = LP_NUM_THREADS=$(LP_NUM_THREADS) OPENBLAS_NUM_THREADS=$(OPENBLAS_NUM_THREADS) $(BIN)/python -m pytest
VENV_READY := $(VENV)/.ready-$(PLACE)
EXAMPLES_READY := $(VENV)/.examples-$(KEY)
TEST_READY := $(VENV)/.test-$(KEY)
TYPES_READY := tests/web/npm/node_modules/.package-lock.json

.PHONY: help install train test check test-mlir test-web lint types lit unit proofs nightly format adapter bench docs web wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

train: $(EXAMPLES_READY) ## Train a digits classifier (DEVICE=auto, cpu, wgpu or numpy)
	$(BIN)/python examples/digits.py --device $(DEVICE)

install: $(TEST_READY) ## Install the package and everything the tests need into .venv

test: lint adapter ## Run every check: lint, types of dialects and passes (beside the tests), lit, unit, proofs
	@mkdir -p build
	@sh tools/check_types.sh $(BIN) $(STRICT_TYPES) >build/types.log 2>&1 & types=$$!; \
	status=0; $(MAKE) --no-print-directory lit unit proofs || status=$$?; \
	wait $$types || status=$$?; \
	cat build/types.log; exit $$status

check: lint lit adapter ## Run the loop of a developer: lint, lit, values and derivatives of every op, a program of each family
	$(PYTEST) -n $(JOBS) -m "check and not nightly" $(PYTEST_ARGS)

lint: $(TEST_READY) ## Check style and formatting with ruff, and the messages of commits
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/python tools/check_commits.py

types: $(TEST_READY) ## Check all types with pyright, as CI does
	@sh tools/check_types.sh $(BIN)

lit: $(TEST_READY) ## Run the IR tests: MLIR in, FileCheck on what comes out
	LP_NUM_THREADS=$(LP_NUM_THREADS) $(BIN)/lit --verbose --workers $(JOBS) $(LIT_ARGS) tests/lit

unit: $(TEST_READY) adapter ## Run pytest, all but what is marked nightly, mlir or web (PYTEST_ARGS='-k name')
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not nightly and not mlir and not web" $(PYTEST_ARGS)

proofs: $(TEST_READY) ## Prove rules of passes and emitted kernels, by z3 and in processes of its own
	$(PYTEST) -n $(JOBS) -m "not nightly" tests/proofs $(PYTEST_ARGS)

test-mlir: $(TEST_READY) ## Run the whole op table by upstream MLIR, from what buf-to-upstream leaves of it
	@sh tools/ensure_mlir.sh
	$(PYTEST) -n $(JOBS) -m mlir $(PYTEST_ARGS)

web: $(TEST_READY) ## Build the runtime for browsers, web/dist/tensorgrad.js
	@$(BIN)/python distribution/browser_module.py

wheel: web ## Build the package in dist/
	@rm -rf build/lib  # what setuptools left there would be packaged too
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

$(TYPES_READY): tests/web/npm/package-lock.json $(TEST_READY)
	@$(BIN)/python distribution/browser_module.py ci --ignore-scripts --prefix ../tests/web/npm
	@touch $@

test-web: $(TEST_READY) $(TYPES_READY) web adapter ## Check the runtime for browsers, and try pages in headless Chromium
	@$(BIN)/python distribution/browser_module.py run check
	@sh tools/ensure_browser.sh
	$(PYTEST) -m "web and not nightly" $(PYTEST_ARGS)

nightly: $(TEST_READY) $(TYPES_READY) web adapter ## Run what is too slow for every change, with many more random examples (SLICE=2/4: a quarter)
	@sh tools/ensure_browser.sh
	$(INSTALL) --editable '.[test,models]'
	$(PYTEST) -n $(JOBS) -m nightly --hypothesis-profile=nightly $(if $(SLICE),--slice $(SLICE)) $(PYTEST_ARGS)
	$(PYTEST) -n $(JOBS) -m nightly tests/proofs $(if $(SLICE),--slice $(SLICE))

bench: $(VENV_READY) adapter ## Time training steps and kernels beside other libraries (WHAT=all, mlp, gpt, kernels, ...)
	$(INSTALL) --editable '.[bench]'
	$(BIN)/python -m benchmarks $(WHAT)

format: $(TEST_READY) ## Rewrite the code in ruff's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

adapter: $(TEST_READY) ## Make sure that there is a GPU or software adapter
	@sh tools/ensure_adapter.sh $(BIN)/python

docs: $(TEST_READY) web ## Build the documentation's site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean: ## Remove .venv and everything built
	rm -rf $(VENV) build dist out web/dist web/node_modules tests/web/npm/node_modules *.egg-info .pytest_cache .ruff_cache .hypothesis
	find $(wildcard $(CHECKED)) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV_READY):
	@if grep -qsF "$$(pwd)/$(VENV)/bin/python" $(VENV)/bin/pip && sh tools/find_python.sh $(BIN)/python >/dev/null 2>&1; then \
	    echo "Using the $(VENV) that is there"; \
	else \
	    python=$$(sh tools/find_python.sh $(PYTHON)) && echo "Creating $(VENV) with $$python" && \
	    "$$python" -m venv --clear $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=23'
	@touch '$@'

$(EXAMPLES_READY): $(VENV_READY)
	$(INSTALL) --editable '.[examples]'
	@rm -f $(VENV)/.examples-* && touch '$@'

$(TEST_READY): $(VENV_READY)
	$(INSTALL) --editable '.[test]'
	@rm -f $(VENV)/.examples-* $(VENV)/.test-* && touch '$@' '$(EXAMPLES_READY)'
