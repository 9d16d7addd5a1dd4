# The verbs of the house. `make` alone lists them; each works from a bare clone.

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-rest test-all test-system test-ray check bench campaign simulate docs reference screenshots setup pins sbom clean

BIN := .venv/bin

# The tests start some hundred Python processes. The bytecode is shared by all of them, outside of
# the tree, also where PYTHONDONTWRITEBYTECODE is set.
BYTECODE := $(CURDIR)/.venv/bytecode
quick test test-rest $(BYTECODE): export PYTHONDONTWRITEBYTECODE :=
quick test test-rest $(BYTECODE): export PYTHONPYCACHEPREFIX := $(BYTECODE)

PYTEST = $(BIN)/python -m pytest --dist worksteal $(if $(PG),--pg=$(PG))

# A stamp is as old as the installation it stands for. The version is read from version.py, so
# the installed metadata goes stale with it too.
INSTALLED_FROM := pyproject.toml constraints.txt scripts/setup src/duly/version.py

# uv trusts the certificates of the system, where it has some: they may know a proxy.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS := true
endif

help: ## List these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/installed-base ## See it work, with its dashboard, until Ctrl-C (ARGS=--once: for half a minute)
	@sh scripts/demo $(ARGS)

quick: .venv/installed-dev ## Run the tests that need no server and no browser (ARGS="-k cron")
	$(PYTEST) -n auto --tier=quick $(ARGS)

test: ## Check, then test every promise once (ARGS="-k cron", PG=16, PG=all)
	@$(MAKE) --no-print-directory -j2 check $(BYTECODE)
	$(PYTEST) -n 5 --tier=test $(ARGS)  # more than two cores: many tests wait for real time

test-rest: .venv/installed-dev ## Run the tests that make test leaves out (ARGS=, PG=)
	$(PYTEST) -n 5 --tier=rest $(ARGS)

test-all: check ## Check, then run every test on each CPython that is found (ARGS=, PG=)
	sh scripts/test-elsewhere all $(if $(PG),--pg=$(PG)) $(ARGS)

test-system: .venv/installed-dev ## Tests that depend on Python and the user, with the system's Python and an ordinary user
	sh scripts/test-elsewhere system

test-ray: .venv/installed-dev ## Run the tests of the engine Ray, which is installed into .venv/ray (300 MB)
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv/ray
	$(BIN)/uv pip install --quiet --python .venv/ray/bin/python 'ray[default]>=2.40'
	PATH="$(CURDIR)/.venv/ray/bin:$$PATH" $(BIN)/python -m pytest tests/engines/test_ray.py $(ARGS)

check: .venv/installed-dev ## Format, lint, types and the direction of imports
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/installed-dev ## Compare it with its peers (ARGS="--page", ARGS=growth, ARGS=delayed)
	$(BIN)/python -m benchmarks $(ARGS)

campaign: .venv/installed-dev ## Kill nodes, stop them, crash their database: every story (ARGS="kills --seconds 600")
	$(BIN)/python -m tests.acceptance.campaign $(ARGS)

simulate: .venv/installed-dev ## Play stories of a simulated world (SEEDS=1000, ARGS="--seed 7")
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),100) $(ARGS)

docs: .venv/installed-dev ## Build the documentation site, to be read without a network
	$(BIN)/sphinx-build -q -W -E --keep-going -j auto -c docs . dist/docs
	@echo "open file://$(CURDIR)/dist/docs/index.html"

reference: .venv/installed-dev ## Write the pages of the reference that the code knows
	$(BIN)/python scripts/reference.py

screenshots: .venv/installed-dev ## Take the pictures in docs/images, of the demo at work
	PYTHONPATH=. $(BIN)/python scripts/screenshots.py

setup: ## Install everything the other verbs need into .venv
	@rm -f .venv/installed-base .venv/installed-dev
	@$(MAKE) --no-print-directory .venv/installed-dev

pins: .venv/installed-dev ## Pin new dependencies in constraints.txt (ARGS=--upgrade raises all)
	$(BIN)/uv pip compile --quiet pyproject.toml --group dev --extra all \
	    --python-version 3.11 --strip-extras --no-annotate --no-emit-index-url \
	    --custom-compile-command 'make pins' --output-file constraints.txt $(ARGS)

sbom: .venv/installed-dev ## Write what a plain install consists of into dist/sbom.cdx.json (CycloneDX; EXTRAS=postgres)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python dist/sbom
	$(BIN)/uv pip install --quiet --python dist/sbom/bin/python --constraint constraints.txt .$(EXTRAS:%=[%])
	$(BIN)/uv tool run --quiet --from 'cyclonedx-bom>=7,<8' cyclonedx-py environment dist/sbom/bin/python \
	    --output-reproducible --output-file dist/sbom.cdx.json

clean: ## Remove everything that was made here, .venv included
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .ruff_cache dist test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Rewriting the assertions of every test takes a processor 15 s; without this each process does it.
$(BYTECODE): | .venv/installed-dev
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null

.venv/installed-base: $(INSTALLED_FROM)
	@sh scripts/setup base

.venv/installed-dev: $(INSTALLED_FROM)
	@sh scripts/setup dev
