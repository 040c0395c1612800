.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.PHONY: help install run test browser check clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

install: $(VENV)/installed  ## make a virtual environment and install into it

run: install  ## the main job: evolve a CPU attention kernel, about four minutes
	$(BIN)/askevolve run examples/cpu_quick.toml || [ $$? -eq 5 ]  # 5: finished, but the baseline was not beaten

test: install  ## the test suite
	$(BIN)/python -m pytest

browser: install  ## the dashboard's tests in Chromium (Debian: apt-get install chromium)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,browser]'
	$(BIN)/python -m pytest -m browser tests/browser

check: install  ## lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
