# The two commands of a newcomer are `make run` and `make test`. `make` lists all targets with the words after `##`.

PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
OPENFEATURE := tests/system/openfeature
NEXT := tests/system/next
TYPESCRIPT := tests/benchmarks/typescript
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help install clients run test test-postgresql test-system test-faults test-citus check format bench lock freeze-migrations

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: .venv/installed ## Create .venv with the packages that the service needs.

.venv/installed: requirements.lock
	@test -w . || { echo "You may not write to $(CURDIR): copy it to a folder of yours, and run make there." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Halyard needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	@test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	@echo "Installing what the service needs into .venv, for $$($(BIN)/python -c 'import sys; print(sys.base_prefix)') ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@touch $@

.venv/installed-dev: .venv/installed requirements-dev.lock
	@echo "Installing what its tests need into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.lock
	@touch $@

# Without what gbstats itself asks for: the lock file has newer versions of that.
.venv/installed-bench: .venv/installed-dev requirements-bench.lock
	@echo "Installing what its benchmarks are measured against into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements-bench.lock
	@touch $@

# OpenFeature's clients for JavaScript, which the system tests and one benchmark run.
$(OPENFEATURE)/node_modules/installed: $(OPENFEATURE)/package-lock.json
	@command -v npm >/dev/null || { echo "The system tests run clients in Node.js: install node and npm." >&2; exit 1; }
	@echo "Installing OpenFeature's clients into $(OPENFEATURE)/node_modules ..."
	@cd $(OPENFEATURE) && npm ci --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null
	@touch $@

# Next.js, with which a system test builds a site.
$(NEXT)/node_modules/installed: $(NEXT)/package-lock.json
	@command -v npm >/dev/null || { echo "The system tests build a site with Next.js: install node and npm." >&2; exit 1; }
	@echo "Installing Next.js into $(NEXT)/node_modules ..."
	@cd $(NEXT) && npm ci --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null
	@touch $@

# What makes and checks types from the OpenAPI document, which the benchmarks alone run.
$(TYPESCRIPT)/node_modules/installed: $(TYPESCRIPT)/package-lock.json
	@command -v npm >/dev/null || { echo "The benchmarks make a client in TypeScript: install node and npm." >&2; exit 1; }
	@echo "Installing the compiler of TypeScript into $(TYPESCRIPT)/node_modules ..."
	@cd $(TYPESCRIPT) && npm ci --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null
	@touch $@

# A secret of its own for every checkout; anonymous access is for this machine alone.
.env: | .venv/installed
	@umask 077 && $(BIN)/python -c 'import secrets; print(f"DEBUG=true\nANONYMOUS_SCOPE=manage\nSECRET_KEY={secrets.token_urlsafe(50)}")' > $@.new
	@mv $@.new $@

clients: .venv/installed ## Build the packages of the clients, which the service serves under /clients/.
	@$(BIN)/python -m flags.clients >/dev/null

run: .venv/installed .env clients ## Set up a database with demo data and serve it on port 8000; PORT=9000 takes another.
	@$(BIN)/python manage.py setup --port $(PORT)
	@exec $(BIN)/python manage.py serve --port $(PORT)

test: .venv/installed-dev ## Run the unit tests on SQLite.
	@$(BIN)/python -m tests

test-postgresql: .venv/installed-dev ## Run the unit tests on PostgreSQL: TEST_DATABASE_URL, or 127.0.0.1:5432.
	@$(BIN)/python -m tests --postgresql

test-system: .venv/installed-dev $(OPENFEATURE)/node_modules/installed $(NEXT)/node_modules/installed ## Run the tests with real processes and clients.
	@$(BIN)/python -m tests --system

test-faults: .venv/installed-dev ## Harm servers under traffic in every way, and count what is lost, doubled or unanswered.
	@$(BIN)/python -m tests --system -m faults --dist load

test-citus: .venv/installed-dev ## Run the unit tests on Citus, and crash its workers; PostgreSQL needs the extension.
	@$(BIN)/python -m tests --citus

check: .venv/installed-dev ## Check style, types, imports, migrations, settings and the OpenAPI schema.
	$(BIN)/python -m tests.repository
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive config events experiments flags manage.py
	$(BIN)/bandit --quiet --tests B608 --recursive config events experiments flags --exclude config/database
	$(BIN)/lint-imports
	$(BIN)/hadolint config/deploy/Dockerfile
	$(BIN)/python -m tests.deployment manage.py check --deploy --fail-level WARNING
	$(BIN)/python -m tests.deployment manage.py makemigrations --check --dry-run
	$(BIN)/python -m tests.deployment -m tests.migrations
	$(BIN)/python -m tests.deployment manage.py spectacular --validate --fail-on-warn --file /dev/null

format: .venv/installed-dev ## Mend what ruff can mend, and format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-bench $(TYPESCRIPT)/node_modules/installed $(OPENFEATURE)/node_modules/installed ## Run the benchmarks.
	@$(BIN)/python -m tests.benchmarks

# For every Python from 3.11 on.
lock: ## Update the lock files to newer versions of what pyproject.toml names.
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate pyproject.toml --output-file requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate pyproject.toml --group dev --constraint requirements.lock --output-file requirements-dev.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --group bench --constraint requirements-dev.lock --output-file requirements-bench.lock

freeze-migrations: .venv/installed-dev ## Write the checksums of all migrations to tests/migrations.sha256.
	@$(BIN)/python -m tests.repository --freeze-migrations
