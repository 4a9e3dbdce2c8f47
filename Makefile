# `make demo` and `make test` need only python3 with venv and pip; they build .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test test-slow clients fuzz soak check format docs bench figures clean

help:
	@echo "make demo       run a short demo: save, search and fit memories to a token budget"
	@echo "make test       run the fast tests (about two minutes on two cores)"
	@echo "make test-slow  run the slow tests: PostgreSQL, crashes, large property tests, cold starts, npm, benchmarks"
	@echo "make clients    run coding agents from npm against Satchel, with a scripted model"
	@echo "make fuzz       run the property and fuzz tests with twenty times the examples"
	@echo "make soak       kills, full disks and upgrades at every point, 64,000 writes by killed processes, 60,000 calls"
	@echo "make check      check format, lint, types and layers"
	@echo "make format     format the code and fix what ruff can fix"
	@echo "make docs       generate the references of commands, MCP tools, HTTP routes and Python signatures"
	@echo "make bench      run the benchmarks"
	@echo "make figures DATA=DIR"
	@echo "                compute every recall figure that the documents quote, from the data in DIR"
	@echo "make clean      remove .venv, .peers and caches"

$(VENV)/runtime: requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -r requirements/runtime.txt
	$(PIP) install --quiet --no-deps --editable .
	@touch $@

$(VENV)/dev: $(VENV)/runtime requirements/serve.txt requirements/dev.txt
	$(PIP) install --quiet -r requirements/dev.txt
	@touch $@

# Compile to bytecode first: an editable install has none, and every command would compile it again at start.
.PHONY: bytecode
bytecode: $(VENV)/runtime
	@$(BIN)/python -m compileall -q src

demo: bytecode
	@$(BIN)/python examples/demo.py

# Keep test stores in memory if there is room, because each commit waits for the disk. tests/crash uses the disk.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
IN_MEMORY := $(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY))

# Keep the bytecode of tests: pytest rewrites assertions while compiling, which takes longer than collecting.
PYTEST = $(IN_MEMORY) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto

test: $(VENV)/dev bytecode
	$(PYTEST) --dist worksteal -m "not slow"

test-slow: $(VENV)/dev bytecode
	$(PYTEST) --dist worksteal -m slow

# The tests of a client share one run of it, so they run in one worker. WRITE=1 writes the tables of docs/clients.md.
clients: $(VENV)/dev bytecode
	$(IN_MEMORY) $(BIN)/python -m pytest -n 2 --dist loadgroup tests/clients $(if $(WRITE),--write-docs)

# Property tests of packing, results and stores, and fuzz tests of the MCP server and the HTTP service.
fuzz: $(VENV)/dev bytecode
	SATCHEL_FUZZ=20 $(PYTEST) tests/property/test_packing.py tests/property/test_session_results.py \
		tests/interface/test_mcp_fuzz.py tests/interface/test_service_schema.py tests/property/test_store_machine.py

soak: $(VENV)/dev bytecode
	$(BIN)/python tests/crash/soak.py
	SATCHEL_FUZZ=21 $(BIN)/python -m pytest tests/crash/test_server_faults.py

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/dev
	$(BIN)/python docs/async_stub.py
	$(BIN)/python docs/tool_definitions.py
	$(BIN)/python docs/cli_reference.py
	$(BIN)/python docs/mcp_reference.py
	$(BIN)/python docs/http_reference.py
	$(BIN)/python docs/python_reference.py
	$(BIN)/python docs/operations_reference.py

bench: $(VENV)/dev bytecode
	$(BIN)/python -m bench

figures: $(VENV)/dev bytecode
	$(if $(DATA),,$(error DATA is not set; run: make figures DATA=DIR))
	$(BIN)/python -m bench.figures --data $(DATA)

clean:
	rm -rf $(VENV) .peers .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
