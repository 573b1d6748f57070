# `make quickstart` and `make test` set up everything that they need.

VENV := .venv
VENV_PYTHON := $(VENV)/bin/python
# The oldest first: constraints.txt was tested with 3.11.
PYTHON := $(shell for name in python3.11 python3.12 python3.13 python3.14 \
  python3; do \
    if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
      2>/dev/null; then echo $$name; break; fi; done)
STATE := $(shell cat setup.py constraints.txt | cksum | cut -d' ' -f1)
RUNTIME := $(VENV)/.installed-data-$(STATE)
TESTING := $(VENV)/.installed-test-$(STATE)
DOCUMENTING := $(VENV)/.installed-docs-$(STATE)
ORACLES := $(VENV)/.installed-oracles-$(STATE)
T5_PACKAGE := $(VENV)/t5_package
T5X := $(VENV)/t5x
MESH_TENSORFLOW := $(VENV)/mesh_tensorflow
LIBTPU := $(VENV)/libtpu
LOG := $(VENV)/install.log
INSTALL := $(VENV_PYTHON) -m pip --disable-pip-version-check install --quiet \
  --progress-bar off --log $(LOG) --constraint constraints.txt
# uv takes a third of pip's time; pip installs where uv knows no index.
WITH_UV = { $(INSTALL) uv >>$(LOG) 2>&1 && $(VENV)/bin/uv pip install --quiet \
  --compile-bytecode --python $(VENV_PYTHON) --constraint constraints.txt \
  $(1) >>$(LOG) 2>&1; } \
  || $(INSTALL) $(1)
PYTEST := $(VENV_PYTHON) -m pytest --numprocesses=2 --dist=loadfile \
  --no-loadscope-reorder

export HF_HUB_OFFLINE := 1
# Where it is set, every process compiles every module that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
# Linux: every step on CPU allocates its temporaries anew, and first touching
# them in huge pages takes a quarter off the step (docs/log/performance.md).
export GLIBC_TUNABLES := glibc.malloc.hugetlb=1

# A folder with archives of T5X's sources and of those that it imports from
# repositories; `make test-oracles` compares with T5X itself where it is set.
ZOO_PEERS ?=

.PHONY: quickstart test test-slow test-processes test-oracles \
  test-oracles-pytorch test-oracles-t5 docs install install-docs \
  install-oracles install-tests lint clean

install: $(RUNTIME)

# All that any of the tests needs but the oracles' PyTorch.
install-tests: $(TESTING) $(LIBTPU)

# Sphinx, for `make docs`.
install-docs: $(DOCUMENTING)

# The originals that `make test-oracles` compares with.
install-oracles: $(ORACLES) $(T5_PACKAGE) $(MESH_TENSORFLOW) \
  $(if $(ZOO_PEERS),$(T5X))

quickstart: $(RUNTIME)
	$(VENV)/bin/zoo ablate quickstart --suite first_look --jobs 2

# The tests of a file share fixtures and compiled programs: they stay together,
# and files in their order, or those with few and long tests would come last.
test: lint
	@echo "Running the fast tests: about 6 minutes on two idle cores."
	$(PYTEST) -m 'not slow' --ignore=tests/oracles tests

# Tests that start processes, browsers or compilers for other machines, or that
# take many seconds.
test-slow: $(TESTING) $(LIBTPU)
	$(PYTEST) -m slow --ignore=tests/oracles tests

# Those of several processes alone, for another Python beside the first:
# `make test-processes VENV=.venv-3.13 PYTHON=python3.13`. What layers on two
# processes compute is no matter of Python's.
test-processes: $(TESTING)
	$(PYTEST) -k 'not layers_on_two_processes' tests/processes \
	  tests/runs/several_processes_test.py \
	  tests/training/checkpoints/checkpoints_of_processes_test.py

# The live comparisons. In two runs: PyTorch crashes where TensorFlow has been
# imported.
test-oracles: test-oracles-pytorch test-oracles-t5

# With PyTorch's implementation of the same models and the tokenizers beside it.
test-oracles-pytorch: $(ORACLES)
	OMP_NUM_THREADS=1 $(PYTEST) tests/oracles/pytorch

# With the tasks of the t5 package, with Mesh TensorFlow, with T5X where its
# sources are.
test-oracles-t5: install-oracles
	PYTHONPATH=$(abspath $(MESH_TENSORFLOW))$(if $(ZOO_PEERS),:$(abspath $(T5X)/t5x):$(abspath $(T5X)/airio):$(abspath $(T5X)/jestimator):$(abspath $(T5X))) \
	  $(PYTEST) --ignore=tests/oracles/pytorch tests/oracles

# The site of the documentation: build/docs/index.html. EXECUTE=cache runs the
# tutorials, and those that did not change not again.
EXECUTE ?= off

docs: $(DOCUMENTING)
	$(VENV_PYTHON) -m sphinx --quiet --fail-on-warning --keep-going \
	  -D nb_execution_mode=$(EXECUTE) -D nb_execution_cache_path=build/tutorials \
	  -b html -d build/doctrees docs build/docs
	@echo "Open build/docs/index.html."

lint: $(TESTING)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

$(VENV_PYTHON):
	@test -n "$(PYTHON)" || \
	  { echo "Python 3.11 or newer is needed, and was not found." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): $(VENV_PYTHON)
	@echo "Installing into $(VENV): about a minute; the log is $(LOG)."
	@$(call WITH_UV,--editable '.[data]')
	touch $@

$(TESTING): $(VENV_PYTHON)
	@echo "Installing into $(VENV): about a minute; the log is $(LOG)."
	@$(call WITH_UV,--editable '.[test]')
	touch $(RUNTIME) $@

$(DOCUMENTING): $(VENV_PYTHON)
	@echo "Installing into $(VENV): about a minute; the log is $(LOG)."
	@$(call WITH_UV,--editable '.[docs]')
	touch $@

# By plain pip: elsewhere than on Linux with x86, torch has other names.
$(ORACLES): $(TESTING)
	@echo "Installing PyTorch into $(VENV); the log is $(LOG)."
	$(INSTALL) torch==2.13.0 transformers safetensors
	$(INSTALL) --no-deps peft accelerate
	@$(call WITH_UV,lm_eval mteb sentence-transformers)
	touch $@

# Apart from the project, whose tasks have the same names, and without most of
# what it depends on.
$(T5_PACKAGE): | $(TESTING)
	rm -rf $@.partial
	$(INSTALL) --no-deps --target $@.partial t5==0.9.4 babel==2.18.0
	mv $@.partial $@

# Apart from the project, as the t5 package is. It imports pkg_resources, which
# setuptools has had no more since 81.
$(MESH_TENSORFLOW): | $(TESTING)
	rm -rf $@.partial
	$(INSTALL) --no-deps --target $@.partial mesh-tensorflow==0.1.21 'setuptools<81'
	mv $@.partial $@

# Its own requirements name the newest commits of Flax and others; what it
# imports works with the versions of constraints.txt.
$(T5X): | $(TESTING)
	rm -rf $@.partial
	$(INSTALL) --no-deps --target $@.partial \
	  cached-property fiddle jaxtyping libcst wadler-lindig
	for archive in $(ZOO_PEERS)/*.tar.gz; do tar -xzf $$archive -C $@.partial; done
	mv $@.partial $@

# Apart from the project: where JAX finds it, it looks for TPUs at every start.
# There is none but for Linux on x86; without it a test is skipped.
$(LIBTPU): | $(TESTING)
	rm -rf $@.partial
	-$(INSTALL) --no-deps --target $@.partial libtpu && mv $@.partial $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .compilation_cache
