# Everything happens in a virtual environment of the project's own.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# A kernel cached from another checkout or an older file would give stale answers: each run of the tests starts afresh.
TEST_CACHE := .numba_cache/test

.PHONY: demo test lint types check-format bench clean

demo: $(READY)
	$(BIN)/python examples/privacy_demo.py demo
	$(BIN)/confide verify demo/certificate.json
	$(BIN)/confide calibrate --epsilon 1 --delta 1e-5 --episodes 100000 --horizon 5 --dimension 5

test: lint types
	rm -rf $(TEST_CACHE)
	NUMBA_CACHE_DIR=$(TEST_CACHE) $(BIN)/python -m pytest tests/mechanisms/counters/test_kernels.py
	NUMBA_CACHE_DIR=$(TEST_CACHE) $(BIN)/python -m pytest -n 2 --dist worksteal --durations 10

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/counters.py

clean:
	rm -rf .venv .numba_cache demo build src/*.egg-info

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[secure,dev]"
	touch $(READY)
