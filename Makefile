# The two commands: "make demo" shows everything running, "make test" installs everything and runs every test.
# Both need a python3 of 3.11 or newer and nothing else. PYTHON names another one, VENV another place, and DJANGO a
# requirement such as "Django~=5.2.0".

PYTHON ?= python3
VENV ?= .venv
DJANGO ?= Django
ARGS ?=

.PHONY: help demo test lint ruff mypy djlint migrations messages clean

help:
	@echo "make demo   migrate a SQLite database, then run the shop, two workers and a sample load; Ctrl-C stops all"
	@echo "make test   run the suite on SQLite and on every database server in reach"
	@echo "make lint   formatter, linters, types, migrations"
	@echo "make messages  bring the catalogues of translations up to date; ARGS=fr begins another language"
	@echo "make clean  remove the environment and the demo's data"

demo: $(VENV)/installed-demo
	@$(VENV)/bin/python manage.py demo $(ARGS)

test: $(VENV)/installed-dev
	@$(VENV)/bin/python tests/run.py $(ARGS)

lint: ruff mypy djlint migrations

ruff: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

mypy: $(VENV)/installed-dev
	$(VENV)/bin/mypy

djlint: $(VENV)/installed-dev
	$(VENV)/bin/djlint --check --lint --quiet chokaq_django example_project

migrations: $(VENV)/installed-dev
	$(VENV)/bin/python manage.py makemigrations --check --dry-run
	$(VENV)/bin/python manage.py check --fail-level WARNING

messages: $(VENV)/installed-dev
	$(VENV)/bin/python -m tests.messages $(ARGS)

# One environment; a stamp for each set of extras, so that a second run installs nothing.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=... ($(PYTHON) is older or missing)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment (see above)"; exit 1; }

$(VENV)/installed-%: $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' '$(DJANGO)'
	@touch $@

clean:
	rm -rf .venv .venv-* var
