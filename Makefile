# Everything a person runs here. `make` alone lists it; ARGS are passed on: make demo ARGS="--once --port 8001"
#
# Needs Python 3.11 to 3.14, make and git, and no compiler. The first run creates .venv and installs one of the locks, later
# runs install nothing.

VENV := .venv
PY := $(VENV)/bin/python
DATA := .data
# The distributions of this checkout beside the product.
DISTRIBUTIONS := clients/python owner workshop
CACHES := .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# What has no URL in the environment (DATABASE_URL, REDIS_URL, ...) is started on this machine.
EMBEDDED ?= true
export EMBEDDED

.DEFAULT_GOAL := help
.PHONY: help demo test coverage hard hard-tests test-citus wheels fresh-machine fuzz bench crashtest overspend image-drill bench-settle bench-sign bench-webhooks contract-breaks screenshots drawing tables sbom check lint format types layers deps django lock clean distclean always

help: ## List what can be run
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

BEGAN_AT := $(shell date +%s)
demo: $(VENV)/.installed-embedded ## Start everything on this machine and watch agents pay
	@DEMO_BEGAN_AT=$(BEGAN_AT) exec $(PY) manage.py demo $(ARGS)

# One session of several processes, each with servers of its own (tests/support/scheduling.py): WORKERS of them keep the
# processors busy, WAITING more begin with what mostly waits. SHUFFLE=true: in any order, with a seed that is shown. Without
# ARGS, what `make hard` runs is left out.
WORKERS ?= 2
WAITING ?= 1
PARALLEL = --dist loadfile --no-loadscope-reorder --durations 50 --numprocesses $$(($(WORKERS) + $(WAITING))) --waiting $(WAITING) \
	$(if $(SHUFFLE),-p tests.support.any_order)
# Tests start hundreds of processes: without a cache each compiles everything anew.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest
test: $(VENV)/.installed-dev ## Run the tests (SHUFFLE=true: in any order; with ARGS, pytest's, in one process: ARGS="-k webhook")
	@exec $(PYTEST) $(if $(ARGS),$(ARGS),$(PARALLEL) -m "not hard")

# To measure what tests reach makes them half as slow again, so this is not a part of `make test`.
coverage: $(VENV)/.installed-dev ## Check that the tests that leave nothing behind reach what decides, settles and remembers
	@exec $(PYTEST) --dist loadfile --numprocesses $(WORKERS) -m "rolled_back and not hard" --cov --cov-report term-missing:skip-covered

hard: $(VENV)/.installed-dev ## Check what a release needs beyond `make test`, and say in the end what failed: takes an hour, and npm
	@exec $(PY) -m tests.hard

hard-tests: $(VENV)/.installed-dev ## Run the tests that `make test` leaves out
	@exec $(PYTEST) $(PARALLEL) -m hard

test-citus: $(VENV)/.installed-dev ## Run the tests of a distributed database (CITUS=FOLDER, with cluster.py and install.sh, as root)
	@exec $(PY) -m tests.distributed $(ARGS)

wheels: $(VENV)/.installed-dev ## Ask whether each locked package has a wheel for every Python and platform
	@exec $(PY) -m tests.wheels $(ARGS)

fresh-machine: ## Run the two commands of the README on Debian 13 and unstable, without a compiler (as root, with Debian's debootstrap)
	@exec python3 tests/deployment/fresh_machine.py $(ARGS)

# `make test` does this for a minute, always from the same seed.
fuzz: $(VENV)/.installed-dev ## Send random requests to the API, valid and invalid by its document (ARGS="--seed 7 --minutes 3")
	@exec $(PY) -m tests.fuzz $(ARGS)

bench: $(VENV)/.installed-dev ## Measure everything that is promised about speed, side by side (ARGS="--only hot --json FILE")
	@exec $(PY) -m tests.benchmarks $(ARGS)

bench-settle: $(VENV)/.installed-dev ## Measure settlement
	@exec $(PY) -m tests.benchmarks.settlement $(ARGS)

bench-sign: $(VENV)/.installed-dev ## Measure signing, on Solana beside the EVM
	@exec $(PY) -m tests.benchmarks.signing $(ARGS)

bench-webhooks: $(VENV)/.installed-dev ## Measure deliveries to payees, some of which never answer
	@exec $(PY) -m tests.benchmarks.webhooks $(ARGS)

crashtest: $(VENV)/.installed-dev ## Kill processes at random while agents pay, then check the books (ARGS="--seed 7 --minutes 3")
	@exec $(PY) -m tests.crash $(ARGS)

overspend: $(VENV)/.installed-dev ## Try to overspend on real processes while other things fail, then check the totals (ARGS="--scenario parallel")
	@exec $(PY) -m tests.overspend $(ARGS)

image-drill: $(VENV)/.installed-dev ## Build the image, and run each service of compose.yaml from it (as root, with Debian's buildah and podman)
	@exec env -u EMBEDDED $(PY) -m tests.deployment.drill

contract-breaks: $(VENV)/.installed-dev ## Break each line of the escrow contract and check that a test fails (needs Node.js)
	@exec $(PY) -m tests.chains.contracts.breaks $(ARGS)

screenshots: $(VENV)/.installed-dev ## Take the documents' pictures of the console, of a demo of its own (ARGS="home agents")
	@exec $(PY) -m tests.screenshots $(ARGS)

drawing: $(VENV)/.installed-dev ## Draw the rooms of the code into docs/architecture.md
	@exec $(PY) -m tests.documents.drawing

tables: $(VENV)/.installed-dev ## Write the tables of docs/operate/settings.md from the table of settings
	@exec $(PY) -m tests.documents.settings_tables

check: lint types layers deps django ## Check style, types, layers, dependencies, migrations and deployment settings

lint: $(VENV)/.installed-dev ## Check style and layout
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(VENV)/.installed-dev ## Correct style and layout where a tool can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(VENV)/.installed-dev ## Check types
	$(PY) -m mypy

LINT_IMPORTS = $(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo
layers: $(VENV)/.installed-dev ## Check which module imports which
	$(LINT_IMPORTS)
	$(foreach one,$(DISTRIBUTIONS),$(LINT_IMPORTS) --config $(one)/pyproject.toml &&) true

deps: $(VENV)/.installed-dev ## Check that what is imported is declared, and what is declared is used
	$(PY) -m deptry .
	$(foreach one,$(DISTRIBUTIONS),(cd $(one) && $(abspath $(PY)) -m deptry .) &&) true

# This needs no database: it compares migrations with models, and checks the settings of a server behind a TLS proxy.
django: $(VENV)/.installed-dev ## Check that migrations are complete and settings fit for deployment
	$(PY) -W "ignore:Got an error checking a consistent migration history" manage.py makemigrations --check --dry-run
	HTTPS=true $(PY) manage.py check --deploy --fail-level WARNING

# Each lock keeps to the pins of the smaller one. Existing pins stay: `make lock ARGS=--upgrade` renews them.
# The last is of what a benchmark measures itself against, in an environment of its own.
COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" $(PY) -m uv pip compile --quiet --no-config \
	--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links $(ARGS)
FACILITATOR := tests/benchmarks/facilitator/requirements

lock: $(VENV)/.installed-dev ## Resolve pyproject.toml into the four requirements files, and what a benchmark runs
	$(COMPILE) pyproject.toml --output-file requirements.txt
	$(COMPILE) pyproject.toml --output-file requirements-telemetry.txt --constraint requirements.txt --extra telemetry
	$(COMPILE) pyproject.toml workshop/pyproject.toml --output-file requirements-embedded.txt --constraint requirements.txt
	$(COMPILE) pyproject.toml workshop/pyproject.toml --output-file requirements-dev.txt --constraint requirements-embedded.txt --constraint requirements-telemetry.txt --extra telemetry --extra dev
	$(COMPILE) $(FACILITATOR).in --output-file $(FACILITATOR).txt

# A data folder in use stays. Servers that a crash left behind are stopped first.
clean: ## Remove the local installation's data and all caches
	@if [ -e $(DATA)/lease ] && [ -x $(PY) ]; then EMBEDDED_DIR=$(DATA) $(PY) -c "$$STOP_UNUSED"; fi
	@rm -rf $(DATA) $(CACHES)
	@find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +
	@echo "Removed $(DATA) and the caches. $(VENV) stays (make distclean removes it too)."

# What a server installs, by name, version and hash; who asks "have you got this package?" searches it.
sbom: $(VENV)/.installed-dev ## List what a server installs, in CycloneDX's form, as sbom.cdx.json
	@$(PY) -m cyclonedx_py requirements requirements.txt --pyproject pyproject.toml --mc-type application --output-reproducible --validate -o sbom.cdx.json
	@echo "sbom.cdx.json has $$(grep -c '"purl"' sbom.cdx.json) packages."

define STOP_UNUSED
import sys
from workshop.embedded import stop_unused
if not stop_unused():
    sys.exit("The servers of $(DATA) are in use: stop what runs here first (Ctrl-C in its terminal), then clean again.")
endef
export STOP_UNUSED

distclean: clean ## As clean, and remove the virtual environment
	@rm -rf $(VENV)

# ---- The virtual environment ----
# A stamp says which lock is installed. Without a working interpreter the stamps are ignored.

broken := $(shell test -x $(PY) || echo always)

$(VENV)/.installed-embedded: requirements-embedded.txt $(broken) | $(VENV)/.distributions
	@$(ensure_venv)
	@$(call install,requirements-embedded.txt)
	@touch $@

# The dev lock contains the embedded one with the same pins.
$(VENV)/.installed-dev: requirements-dev.txt $(broken) | $(VENV)/.distributions
	@$(ensure_venv)
	@$(call install,requirements-dev.txt)
	@touch $(VENV)/.installed-embedded $@

# The distributions of this checkout, beside the product itself: what they have can be imported, wherever the checkout is moved,
# for their paths are relative, and the product finds by their entry points what they add to it.
$(VENV)/.distributions: distributions.py $(addsuffix /pyproject.toml,$(DISTRIBUTIONS)) $(broken)
	@$(ensure_venv)
	@$(PY) distributions.py "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" $(DISTRIBUTIONS)
	@touch $@

# The marker outlives an interrupted installation: the next one then installs everything again. uv takes what pip would, by the
# hashes of the same lock, in a third of the time. It does not read pip's settings, such as a mirror: where it fails, pip goes on.
PIP := $(PY) -m pip install --disable-pip-version-check --no-input --no-deps --require-hashes
define install
	echo "Installing $(1) into $(VENV) (once; half a minute) ..."; \
	again=; if [ -e $(VENV)/.installing ]; then again=--force-reinstall; fi; \
	touch $(VENV)/.installing && \
	sed -n '/^uv==/,/[^\\]$$/p' $(1) | $(PIP) --quiet $$again -r /dev/stdin && \
	{ $(PY) -m uv pip install --python $(PY) --system-certs --no-deps --require-hashes $$again -r $(1) || \
	$(PIP) $$again -r $(1); } && \
	rm $(VENV)/.installing
endef

# pyenv's are named because its python3.12 answers only where .python-version says 3.12.
PYTHONS = python3.11 python3.12 python3.13 python3.14 $(wildcard $(HOME)/.pyenv/versions/3.1[1-4].*/bin/python) \
	python3 /usr/bin/python3 python

# These have a wheel of every package (`make wheels` asks). A Python that cannot make a virtual environment is skipped if there is
# another.
define ensure_venv
	if $(PY) -c 'import pip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then exit 0; fi; \
	found= version= incomplete=; \
	for candidate in $(or $(PYTHON),$(PYTHONS)); do \
		version=$$("$$candidate" -c 'import sys; (3, 11) <= sys.version_info[:2] <= (3, 14) and print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
		if [ -z "$$version" ]; then continue; fi; \
		if "$$candidate" -c 'import ensurepip, venv' 2>/dev/null; then found=$$candidate; break; fi; \
		incomplete=$${incomplete:-$$version}; \
	done; \
	if [ -z "$$found" ] && [ -n "$$incomplete" ]; then \
		echo "Python $$incomplete is here, but without the part that makes virtual environments. On Debian and Ubuntu:"; \
		echo "    sudo apt-get install python$$incomplete-venv"; \
		exit 1; \
	fi >&2; \
	if [ -z "$$found" ]; then \
		echo "Allowance needs Python 3.11 to 3.14$(if $(PYTHON), and $(PYTHON) is not). Install one of these, or name one:"; \
		echo "    make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; \
		exit 1; \
	fi >&2; \
	echo "Creating $(VENV) with $$found (Python $$version) ..."; \
	"$$found" -m venv --clear $(VENV)
endef
