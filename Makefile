# Everything one does with this repository. `make help` prints this list.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
CACHE := $(or $(HEADSTART_CACHE_DIR),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headstart)
DENY_VERSION := 0.20.2
DENY := $(CACHE)/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny
TESTBED = $(CARGO) run --quiet --package headstart-testbed --
RELEASED = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release/headstart
TESTBED_RELEASE = $(CARGO) run --quiet --release --package headstart-testbed --

PEER ?= karpenter
FOCUS ?=
JOBS ?= 8
SEEDS ?= 300
PAIRS ?= 300
STATIC := $(shell uname -m)-unknown-linux-gnu
SIM = $(CARGO) run --quiet --release --package headstart-sim --

##@ Look

.PHONY: help demo tour testbed
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Watch Headstart at work in a simulated cluster, for a quarter of a minute (ARGS="--speed 10 --seed 7")
	@$(CARGO) run --quiet --package headstart-cli -- demo $(ARGS)

tour: build ## The same on real ground: the API, a real cluster on loopback, a cloud that keeps books
	@$(TESTBED) tour

testbed: build ## Run a real control plane on loopback until Ctrl-C (ARGS="--peer karpenter" adds Karpenter)
	@$(TESTBED) up $(ARGS)

##@ Work

.PHONY: build check format crds reference manifest image deny
build:
	@$(CARGO) build --quiet --workspace --bins

check: ## Format, lints, unit tests, licences: what to run before each commit
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings
	$(CARGO) test --workspace --exclude headstart-testbed --quiet
	$(CARGO) test --package headstart-testbed --lib --bins --quiet
	@$(MAKE) --no-print-directory deny

format: ## Format the code
	$(CARGO) fmt --all

crds: ## Write the CustomResourceDefinitions in crds/ anew
	$(CARGO) run --quiet --package headstart-cli -- crds --dir crds

reference: ## Write the pages of docs/ that follow from the code anew: flags, metrics
	@HEADSTART_WRITE_REFERENCE=1 $(CARGO) test --quiet --package headstart-operator --lib reference

manifest: ## Write deploy/headstart.yaml anew from the chart
	@helm=$$($(TESTBED) binaries --peers | grep '/helm$$'); \
	head=$$(sed '/^---$$/,$$d' deploy/headstart.yaml); \
	rendered=$$("$$helm" template headstart charts/headstart --namespace kube-system --kube-version 1.36); \
	printf '%s\n%s\n' "$$head" "$$rendered" > deploy/headstart.yaml

image: ## Pack the static release binary into an OCI archive, target/headstart.tar
	@RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --quiet --release --package headstart-cli --target $(STATIC)
	@deploy/image.sh "$(or $(CARGO_TARGET_DIR),target)/$(STATIC)/release/headstart" "$(or $(CARGO_TARGET_DIR),target)/headstart.tar" 0.1.0

deny: $(DENY) ## Check licences, sources and banned crates
	$(DENY) --log-level error check licenses bans sources

$(DENY):
	@echo "installing cargo-deny $(DENY_VERSION) into $(CACHE)/tools (once; about 4 minutes)"
	@$(CARGO) install --quiet cargo-deny --version $(DENY_VERSION) --locked --root $(CACHE)/tools/cargo-deny-$(DENY_VERSION)

##@ Prove

.PHONY: test binaries sim pairs soak suites suites-table bench bench-reaction bench-proactive bench-companion bench-memory bench-consolidation bench-shrink release
test: ## Everything that must hold: `make check`, then the tests on real control planes
	@echo "== 1/4 format, lints, unit tests, licences"
	@$(MAKE) --no-print-directory check
	@echo "== 2/4 simulated clusters in which things go wrong"
	$(CARGO) run --quiet --package headstart-sim -- --seeds 300 --jobs $$(nproc)
	@echo "== 3/4 programs of the testbed (built once, about 10 minutes)"
	@$(MAKE) --no-print-directory binaries
	@echo "== 4/4 tests on real control planes"
	$(CARGO) test --package headstart-testbed --tests --no-fail-fast -- --test-threads 2

binaries: ## Build Kubernetes, kwok, etcd and Karpenter from Go modules into the cache
	@$(TESTBED) binaries --peers

sim: ## Play the engine in a simulated cluster in which things go wrong (SEED=n or PLAN=file for one run, ARGS=--trace)
	@$(SIM) $(if $(SEED),--seed $(SEED),$(if $(PLAN),--plan $(PLAN))) $(ARGS)

pairs: ## Compare worlds with and without nodes for expected pods (PAIRS=n)
	@$(SIM) --pairs $(PAIRS) --jobs $$(nproc)

soak: ## The same for as many seeds as wanted (SEEDS=n)
	@$(SIM) --seeds $(SEEDS) --jobs $$(nproc) $(ARGS)

suites: build ## Run upstream's end-to-end suites (PEER=karpenter|headstart FOCUS="part of a spec's text" JOBS=n)
	@$(TESTBED) suites --peer $(PEER) --focus "$(FOCUS)" --jobs $(JOBS)

suites-table: build ## Write docs/suites.md from what the last runs of the suites against both operators said
	@$(TESTBED) suites --compare docs/suites.md

bench: ## Measure the solver side by side with Karpenter's (most of an hour) and write docs/benchmarks.md
	@$(TESTBED_RELEASE) bench solver --write docs/benchmarks.md $(ARGS)

bench-reaction: release ## Measure how Headstart and Karpenter react to load, side by side (20 minutes), and write docs/benchmarks-reaction.md
	@HEADSTART_BIN="$(RELEASED)" $(TESTBED) bench reaction --write docs/benchmarks-reaction.md $(ARGS)

bench-proactive: release ## Measure what it is worth to expect pods that come slowly (10 minutes), and write docs/benchmarks-proactive.md
	@HEADSTART_BIN="$(RELEASED)" $(TESTBED) bench proactive --write docs/benchmarks-proactive.md $(ARGS)

bench-companion: build ## Measure how long pods wait for Karpenter's nodes without and with a companion (an hour)
	@$(TESTBED) bench companion $(ARGS)

bench-memory: release ## Measure what both need in a cluster of 5,000 nodes and 50,000 pods (20 minutes), and write docs/benchmarks-memory.md
	@HEADSTART_BIN="$(RELEASED)" $(TESTBED) bench memory --write docs/benchmarks-memory.md $(ARGS)

bench-consolidation: ## Measure both ways to make a churned fleet smaller, and write docs/benchmarks-consolidation.md
	@$(TESTBED_RELEASE) bench consolidation --write docs/benchmarks-consolidation.md $(ARGS)

bench-shrink: release ## Let Karpenter and Headstart consolidate the same fleets (40 minutes), and write docs/benchmarks-shrink.md
	@HEADSTART_BIN="$(RELEASED)" $(TESTBED) bench shrink --write docs/benchmarks-shrink.md $(ARGS)

# What is measured is what users run.
release:
	@$(CARGO) build --quiet --release --package headstart-cli
