# For users: `make demo`. For developers: `make quick` while working, `make test` before a commit (CI runs it).
PYTHON ?= python3
BIN := .venv/bin
# Python keeps its byte code, wherever that is turned off: hundreds of tests start Python, each two seconds slower else.
unexport PYTHONDONTWRITEBYTECODE
# Linters and the site are made two at a time.
MAKEFLAGS += --jobs=2

.PHONY: demo test nightly quick lint style types imports docs bench fuzz crash screenshot way release clean

demo: .venv/demo
	$(BIN)/attar demo

test: lint docs
	$(BIN)/python -m pytest -n 2 -m "not nightly"

# The long ones: fuzzers, kills, all page and Ray tests, the wheel.
nightly: .venv/ready
	$(BIN)/python -m pytest -n 2 -m nightly
	$(BIN)/python -m benchmarks.fuzz --seconds $(SECONDS)
	$(BIN)/python -m benchmarks.crash --kills $(KILLS)

# Lint and all tests that are not marked slow, with fewer examples of properties: under two minutes on two cores.
quick: lint
	$(BIN)/python -m pytest -n 2 -m "not slow and not nightly" --hypothesis-profile quick

lint: types style imports

types: .venv/ready
	$(BIN)/mypy

style: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

imports: .venv/ready
	$(BIN)/lint-imports

# Warnings are errors (with --quiet there would be none). Material's own, of its successor, is not about a page.
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Everything that is measured against a target. Rows that need a GPU say so and are left out where there is none.
# With QUESTIONS=FILE (SQuAD's JSON) also questions to all documents.
bench: .venv/ready
	$(BIN)/python -m benchmarks.ops
	$(BIN)/python -m benchmarks.ops_gpu
	$(BIN)/python -m benchmarks.search
	$(if $(QUESTIONS),$(BIN)/python -m benchmarks.ask_all "$(QUESTIONS)",@echo "ask all: left out; QUESTIONS=FILE, in SQuAD's JSON, measures it")
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.questions
	$(if $(shell command -v wrk),$(BIN)/python -m benchmarks.wrk,@echo "the server: left out; apt-get install wrk measures it")
	$(BIN)/python -m benchmarks.overload
	$(BIN)/python -m benchmarks.cluster_reading --kills 20
	$(BIN)/python -m benchmarks.cluster_serve
	$(BIN)/python -m benchmarks.scale

# Structure-aware fuzzing of all that enters, for a set time; part of `make nightly`.
SECONDS ?= 600
fuzz: .venv/ready
	$(BIN)/python -m benchmarks.fuzz --seconds $(SECONDS)

# SIGKILL to all that writes, with readers and servers beside, verified against a log outside the store.
KILLS ?= 500
crash: .venv/ready
	$(BIN)/python -m benchmarks.crash --kills $(KILLS)

# The page's picture in README and docs, made by a test that checks what it shows.
screenshot: .venv/ready
	$(BIN)/python -m pytest -q tests/server/page/test_screenshot.py
	cp out/screenshots/page.png docs/figures/page.png

# The files that `attar add`, `attar ask` and `POST /v1/ask` run through.
way: .venv/ready
	$(BIN)/python benchmarks/way.py

# Builds and checks the wheel and the sdist, and installs the wheel in an empty environment of each Python that is
# found. Publishes nothing.
release: .venv/ready
	$(BIN)/python -m benchmarks.release --torch-index '$(TORCH_INDEX)'

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist site

# The environment is made again whenever what it is made from changes: for a demo what users need, otherwise all in one
# go, since pip looks through the versions of every package each time. torch comes without CUDA where there is no
# NVIDIA driver. A package index that pip is configured with (which is looked up once) is the only one that is asked;
# TORCH_INDEX= does so always.
OWN_INDEX = $(eval OWN_INDEX := $$(shell $(PYTHON) -m pip config list 2>/dev/null | grep -E 'index-url|find-links'))$(OWN_INDEX)
TORCH_INDEX ?= $(if $(OWN_INDEX)$(shell command -v nvidia-smi),,https://download.pytorch.org/whl/cpu)
# Not compiled: of 250 MB of byte code, 30 are used, and Python writes those itself.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

define MAKE_VENV
$(PYTHON) -m venv .venv
@test -z "$(TORCH_INDEX)" || $(INSTALL) --retries 1 --no-deps --index-url "$(TORCH_INDEX)" torch || \
    echo "No torch at $(TORCH_INDEX): taking another, which may have CUDA."
endef

.venv/demo: pyproject.toml constraints.txt
	@echo "Making .venv: 1.2 GB on disk$(if $(shell command -v nvidia-smi), and several more for CUDA), most of it PyTorch."
	$(MAKE_VENV)
	$(INSTALL) --editable '.[documents,server,watch]'
	touch $@

.venv/ready: pyproject.toml constraints.txt
	@echo "Making .venv: 3.3 GB on disk$(if $(shell command -v nvidia-smi), and several more for CUDA), most of it PyTorch, Triton and Ray."
	$(MAKE_VENV)
	$(INSTALL) --editable '.[dev]'
	touch .venv/demo $@
