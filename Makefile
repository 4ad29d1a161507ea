# Two commands: `make demo` and `make test`. Everything that they need, they install.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
# Three test processes on two cores, as many wait for processes that they started; each uses one thread (tests/conftest.py).
WORKERS ?= 3

.PHONY: setup demo test check unit bench docs wheel clean system peers tfhe

setup: $(STAMP)

# What a user gets by `pip install modelkeep`: the demo needs no more.
$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ModelKeep needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@touch $(CORE)

$(STAMP): $(CORE)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@# Its own pins would bring an old requests and a torchvision that does not work beside a CPU torch.
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps torchattacks
	@# The independent answer that our accounting is tested against; it wants an old attrs, and runs with a new one.
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps dp-accounting absl-py
	@touch $(STAMP)

system:
	@sh tools/system_packages.sh

# Servers and clients of the Open Inference Protocol whose pins would clash with ours: a venv of their own.
peers: .peers/.installed

.peers/.installed: tools/peers.sh
	@sh tools/peers.sh
	@touch $@

# concrete-python, which brings an older numpy and setuptools: a venv of its own. No test needs it; one uses it.
tfhe:
	@sh tools/tfhe.sh

demo: $(CORE)
	$(BIN)/modelkeep demo

test: setup system peers check unit

unit:
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: setup peers
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	@for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done
	@echo "== docs/tutorials"; $(BIN)/python tools/run_notebooks.py

docs: setup
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

# The source distribution and the wheel, in dist/; tests/test_wheel.py installs the wheel in an empty environment.
wheel: setup
	$(BIN)/python tools/build_wheel.py dist

clean:
	rm -rf $(VENV) .peers .tfhe docs/_build dist modelkeep-out
