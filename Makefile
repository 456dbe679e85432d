# Everything the project does, from a fresh machine: needs Python 3.11 or newer and make, and no root.
.DEFAULT_GOAL := help
.PHONY: help install install-dev run browser test check format lock bench bench-docs plots clean

BROWSER := $(firstword $(shell command -v chromium chromium-browser google-chrome))
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Holdfast needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp per set of packages: locked with hashes, so everyone gets the same bytes.
$(VENV)/.installed: requirements.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

install: $(VENV)/.installed ## Set up .venv with the holdfast command

install-dev: $(VENV)/.installed-dev ## Set up .venv with everything tests and benches need

PORT ?= 8000
run: install ## Show a sale with a crowd on http://127.0.0.1:8000 (PORT=8001 for another port), no services needed
	@exec $(BIN)/holdfast demo --port $(PORT)

browser: ## Install Chromium if there is none (Debian and Ubuntu, as root), for the tests of the pages
	@test -n "$(BROWSER)" || { apt-get update --quiet && apt-get install --yes --quiet chromium; } || \
		{ echo "Chromium is missing and could not be installed: apt-get install chromium"; exit 1; }

test: install-dev browser ## Run every test on every engine
	$(BIN)/pytest --numprocesses auto --dist loadfile

check: install-dev ## Lint, format and types
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy

format: install-dev ## Mend what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev ## Measure the gate and the server beside their baselines
	$(BIN)/holdfast bench gate --engine sqlite
	$(BIN)/holdfast bench gate --engine postgres
	$(BIN)/holdfast bench http

# What a plan is made from is what the docs say: the file is copied even if a part failed, which is named there.
bench-docs: install-dev ## Measure everything, and write docs/BENCHMARKS.md anew (a quarter of an hour, nothing else running)
	status=0; $(BIN)/holdfast bench all --out docs || status=$$?; \
	cp docs/benchmarks/figures.json src/holdfast/plan/measured.json; exit $$status

plots: install-dev ## Draw the plots of the docs again
	$(BIN)/python tests/simulation/draw_pace.py

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group build
lock: ## Choose the newest versions of everything and lock them (needs uv)
	$(COMPILE) --upgrade --output-file requirements.txt pyproject.toml
	$(COMPILE) --upgrade --constraint requirements.txt --extra bench --group dev --output-file requirements-dev.txt pyproject.toml

clean: ## Remove what was built and installed
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
