# Two commands for people, the same ones for CI: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint docs bench way clean

demo: .venv/ready
	$(BIN)/attar demo

test: lint docs
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Warnings are errors (with --quiet there would be none). Material's own, of its successor, is not about a page.
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/ready
	$(BIN)/attar bench ops

# The files that a document and a question pass through.
way: .venv/ready
	$(BIN)/python benchmarks/way.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist site

# The environment is made anew whenever what it is made from changes.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fast,gpu,search,server,train]'
	touch $@
