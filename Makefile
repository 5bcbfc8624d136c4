# Everything happens in a virtual environment of the project's own.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# A kernel cached from another checkout or an older file would give stale answers: each run of the tests starts afresh.
# In full: commands and scripts that the tests start elsewhere share it.
TEST_CACHE := $(CURDIR)/.numba_cache/test
# These compile most kernels, and run first, alone: two workers would compile the same ones at the same time.
FIRST := tests/mechanisms/counters/test_kernels.py tests/problems/test_files.py tests/planners tests/logs/test_reading.py

.PHONY: demo test lint types check-format bench site clean

demo: $(READY)
	$(BIN)/confide run ucrl-vtr lock --epsilon 1 --delta 1e-5 --seeds 5 --compare-with no-privacy --compare-with uniform --out demo

test: lint types
	rm -rf $(TEST_CACHE)
	NUMBA_CACHE_DIR=$(TEST_CACHE) $(BIN)/python -m pytest $(FIRST)
	NUMBA_CACHE_DIR=$(TEST_CACHE) $(BIN)/python -m pytest -n 2 --dist worksteal --durations 10 $(FIRST:%=--ignore=%)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/counters.py
	$(BIN)/python benchmarks/samplers.py

# The documentation, into build/site: python -m http.server --directory build/site shows it.
site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf .venv .numba_cache demo build src/*.egg-info

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[secure,gym,icu,cluster,minari,control,docs,dev]"
	touch $(READY)
