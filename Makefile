# Every target makes its own virtual environment; Python 3.11 and make are all that a machine needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/ready

.PHONY: help demo test test-all lint bench docs clean

help:           ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

$(READY): pyproject.toml dpcli/__init__.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Release the sample census as a private cube and ask it a question.
	@mkdir -p out
	$(BIN)/dpcli release configs/laplace.yaml sample_data/census.csv -o out/demo.parquet --if-exists replace --ledger out/demo-ledger.sqlite
	$(BIN)/dpcli query out/demo.parquet "age between 30 and 39 and sex = 'F'" "occupation = 'Health'"

test: $(READY)  ## Run the tests.
	$(BIN)/python -m pytest

test-all: $(READY) ## Run the tests and the slow statistical checks.
	$(BIN)/python -m pytest -m "slow or not slow"

lint: $(READY)  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## Measure speed as ratios to plain numpy in the same run.
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/ranges.py
	$(BIN)/python benchmarks/counting.py
	$(BIN)/python benchmarks/bounding.py
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/queries.py
	$(BIN)/python benchmarks/partition.py
	$(BIN)/python benchmarks/ispe.py

docs: $(READY)  ## Write docs/cli.md from the commands' help.
	$(BIN)/python docs/make_reference.py

clean:          ## Remove what the other targets made.
	rm -rf .venv out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
