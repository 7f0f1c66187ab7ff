# All development tasks. `make` alone lists them.
PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
SPLITS ?= all
SPLIT  ?= published
INITS  ?= 1
DATASETS ?= all
MODELS ?= all
JOBS   ?= all
PROTOCOL ?= per_class_20
WORKERS ?= 2
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup run reproduce-tables report benchmark benchmark-report test bench test-hostile test-kill test-slurm test-services test-browser docs lint format ui clean

help:  ## List all targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing lopgpn_exp into $(VENV) (once, a few minutes)"
	@$(PIP) -e .
	@touch $@

# Extras of pyproject.toml: .installed-dev, .installed-docs, .installed-browser, .installed-postgres
$(VENV)/.installed-%: $(VENV)/.installed
	@$(PIP) -e '.[$*]'
	@touch $@

setup: $(VENV)/.installed-dev  ## Create the virtual environment with all development tools

run: $(VENV)/.installed  ## Set up, then train LOP-GPN on the embedded dataset (ARGS="model=appnp ..." for another run)
	$(BIN)/python -m lopgpn_exp $(ARGS)

reproduce-tables: $(VENV)/.installed  ## Reproduce all tables and figures of the paper (SPLIT=published|random SPLITS=.. INITS=1 DATASETS=.. MODELS=.. JOBS=..)
	$(BIN)/python -m lopgpn_exp reproduce --split '$(SPLIT)' --splits '$(SPLITS)' --inits '$(INITS)' --datasets '$(DATASETS)' --models '$(MODELS)' --jobs '$(JOBS)' $(ARGS)

report: $(VENV)/.installed  ## Write the report of reproduce-tables from stored results (ARGS="--readme README.md" updates the README)
	$(BIN)/python -m lopgpn_exp reproduce --report --split '$(SPLIT)' $(ARGS)

benchmark: $(VENV)/.installed  ## Run the leaderboard of all methods (PROTOCOL=per_class_20|paper|shifts SPLITS=.. INITS=.. DATASETS=.. MODELS=.. JOBS=..)
	$(BIN)/python -m lopgpn_exp benchmark --protocol '$(PROTOCOL)' --splits '$(SPLITS)' --inits '$(INITS)' --datasets '$(DATASETS)' --models '$(MODELS)' --jobs '$(JOBS)' $(ARGS)

benchmark-report: $(VENV)/.installed  ## Write the leaderboard and its audit from stored runs
	$(BIN)/python -m lopgpn_exp benchmark --report $(ARGS)

test: setup  ## Set up, then run the whole test suite (ARGS="-k flow" selects tests, WORKERS=4 uses more processes)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-hostile: setup  ## Attack the program: 20,000 mutated files, hostile runs and graphs, failing services (about 10 minutes)
	LOPGPN_FUZZ=1000 LOPGPN_DISASTER=1 $(BIN)/python -m pytest tests/hostile $(ARGS)

test-kill: setup  ## Kill a sweep 20 times, and start 4 processes at the same time 20 times (about 20 minutes)
	LOPGPN_KILLS=20 LOPGPN_STARTS=20 $(BIN)/python -m pytest tests/sweeps -k "killed or at_once"

test-slurm: setup  ## Test sweeps on a real Slurm on this machine (needs root and Debian's slurm-wlm and munge)
	LOPGPN_SLURM=1 $(BIN)/python -m pytest tests/services/test_slurm.py

test-services: setup $(VENV)/.installed-postgres  ## Test with a real PostgreSQL and a full disk (needs root and Debian's postgresql)
	LOPGPN_SERVICES=1 $(BIN)/python -m pytest tests/services/test_postgres.py tests/services/test_disk.py

bench: setup  ## Measure speed against a plain implementation and the machine's limits (ARGS="--datasets digits --runs --startup --sizes" for less, "--compare OLD.json" for ratios)
	$(BIN)/python -m benchmarks $(ARGS)

test-browser: setup $(VENV)/.installed-browser  ## Test dashboards and pages in a real browser (needs Debian's chromium and chromium-driver)
	LOPGPN_BROWSER=1 $(BIN)/python -m pytest tests/browser $(ARGS)

docs: $(VENV)/.installed-docs  ## Build the documentation site into outputs/site (executes the notebooks; warnings are errors)
	$(BIN)/python docs/tools/prepare.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python docs/tools/check_offline.py outputs/site
	@echo "Read it with: $(BIN)/python -m http.server --directory outputs/site 8000"

lint: setup  ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## Fix style and format in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: $(VENV)/.installed  ## Serve the dashboards of all runs in the MLflow UI (ARGS="--open --port 5001")
	$(BIN)/python -m lopgpn_exp ui $(ARGS)

clean:  ## Remove the virtual environment and caches (never outputs/)
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis dist build
