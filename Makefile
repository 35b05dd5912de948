# make run: set up and run the lab.  make test: set up and check everything.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# more workers than a small machine has cores, since most tests wait for faults
WORKERS ?= 6
# keep compiled modules: otherwise every worker and every process of every lab compiles them again
unexport PYTHONDONTWRITEBYTECODE
# not checked yet: docs
PROSE := '*.py' '*.md'
PYTEST := $(BIN)/python -m pytest

# a killed make takes its recipes along, on Linux
ifeq ($(shell setpriv --pdeathsig KILL echo yes 2>/dev/null),yes)
SHELL := $(shell command -v setpriv)
.SHELLFLAGS := --pdeathsig KILL /bin/sh -c
endif

.PHONY: help setup run test test-fast pytest pytest-fast lint bench docs site conformance frameworks ray evaluators findings tournament dist release-check lock clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

setup: $(VENV)/.ready  ## prepare .venv from the locked versions

# for `make run`; what tests and linters also need is kept if it is there
$(VENV)/.runs: requirements.lock requirements-uv.lock pyproject.toml
	$(call install,install,requirements.lock)
	@touch $@

$(VENV)/.ready: requirements-dev.lock requirements-uv.lock pyproject.toml
	$(call install,sync,requirements-dev.lock)
	@touch $@ $(VENV)/.runs

define install
@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Wirefault needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
@tools/environment.sh $(1) $(PYTHON) $(VENV) $(2)
@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endef

run: $(VENV)/.runs  ## run the lab with its defaults: no key, no Docker
	@$(BIN)/wirefault demo $(ARGS)

lint: setup      ## ruff, mypy, import-linter, vulture, prose
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo
	@$(BIN)/vulture
	@$(BIN)/python tools/prose.py $(PROSE)

test: setup      ## run the linters and the tests that changes reach: all if no full green run is known
	@$(MAKE) --no-print-directory -j2 pytest lint
	@# a line of the recipe, since the output of parallel targets mixes
	@test -n "$${WIREFAULT_REQUIRE+set}" || echo "Passed. CI runs more: the tests that were skipped, and for a tag every case of those that run in part."

test-fast: setup  ## run the linters and the fast tests: about a minute
	@$(MAKE) --no-print-directory -j2 pytest-fast lint

# which files: what changed since the last full green run reaches; EVERYTHING=1 or ARGS name others
pytest: setup | .pytest_cache
	@files="$(ARGS)"; test -n "$$files$(EVERYTHING)" || files=$$($(BIN)/python -m tools.reach) || exit; \
	$(PYTEST) -n $(WORKERS) $$files || exit; \
	test -n "$$files" || $(BIN)/python -m tools.reach --record

# compile the tests once: in a new clone, each worker would do it
.pytest_cache: | setup
	@$(PYTEST) --collect-only -qq >/dev/null && mkdir -p $@

pytest-fast: setup
	@$(PYTEST) -n 4 -m "not slow" --hypothesis-profile=fast $(ARGS)

bench: setup     ## measure all figures
	@$(BIN)/python -m bench

docs: setup      ## generate the generated pages again
	@$(BIN)/python -m tools.reference

site: setup      ## build the docs as a site, in site/
	@$(BIN)/zensical build --strict

conformance: setup  ## compare the embedded Toxiproxy with the real one, and write docs/conformance.md
	@$(BIN)/python -m pytest tests/conformance --write-conformance $(ARGS)

frameworks: setup  ## run thirteen framework agents under every preset; environments are made once in .frameworks
	@WIREFAULT_REQUIRE=frameworks,every-preset $(PYTEST) -n 2 tests/frameworks $(ARGS)

ray: setup       ## run experiments on a Ray cluster of two nodes; Ray is installed once in .frameworks/ray
	@test -d .frameworks/ray || $(BIN)/python -m pip install --quiet --target .frameworks/ray "ray>=2.40,<3"
	@WIREFAULT_REQUIRE=ray $(BIN)/python -m pytest tests/ray $(ARGS)

.frameworks/evaluators: | setup
	@rm -rf $@.part && $(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@.part "pydantic-evals>=2,<3" "deepeval>=4,<5"
	@mv $@.part $@

evaluators: .frameworks/evaluators  ## check evaluators of pydantic-evals and DeepEval; installed once in .frameworks/evaluators
	@WIREFAULT_REQUIRE=evaluators $(PYTEST) tests/experiments/assertions/test_evaluators.py $(ARGS)

findings: setup  ## run the same agents under one fault each, and write docs/findings.md; half an hour
	@$(BIN)/python -m bench.findings $(ARGS)

tournament: setup  ## run mitigations of real clients under faults, and write docs/mitigations.md; half an hour
	@$(BIN)/python -m bench.mitigations $(ARGS)

dist: setup      ## build the source distribution, and the wheel from it
	@rm -rf dist
	@$(BIN)/python -m tools.build dist
	@ls dist/*

release-check: dist  ## check dist: metadata, contents, twine, a new installation and a run
	@WIREFAULT_DIST=dist WIREFAULT_REQUIRE=wheel,index $(BIN)/python -m pytest tests/package $(ARGS)

lock:            ## update the lock files (needs uv); tests and runs use the same versions
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 --extra build --extra lab --extra conversation --extra search --extra otel --extra prometheus --extra dev pyproject.toml -o requirements-dev.lock
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 --extra build --extra lab --extra prometheus -c requirements-dev.lock pyproject.toml -o requirements.lock
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 --extra build --extra lab --extra conversation --extra prometheus -c requirements-dev.lock pyproject.toml -o requirements-recovery.lock
	echo uv | uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 - -o requirements-uv.lock

clean:           ## remove the environments, builds and caches; keep logs and state
	rm -rf $(VENV) .frameworks build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
