# make run: set up and fly the lab.  make test: set up and check everything.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# more workers than a small machine has cores: most tests wait for faults
WORKERS ?= 6
# a compiled module is kept, else every worker and every process of every lab compiles it anew
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup run test test-fast pytest pytest-fast lint bench docs site conformance frameworks ray findings dist release-check lock clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

setup: $(VENV)/.ready  ## prepare .venv from the locked versions

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Wirefault needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@# the lock names all there is: a resolver would ask for the newest package[extra] beside it, which has no hash
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements-dev.lock
	@# pip compiles one file after another, and packages' tests too; what is not compiled is when it is imported
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: setup       ## the lab on its defaults: no key, no Docker
	@$(BIN)/wirefault demo $(ARGS)

lint: setup      ## ruff, mypy, import-linter, vulture
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo
	@$(BIN)/vulture

test: setup      ## everything that is checked, the linters beside the tests
	@$(MAKE) --no-print-directory -j2 pytest lint

test-fast: setup  ## the linters and the quick tests: about a minute
	@$(MAKE) --no-print-directory -j2 pytest-fast lint

pytest: setup
	@$(PYTEST) -n $(WORKERS) $(ARGS)

pytest-fast: setup
	@$(PYTEST) -n 4 -m "not slow" --hypothesis-profile=fast $(ARGS)

bench: setup     ## figures, as ratios measured side by side
	@$(BIN)/python -m bench

docs: setup      ## renew the generated pages
	@$(BIN)/python -m tools.reference

site: setup      ## the docs as a site, in site/
	@$(BIN)/zensical build --strict

conformance: setup  ## the embedded Toxiproxy held to the real one, and docs/conformance.md
	@$(BIN)/python -m pytest tests/conformance --write-conformance $(ARGS)

frameworks: setup  ## thirteen agents of frameworks under every preset; their environments, once, in .frameworks
	@WIREFAULT_REQUIRE=frameworks,every-preset $(PYTEST) -n 2 tests/frameworks $(ARGS)

ray: setup       ## experiments on a Ray cluster of two nodes; Ray, once, in .frameworks/ray
	@test -d .frameworks/ray || $(BIN)/python -m pip install --quiet --target .frameworks/ray "ray>=2.40,<3"
	@WIREFAULT_REQUIRE=ray $(BIN)/python -m pytest tests/ray $(ARGS)

findings: setup  ## the same agents under one fault each, and docs/findings.md; half an hour
	@$(BIN)/python -m bench.findings $(ARGS)

dist: setup      ## the source distribution, and the wheel made from that
	@rm -rf dist
	@$(BIN)/python -m tools.build dist
	@ls dist/*

release-check: dist  ## what dist holds: its metadata, its contents, installed anew and flown
	@WIREFAULT_DIST=dist WIREFAULT_REQUIRE=wheel,index $(BIN)/python -m pytest tests/package $(ARGS)

lock:            ## renew the lock files (needs uv); what is tested is what is locked to be run
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 --extra build --extra lab --extra dev pyproject.toml -o requirements-dev.lock
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 --extra build --extra lab -c requirements-dev.lock pyproject.toml -o requirements.lock

clean:           ## remove what setup and the tools made; logs and state stay
	rm -rf $(VENV) .frameworks build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
