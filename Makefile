# `make demo` and `make test` need only python3 with venv and pip; they build .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test test-slow fuzz soak check format docs bench figures clean

help:
	@echo "make demo    save, find and fit a few memories to a token budget"
	@echo "make test    the tests that a change needs, in two minutes on two cores"
	@echo "make test-slow  the others: PostgreSQL, crashes, large properties, cold starts, npm, benches"
	@echo "make fuzz    sixty thousand random sets of items, forty thousand results, a hundred thousand calls of nonsense,"
	@echo "             the service by its description, two stores and an oracle"
	@echo "make soak    writers of a service whose PostgreSQL loses connections and restarts"
	@echo "make check   format, lint, types, layers"
	@echo "make format  let ruff rewrite what it can"
	@echo "make docs    write the references from commands, MCP tools, HTTP routes and Python signatures"
	@echo "make bench   the benchmarks, as ratios in one run"
	@echo "make figures DATA=DIR  every figure about recall that the documents quote, from the data in DIR"
	@echo "make clean   remove .venv and caches"

$(VENV)/runtime: requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -r requirements/runtime.txt
	$(PIP) install --quiet --no-deps --editable .
	@touch $@

$(VENV)/dev: $(VENV)/runtime requirements/dev.txt
	$(PIP) install --quiet -r requirements/dev.txt
	@touch $@

# Bytecode beforehand: an editable install has none, and commands would compile it at each start.
.PHONY: bytecode
bytecode: $(VENV)/runtime
	@$(BIN)/python -m compileall -q src

demo: bytecode
	@$(BIN)/python examples/demo.py

# Stores of tests lie in memory where there is room, but for those of tests/crash: each commit waits for a disk.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
IN_MEMORY := $(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY))

# Tests are compiled with their assertions rewritten, which takes longer than to collect them: keep the bytecode.
PYTEST = $(IN_MEMORY) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto

test: $(VENV)/dev bytecode
	$(PYTEST) --dist worksteal -m "not slow"

test-slow: $(VENV)/dev bytecode
	$(PYTEST) --dist worksteal -m slow

# The properties of packing and of results, and the nonsense for the MCP server with twenty times the examples of `make test`.
fuzz: $(VENV)/dev bytecode
	SATCHEL_FUZZ=20 $(PYTEST) tests/property/test_packing.py tests/property/test_session_results.py \
		tests/interface/test_mcp_fuzz.py tests/interface/test_service_schema.py tests/property/test_store_machine.py

soak: $(VENV)/dev bytecode
	SATCHEL_FUZZ=21 $(BIN)/python -m pytest tests/crash/test_server_faults.py

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/runtime
	$(BIN)/python docs/async_stub.py
	$(BIN)/python docs/cli_reference.py
	$(BIN)/python docs/mcp_reference.py
	$(BIN)/python docs/http_reference.py
	$(BIN)/python docs/python_reference.py
	$(BIN)/python docs/operations_reference.py

bench: $(VENV)/dev bytecode
	$(BIN)/python -m bench

figures: $(VENV)/dev bytecode
	$(if $(DATA),,$(error give the folder of the data: make figures DATA=DIR))
	$(BIN)/python -m bench.figures --data $(DATA)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
