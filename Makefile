# make run      set up what is missing, then run the app on http://127.0.0.1:7071 with Azurite beside it (PORT= changes it,
#               APP=examples/handler runs an example)
# make test     set up what is missing, then run every check and test
# make check    style, types, and what the documents promise: links, README snippets, the public API
# make bench    storage operations, cold start and latency, as a table
# make clean    remove what set-up made; `make run` keeps its data in .azurite until then
PORT ?= 7071
RUN_ARGS ?=
APP ?= .
# An example has no settings file of its own, and its modules import ours.
EXAMPLE = $(if $(filter-out .,$(APP)),PYTHONPATH="$(CURDIR)" AzureWebJobsStorage=UseDevelopmentStorage=true TASKS_LEASE_SECONDS=6)
PYTEST_ARGS ?=
# Most of the time tests wait for processes that they have started or killed: two at a time take little more than half of it.
PYTEST_WORKERS ?= 2
BIN := .venv/bin

.PHONY: run test check bench setup clean
.DEFAULT_GOAL := run

run: setup local.settings.json
	@$(EXAMPLE) exec $(BIN)/python -m devhost $(APP) --port $(PORT) $(if $(EXAMPLE),,--hint "$$(scripts/choose-hint.sh)") $(RUN_ARGS)

test: check
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --ignore=tests/quality $(PYTEST_ARGS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@node_modules/.bin/pyright --pythonpath $(BIN)/python
	@$(BIN)/python -m pytest tests/quality

bench: setup
	@$(BIN)/python -m bench

setup: .venv/installed node_modules/installed

.venv/installed: requirements.txt requirements-dev.txt constraints.txt
	@python="$$(scripts/find-python.sh)" && \
	{ $(BIN)/python -c 'import sys; raise SystemExit(sys.version_info[:2] != (3, 13))' 2>/dev/null || "$$python" -m venv --clear .venv; }
	@echo "Installing Python packages into .venv (about a minute, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-warn-script-location -r requirements-dev.txt
	@touch $@

node_modules/installed: package.json package-lock.json
	@scripts/check-node.sh
	@echo "Installing Azurite, the storage emulator (half a minute, once) ..."
	@npm ci --silent --no-audit --no-fund
	@touch $@

local.settings.json:
	@cp local.settings.sample.json $@

clean:
	rm -rf .venv node_modules .azurite .ruff_cache .hypothesis
