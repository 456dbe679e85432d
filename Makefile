# Works on a fresh machine with Python 3.11 or newer and make; no root needed.
.DEFAULT_GOAL := help
.PHONY: help install install-dev run browser firefox deploy-tools helm node edge-tools edge-worker broker pgbouncer stripe-mock test test-all faults fuzz check docs docs-site format release lock bench bench-docs budgets plots clean

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

# One stamp per requirements file; both are locked with hashes.
$(VENV)/.installed: requirements.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

install: $(VENV)/.installed ## Set up .venv with the holdfast command

install-dev: $(VENV)/.installed-dev ## Set up .venv for tests and benchmarks

PORT ?= 8000
run: install ## Run the demo on http://127.0.0.1:8000 (PORT=8001 for another port)
	@exec $(BIN)/holdfast demo --port $(PORT)

# Asks nothing, waits for other package installations (a new machine updates itself), and gives up after 10 minutes.
APT_GET := DEBIAN_FRONTEND=noninteractive timeout 600 apt-get --yes --quiet -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3
INSTALL := $(APT_GET) update && $(APT_GET) install

browser: ## Install Chromium for the browser tests if it is missing (Debian and Ubuntu, as root)
	@test -n "$(BROWSER)" || { $(INSTALL) chromium; } || \
		{ echo "Chromium is missing and could not be installed: apt-get install chromium"; exit 1; }

# Optional: the test that needs it is skipped without it.
firefox: ## Install Firefox for its browser test if it is missing (Debian and Ubuntu, as root)
	@{ command -v firefox-esr || command -v firefox; } >/dev/null || \
		{ $(INSTALL) --no-install-recommends firefox-esr; } || \
		echo "Firefox could not be installed: apt-get install firefox-esr"

edge-tools: ## Install nginx with njs, wrk, ip and nft for the edge tests (Debian and Ubuntu, as root)
	@{ command -v nginx && command -v wrk && command -v ip && command -v nft && \
		ls /usr/lib/nginx/modules/ngx_http_js_module.so; } >/dev/null 2>&1 || \
		{ $(INSTALL) nginx libnginx-mod-http-js wrk iproute2 nftables; } || \
		{ echo "nginx is missing and could not be installed: apt-get install nginx libnginx-mod-http-js wrk iproute2 nftables"; exit 1; }

broker: install-dev ## Install Java and Maven for the Kafka tests if they are missing (Debian and Ubuntu, as root), and fetch Kafka
	@{ command -v java && command -v mvn; } >/dev/null || \
		{ $(INSTALL) default-jre-headless maven; } || \
		{ echo "Java or Maven is missing and could not be installed: apt-get install default-jre-headless maven"; exit 1; }
	@$(BIN)/python -m holdfast.lab.load.kafka_broker || { echo "Kafka could not be fetched by Maven"; exit 1; }

pgbouncer: ## Install PgBouncer for its tests if it is missing (Debian and Ubuntu, as root)
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || \
		{ $(INSTALL) pgbouncer; } || \
		{ echo "PgBouncer is missing and could not be installed: apt-get install pgbouncer"; exit 1; }

node: ## Install Node and npm for the tests of the middleware and the TypeScript client (Debian and Ubuntu, as root)
	@command -v npm >/dev/null || { $(INSTALL) nodejs npm; } || \
		{ echo "Node or npm is missing and could not be installed: apt-get install nodejs npm"; exit 1; }

# Optional: the tests that need it are skipped without it.
stripe-mock: $(BIN)/python ## Install Stripe's mock server for the Stripe tests (needs Go)
	@test -x $(BIN)/stripe-mock || ! command -v go >/dev/null || \
		GOBIN=$(abspath $(BIN)) timeout 300 go install github.com/stripe/stripe-mock@latest || echo "stripe-mock could not be installed"

edge-worker: node ## Install the worker runtime (npm's miniflare) for the tests of edge/worker.js
	@test -d edge/node_modules/miniflare || timeout 300 npm install --prefix edge --no-package-lock --no-audit --no-fund --silent || \
		{ echo "miniflare could not be installed: npm install --prefix edge"; exit 1; }

# Test files are kept in memory if 8 GB are free there, and 4 GB for the tests, so that a slow disk does not slow them down.
IN_MEMORY := $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 8000000 2>/dev/null && \
	awk '$$1 == "MemAvailable:" { exit $$2 < 12000000 }' /proc/meminfo && \
	findmnt --noheadings --output OPTIONS /dev/shm | grep --quiet --invert-match noexec && echo TMPDIR=/dev/shm)
# Test processes mostly wait for servers and timers, so three of them share two processors.
PROCESSES ?= $(shell echo $$((($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) * 3 + 1) / 2)))
# No test takes half as long. One that hangs fails and shows its stack; the others go on.
LONGEST := -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true
PYTEST := $(IN_MEMORY) $(BIN)/pytest --numprocesses $(PROCESSES) --dist worksteal $(LONGEST)
BUDGET ?= fail
test: install-dev browser ## Run the daily tests on every engine (minutes)
	$(PYTEST) -m "not slow" --budget $(BUDGET)

deploy-tools: ## Install what the tests of deploy/ need if it is missing: Prometheus, Caddy (Debian and Ubuntu, as root)
	@{ command -v promtool && command -v caddy; } >/dev/null || \
		{ $(INSTALL) --no-install-recommends prometheus caddy; } || \
		{ echo "Missing, and could not be installed: apt-get install prometheus caddy"; exit 1; }

# Not part of test-all, because building Helm takes minutes.
helm: ## Build helm into build/tools, for the tests of the Helm chart (needs Go)
	@test -x build/tools/helm || { mkdir -p build/tools && GOBIN=$(CURDIR)/build/tools go install helm.sh/helm/v3/cmd/helm@v3.18.6; }

test-all: install-dev deploy-tools browser firefox node edge-tools edge-worker broker pgbouncer stripe-mock ## Run what `make test` leaves out: faults, browser, load tests, benchmarks, more property examples
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile all --seeds 5

SEEDS ?= 5
faults: install-dev broker pgbouncer edge-tools edge-worker ## Inject every family of faults, with SEEDS=5 seeds each
	$(PYTEST) --faults --seeds $(SEEDS) --hypothesis-profile all

# One process, because the last test of each engine checks all requests before it. SEED selects the requests.
REQUESTS ?= 10000
SEED ?= 1
fuzz: install-dev ## Send REQUESTS=10000 malformed and unusual requests to each engine
	HOLDFAST_TEST_FUZZ_REQUESTS=$(REQUESTS) HOLDFAST_TEST_FUZZ_SEED=$(SEED) $(BIN)/pytest -rP \
		--hypothesis-profile fuzz --hypothesis-seed $(SEED) \
		tests/http/test_http_openapi.py::test_the_server_keeps_to_the_document tests/http/test_http_fuzz.py

check: install-dev ## Check lint, formatting, types, layers, and generated docs and clients
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/architecture.py --check
	$(BIN)/python -m holdfast.lab.documents --check

docs: install-dev ## Regenerate the clients, and the tables and figures in README and docs
	$(BIN)/python -m holdfast.lab.documents
	$(BIN)/python tools/architecture.py

docs-site: install-dev ## Build the documentation website of this version in build/site, beside older versions
	$(BIN)/python -m holdfast.lab.site build

format: install-dev ## Auto-fix lint and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev ## Benchmark the gate and the server against their baselines
	$(BIN)/holdfast bench gate --engine sqlite
	$(BIN)/holdfast bench gate --engine postgres
	$(BIN)/holdfast bench http

budgets: install-dev ## Compare the cost of requests, in function calls, with their budgets (part of test-all)
	$(BIN)/holdfast bench budgets

# The docs are regenerated even if a benchmark failed; BENCHMARKS.md names it.
bench-docs: install-dev ## Run every benchmark and regenerate the docs (15 minutes on an idle machine)
	status=0; $(BIN)/holdfast bench all --out docs || status=$$?; $(BIN)/python -m holdfast.lab.documents; exit $$status

plots: install-dev ## Redraw the plots of docs/PACE.md
	$(BIN)/python tests/simulation/draw_pace.py

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group build
lock: ## Upgrade and lock all dependencies (needs uv)
	$(COMPILE) --upgrade --output-file requirements.txt pyproject.toml
	$(COMPILE) --upgrade --constraint requirements.txt --extra bench --group dev --output-file requirements-dev.txt pyproject.toml

release: install-dev ## Make a release: VERSION=1.2.3 (changelog, wheel, sdist, SBOM, commit, tag; publishes nothing)
	$(BIN)/python tools/release.py $(VERSION)

clean: ## Remove build and install artefacts
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
