# One entry point for everything; `make help` lists the targets.
#
#   make test                             in .venv, or in the environment that is active
#   make test VENV=elsewhere              in another environment, whatever is active
#   make test PYTHON=python3.12           with .venv made from this interpreter
#   make test TORCH="torch==2.9.1"        with this PyTorch, even where another one is installed
#   make test EXTRAS=dev                  without TensorFlow: the tests that read its files skip

.DEFAULT_GOAL := help

PYTHON ?= python3
TORCH_CHOSEN := $(filter-out undefined,$(origin TORCH))
TORCH ?= torch==2.13.0
EXTRAS ?= dev,convert
# Every test process computes on one core, so as many of them as there are cores, but no more than
# four: each holds its own PyTorch.
PYTEST_FLAGS ?= -n auto --maxprocesses 4

ifneq ($(origin VENV),undefined)
  ENV := $(abspath $(VENV))
  ENV_KIND := as asked with VENV
else ifneq ($(VIRTUAL_ENV),)
  ENV := $(VIRTUAL_ENV)
  ENV_KIND := active virtual environment
else ifneq ($(CONDA_PREFIX),)
  ENV := $(CONDA_PREFIX)
  ENV_KIND := active conda environment
else
  ENV := $(CURDIR)/.venv
  ENV_KIND := made for this checkout
endif
RUN := "$(ENV)/bin/python"
MLINTER_RULES := $(ENV)/.lvbert-mlinter-rules.toml
SOURCES := modeling_lvbert conversion

# What is run here never waits for a network.
export HF_HUB_OFFLINE := 1
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: help install quickstart test test-slow format lint types check clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):[^#=]*## (.*)/  make \1 | \2/p' $(firstword $(MAKEFILE_LIST)) \
	  | awk -F ' [|] ' '{printf "%-18s %s\n", $$1, $$2}'

install:  ## make the environment and install the package with its tools
	@PYTHON='$(PYTHON)' TORCH='$(TORCH)' TORCH_CHOSEN='$(TORCH_CHOSEN)' EXTRAS='$(EXTRAS)' \
	  bash .ci/install '$(ENV)' '$(ENV_KIND)'

quickstart: install  ## the whole story on embedded text in minutes: pre-train, save, fine-tune
	@echo '==> quick start: python examples/quickstart.py'
	@$(RUN) examples/quickstart.py

test: install  ## the default test suite
	@echo '==> tests: pytest $(PYTEST_FLAGS)'
	@$(RUN) -m pytest $(PYTEST_FLAGS)

test-slow: install  ## the tests that take minutes, the README's commands as written among them
	@echo '==> slow tests: pytest -m "slow and not gpu"'
	@$(RUN) -m pytest -m 'slow and not gpu'

format: install  ## rewrite the sources in the project's form
	$(RUN) -m ruff check --fix-only .
	$(RUN) -m ruff format .

lint: install  ## ruff, and transformers' own rules for model files
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) .ci/mlinter_rules.py '$(MLINTER_RULES)'
	$(RUN) -m mlinter --no-progress --no-cache --rules-toml '$(MLINTER_RULES)' modeling_lvbert

types: install  ## mypy
	$(RUN) -m mypy $(SOURCES)

check: lint types test  ## lint, types and test: before each commit

clean:  ## remove .venv, caches and build products; runs/ stays
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(SOURCES) examples tests -name __pycache__ -prune -exec rm -rf {} +
