# Everything happens in a virtual environment of the project's own.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# The TypeScript client and its tools.
CLIENT := clients/typescript
TOOLS := $(CLIENT)/node_modules/ready
# In full: commands and scripts that the tests start elsewhere share it. A kernel cached from another checkout or an older file would give
# stale answers: each run of all tests starts afresh, and `check` where a kernel has changed. The markers `kernels` and `long` are in pyproject.toml:
# two workers would compile the same kernels at the same time, so the files that compile most of them run first.
CACHE := $(CURDIR)/.numba_cache
KERNELS := $(shell find src -name '*kernels.py' -o -name _jit.py)
# One thread per process: two workers have two cores. Bytecode is written: both workers, and the processes that they start, read the same files.
TESTS = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CACHE)/$(1) $(BIN)/python -m pytest -n 2
# What is quick to compile and to run, and says most about privacy.
CORE := tests/test_policy.py tests/test_identity.py tests/test_architecture.py tests/privacy tests/mechanisms tests/statistics \
  tests/planners tests/problems

.PHONY: demo check test lint types bench client site release clean

demo: $(READY)
	$(BIN)/confide run ucrl-vtr lock --epsilon 1 --delta 1e-5 --seeds 5 --compare-with no-privacy --compare-with uniform --out demo

check: lint types $(CACHE)/check
	$(call TESTS,check) --dist worksteal -m "not process" $(CORE)

# The tests of one package, with the kernels that the last such run compiled: make test PACKAGE=tables
ifdef PACKAGE
test: $(READY) $(CACHE)/package
	$(call TESTS,package) --dist worksteal tests/$(PACKAGE)
else
test: lint types $(TOOLS)
	rm -rf $(CACHE)/test
	$(call TESTS,test) --dist loadfile -m kernels
	$(call TESTS,test) --dist worksteal --durations 10 -m "not kernels"
endif

$(CACHE)/check $(CACHE)/package: $(KERNELS)
	rm -rf $@
	mkdir -p $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Pages of benchmarks/results, made again: make bench PAGES="counters samplers". Without PAGES all of them, which takes many hours.
bench: $(READY)
	$(BIN)/python benchmarks/rerun.py $(PAGES)

# The TypeScript client and its example page, into clients/typescript/dist.
client: $(TOOLS)
	npm --prefix $(CLIENT) run --silent build
	npm --prefix $(CLIENT) run --silent example

# The documentation, into build/site: python -m http.server --directory build/site shows it.
site: $(READY)
	$(BIN)/zensical build --clean --strict

# The wheel and the sdist, checked, and the wheel tried in an empty environment: the core alone, then with everything.
release:
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/pip install --quiet --disable-pip-version-check build twine
	build/release/bin/python -m build --outdir dist .
	build/release/bin/twine check --strict dist/*
	$(PYTHON) benchmarks/installation.py dist/*.whl

clean:
	rm -rf .venv .numba_cache demo build src/*.egg-info $(CLIENT)/node_modules $(CLIENT)/dist

# The pip that comes with Python 3.11 cannot install dependency groups, so pip is upgraded first.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[all]" --group dev --group docs
	touch $(READY)

# Without npm the tests that need it are skipped, or fail in CI.
$(TOOLS): $(CLIENT)/package.json $(CLIENT)/package-lock.json
	if command -v npm >/dev/null; then npm ci --prefix $(CLIENT) --loglevel=error --no-progress && touch $@; fi
