# Two commands for people, the same ones for CI: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench clean

demo: .venv/ready
	$(BIN)/attar demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready
	$(BIN)/attar bench ops

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist

# The environment is made anew whenever what it is made from changes.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,gpu,train,server]'
	touch $@
