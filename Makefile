# Every target sets the project up first; nothing else has to be done by hand.
# Each target is short on purpose: what it runs can be run by hand as well.

PYTHON := .venv/bin/python
CODE := src tests benchmarks
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo check lint unit test test-servers faults bench lock clean

help: ## show this
	@echo "Headrace: many customers' Kafka topics on one Spark."
	@echo
	@echo "A first look:           make demo"
	@echo "Before every commit:    make check     (no servers, under a minute)"
	@echo "Before every merge:     make test test-servers      (real Kafka, real Spark)"
	@echo
	@grep -E '^[a-z-]+:.*## ' Makefile | sort | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 21
	@echo
	@echo "Options go in ARGS:     make demo ARGS='--help'"

setup: ## make .venv, check Java, fetch Kafka; quick when done
	@scripts/setup

demo: setup ## run the demo on this machine
	@.venv/bin/headrace demo $(ARGS)

check: lint unit ## format, lint, types, import law, unit tests

lint: setup
	.venv/bin/ruff format --check $(CODE)
	.venv/bin/ruff check $(CODE)
	.venv/bin/mypy
	.venv/bin/lint-imports

unit: setup
	.venv/bin/pytest tests/unit -q $(ARGS)

# Half the time of the slow tests is waiting for processes to start, so two files run at a time.
# A worker that dies ends the run: one in its place would be given files that are done, and wait.
PYTEST := .venv/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
	--durations=20

test: lint ## lint, then the tests, the quick ones first
	@scripts/setup-tests
	$(PYTEST) tests/unit tests/contract tests/integration tests/e2e -m "not servers" $(ARGS)

test-servers: setup ## tests that start clusters and whole services, and kill them
	$(PYTEST) tests/faults tests/integration/test_spark_cluster.py tests/e2e/test_demo_killed.py \
		-m "not matrix" $(ARGS)

faults: setup ## kill, stop and starve everything; writes the table in docs/guarantees.md
	@scripts/faults $(ARGS)

bench: setup ## measure; results go to benchmarks/results
	@$(PYTHON) -m benchmarks $(ARGS)

lock: setup ## pin every Python package anew, with checksums
	.venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --group pyproject.toml:dev pyproject.toml \
		-o requirements.lock $(ARGS)
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-annotate -o packaging/build.lock $(ARGS) -

clean: ## remove what was made here; the jar cache of the user stays
	rm -rf .venv .headrace build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
		.hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
