# edgewise: `make run` shows it, `make test` proves it, `make check` keeps it clean.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run test test-slow check format setup docs clean

run: setup           ## set up, find the fastest way to run a built-in model on this machine, and draw what was measured
	$(BIN)/edgewise tune mobilenet_v2 --save lab.db -o mobilenet_v2.plan.json
	$(BIN)/edgewise report lab.db -o report.html

test: setup          ## the tests: three at a time, since most wait for processes; then those that measure time, alone
	$(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder -m "not alone and not slow"
	$(BIN)/python -m pytest -m alone

test-slow: setup     ## the longest: every hostile file and the zoo in int8 on every engine, whole data sets, the largest networks
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m slow

check: setup         ## format, lint, types, import contracts, generated docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/reference.py --check

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup          ## write docs/reference from the code
	$(BIN)/python tools/reference.py

setup: $(STAMP)

# pip understands dependency groups from 25.1 on, so it is raised first. The pnnx package asks for torch, which the
# program in it (ncnn's converter) does not need; where there is no pnnx for a platform, ncnn says so.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	$(BIN)/python -m pip install --quiet --no-deps "pnnx>=20250530" || echo "no pnnx here: ncnn will run .param files only"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
