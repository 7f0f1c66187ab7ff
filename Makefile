# One file for every chore. `make` alone lists them.
PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
SPLITS ?= 10
INITS  ?= 1
DATASETS ?= all
MODELS ?= all
JOBS   ?= all
WORKERS ?= 2
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup run reproduce-tables report test bench test-kill test-slurm test-services test-browser docs lint format ui clean

help:  ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing lopgpn_exp into $(VENV) (once; a few minutes)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) -e '.[dev]'
	@touch $@

setup: $(VENV)/.installed-dev  ## Make the virtual environment with all test tools

run: $(VENV)/.installed  ## Set up, then run LOP-GPN on the embedded default (ARGS="model=appnp ..." to change it)
	$(BIN)/python -m lopgpn_exp $(ARGS)

reproduce-tables: $(VENV)/.installed  ## Every table and figure of the paper (SPLITS=10 INITS=1 DATASETS=.. MODELS=.. JOBS=..)
	$(BIN)/python -m lopgpn_exp.reproduce --splits '$(SPLITS)' --inits '$(INITS)' --datasets '$(DATASETS)' --models '$(MODELS)' --jobs '$(JOBS)' $(ARGS)

report: $(VENV)/.installed  ## The report of reproduce-tables alone, from stored results (ARGS="--readme README.md" too)
	$(BIN)/python -m lopgpn_exp.reproduce --report $(ARGS)

test: setup  ## Set up, then run the whole test suite (ARGS="-k flow" to choose, WORKERS=4 for more at once)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-kill: setup  ## Kill a sweep 20 times, start 4 processes at once 20 times (about 20 minutes)
	LOPGPN_KILLS=20 LOPGPN_STARTS=20 $(BIN)/python -m pytest tests/test_sweep.py -k "killed or at_once"

test-slurm: setup  ## Sweeps on a real Slurm of this machine (needs root and Debian's slurm-wlm and munge)
	LOPGPN_SLURM=1 $(BIN)/python -m pytest tests/services/test_slurm.py

test-services: setup  ## A real PostgreSQL and a really full disk (needs root and Debian's postgresql)
	@$(PIP) -e '.[postgres]'
	LOPGPN_SERVICES=1 $(BIN)/python -m pytest tests/services/test_postgres.py tests/services/test_disk.py

bench: setup  ## Speed against a plain baseline and the machine's floor (ARGS="--datasets digits --sizes 10000" for less)
	$(BIN)/python -m benchmarks $(ARGS)

test-browser: setup  ## The dashboards and pages in a real browser (needs Debian's chromium and chromium-driver)
	@$(PIP) -e '.[browser]'
	LOPGPN_BROWSER=1 $(BIN)/python -m pytest tests/browser $(ARGS)

docs: $(VENV)/.installed  ## The documentation site, into outputs/site (runs its notebooks; warnings are errors)
	@$(PIP) -e '.[docs]'
	$(BIN)/python docs/tools/prepare.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python docs/tools/closed.py outputs/site
	@echo "To read it: $(BIN)/python -m http.server --directory outputs/site 8000"

lint: setup  ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## Fix style and format in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: $(VENV)/.installed  ## The dashboards of all runs, in the MLflow UI (ARGS="--open --port 5001")
	$(BIN)/python -m lopgpn_exp.ui $(ARGS)

clean:  ## Remove the virtual environment and caches (never outputs/)
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis dist build
