# Recipes are in scripts/; settings that make understands are described there and by `make help`.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help up down restart logs status backup restore install uninstall doctor test test-unit test-clients test-servers test-console screenshots check fmt bench image clean rotate-keys venv engine lock stack chaos mutation figures

help: ## Show this help
	@echo "MCP Code Executor: make TARGET"; echo
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'
	@echo; echo "Settings: CODE_EXECUTOR_* in the environment or in .env; CODE_EXECUTOR_PUBLISH=127.0.0.1:9091 is where the"
	@echo "API is published. BASE=auto|pull|bootstrap and BASE_IMAGE_NAME choose the base image, REFRESH=1 fetches it again."
	@echo "PROFILES=playwright,minio adds MCP servers, PROFILES=all each that needs no account (docs/servers.md); STACK=0 leaves"
	@echo "out the default ones, PROFILES=monitoring adds Prometheus (docs/operating.md)."

up: engine venv image stack ## Set everything up, start the daemon and its MCP servers, and return when the daemon is ready
	@scripts/up.sh

down: ## Stop everything that was started here; keeps data, keys and images
	@scripts/down.sh

restart: ## Stop everything and start it again
	@scripts/down.sh
	@$(MAKE) up

logs: ## Follow the daemon's log (FOLLOW=0: only print it)
	@scripts/logs.sh

status: ## Show the containers of the daemon and the MCP servers, and its health
	@scripts/status.sh

backup: ## Back up the daemon's data into one file, also while it runs (FILE=path)
	@scripts/backup.sh

restore: ## Put the data of a backup in place of what is there: make restore FILE=path (FORCE=1: also of newer data)
	@scripts/restore.sh

install: venv ## Put code-executor on the PATH of this user, with completion for bash and zsh
	@scripts/install.sh install

uninstall: ## Take code-executor off the PATH again; 'make clean' removes the rest, with the data
	@scripts/install.sh uninstall

doctor: venv ## Check engine, host, runner image, daemon, roles, keys and disk, each with its fix
	@.venv/bin/code-executor doctor

test: engine venv image stack ## Run all tests: unit first, then those on the real engine (PYTEST="-k name")
	@scripts/test.sh all

test-unit: venv ## Run the quick unit tests only; they need neither engine nor other processes
	@scripts/test.sh unit

test-clients: engine venv image ## Run real MCP clients against a scripted model and see what it is sent (PYTEST="-k codex")
	@scripts/test.sh clients

test-servers: engine venv image ## Run the MCP servers that are asked for by name, with real backends (TEST_SERVERS="minio n8n")
	@scripts/test.sh servers

test-console: engine venv image ## Run the console in Debian's Chromium (PYTEST="-k keyboard")
	@scripts/test.sh console

screenshots: engine venv image ## Take pictures of every page of the console, light and dark, wide and narrow
	@scripts/test.sh screenshots

check: venv ## Run ruff, mypy, import-linter, shellcheck, bandit, hadolint and pip-audit
	@scripts/check.sh

fmt: venv ## Format the code and fix what ruff can fix
	@.venv/bin/ruff check --fix-only --quiet . && .venv/bin/ruff format .

bench: engine venv image ## Measure, side by side with the alternatives (BENCH="--quick --only latency")
	@scripts/bench.sh

chaos: engine venv image ## Kill the daemon at random under load and look for orphans (ROUNDS=200)
	@.venv/bin/python -m tests.chaos --rounds "$(or $(ROUNDS),200)"

mutation: engine venv image ## Take each hardening option away and see whether a test notices (SAMPLE=20: only so many)
	@.venv/bin/python -m tests.mutation $(if $(SAMPLE),--sample $(SAMPLE))

figures: engine venv image ## Measure every promise and write docs/figures.md; takes an hour (FIGURES="--quick --only chaos")
	@.venv/bin/python -m tests.figures $(FIGURES)

image: engine venv ## Build both images; skips what has not changed
	@scripts/images.sh

stack: engine venv image ## Prepare the MCP servers: images and settings of those that are enabled
	@scripts/stack.sh

clean: ## Remove everything, including data and keys, after asking (FORCE=1: without asking)
	@scripts/clean.sh

rotate-keys: venv ## Make a new key for a role: make rotate-keys ROLE=developer
	@$(if $(ROLE),,echo "make: say which role: make rotate-keys ROLE=admin" >&2; exit 1;) .venv/bin/code-executor keys rotate "$(ROLE)"

venv: ## Make .venv with the project and its tools
	@scripts/venv.sh

engine: ## Make sure that a container engine answers; installs and starts one on a bare Debian
	@scripts/engine.sh

lock: venv ## Pin all dependencies again: those of the project, of programs and of the MCP servers
	@scripts/lock.sh
