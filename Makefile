# Everything that is done to this repository by hand or by CI is a target here.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Without a tag the version is the commit; without git the build information of
# the Go toolchain is all there is, and the binary shows that.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X main.version=$(VERSION))

# The program is static, and the same bytes in each folder. Without grpcnotrace gRPC executes templates, which call
# methods by name: the linker has to keep each exported method of each type then.
FLAGS := -tags grpcnotrace -trimpath -ldflags '$(LDFLAGS)'

BIN ?= bin/xdsrelay
PROGRAM ?= ./cmd/xdsrelay

# What the targets below look at, and how long each fuzz target runs.
PACKAGES ?= ./...
FUZZTIME ?= 20s

# How many random schedules each test of "make soak SUITE=models" plays.
SEEDS ?= 5000

# The first seed that "make soak SUITE=simulate" and SUITE=compare play, and SUITE=access before whole relays; which
# operations SUITE=simulate plays: all if empty; and the revision that SUITE=compare compares with.
FROM ?= 1
OPS ?=
OLD ?=

# On a busy machine the end-to-end tests take longer than go test allows a package by
# default.
TIMEOUT ?= 30m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use it

.PHONY: build
build: ## build bin/xdsrelay
	CGO_ENABLED=0 go build $(FLAGS) -o $(BIN) $(PROGRAM)

.PHONY: demo
demo: ## run a control plane, a relay and clients on this machine
	CGO_ENABLED=0 go run $(FLAGS) ./cmd/xdsrelay-demo

##@ Every change

.PHONY: test
test: ## run all tests
	go test -timeout $(TIMEOUT) $(PACKAGES)

.PHONY: race
race: ## run all tests under the race detector
	go test -race -timeout $(TIMEOUT) $(PACKAGES)

# The linters are a module of their own, so that the relay's go.mod lists what the
# relay and its tests need. The modules of control planes that only "make soak" builds are
# left out: to tidy them downloads what they are tested with.
.PHONY: lint
lint: ## check format, vet, linters, go.mod and what go fix would change
	@unformatted=$$(gofmt -l .); if [[ -n "$$unformatted" ]]; then echo "not gofmt-clean:" $$unformatted; exit 1; fi
	go vet ./...
	go tool -modfile=tools/go.mod golangci-lint run
	@for module in $$(find . -name go.mod -exec dirname {} \; | grep -v -e /testdata/istio -e /testdata/envoygateway -e /testdata/consul | sort); do \
		echo "go -C $$module mod tidy -diff"; \
		go -C "$$module" mod tidy -diff; \
	done
	go fix -diff ./...

.PHONY: shape
shape: ## print figures of the code that people read before they review a change
	@go run ./internal/structure/shape

##@ The whole

.PHONY: integration
integration: ## run the end-to-end tests only, none skipped: needs node, python3 and mvn
	integration/run.sh

# Each of the two builds has a folder and a build cache of its own: nothing of the first one is in the second.
.PHONY: reproducible
reproducible: ## build the program twice from nothing, and compare the bytes: takes some minutes
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	for copy in one two; do \
		mkdir "$$folder/$$copy"; \
		git ls-files -z | xargs -0 cp --parents -t "$$folder/$$copy"; \
		(cd "$$folder/$$copy" && CGO_ENABLED=0 GOCACHE="$$folder/cache-$$copy" go build -buildvcs=false $(FLAGS) -o "$$folder/$$copy.bin" ./cmd/xdsrelay); \
	done; \
	sha256sum "$$folder"/*.bin; cmp "$$folder/one.bin" "$$folder/two.bin"

.PHONY: package
package: ## build archives, Debian packages, images, the chart and their checksums into dist/ (ARCHES="amd64 arm64")
	deploy/package/build.sh

.PHONY: package-check
package-check: ## build the packages twice, compare the bytes, and install and start what is in dist/
	deploy/package/check.sh

# "go test -fuzz" takes one target of one package at a time. The first line
# makes a package that does not compile an error and not one without targets.
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 20s)
	@go test -run '^$$' $(PACKAGES) >/dev/null
	@for package in $$(go list $(PACKAGES)); do \
		for target in $$(go test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' -fuzzminimizetime 1s "$$package"; \
		done; \
	done

# What it finds is reported; how long it takes is nobody's concern. The tests of
# "models" play random schedules, of which "make test" plays a few.
.PHONY: soak
soak: ## run a suite that CI has no time for: SUITE=access (SEEDS schedules of clients with access rules), attack (one client that means harm, or a fleet that comes at once, beside others), compare (SEEDS walks from FROM before the build of revision OLD and this one), envoy (real Envoys), control-planes (the recipes), fleet (light clients by the thousand), hold (a control plane that is empty for two minutes, under Envoys and gRPC clients, and ten minutes of churn while operators hold what clients get), kubernetes (the chart on a cluster that is there: ON and LOAD say how it is reached), loads (load reports), page (the admin port's page in Chromium), models (SEEDS random schedules), mutate (mutants of the package ARGS), simulate (SEEDS from FROM, OPS of them)
	@case '$(SUITE)' in \
		access) go test -timeout 24h -count 1 -v $(ARGS) -run '^TestAccessIsNotTold|^TestEachCheckIsNeeded' ./downstream/delivery -access.seeds='$(SEEDS)'; \
			go test -timeout 24h -count 1 -v $(ARGS) -run '^TestAccessLeak' ./relay -leak.from='$(FROM)' -leak.seeds='$(SEEDS)';; \
		attack) go run ./integration/bench -scenario attack -runs 1 $(ARGS);; \
		compare) OLD='$(OLD)' SEEDS='$(SEEDS)' FROM='$(FROM)' integration/compare.sh $(ARGS);; \
		control-planes) integration/controlplanes.sh -v $(ARGS);; \
		envoy) XDSRELAY_SOAK=1 integration/envoy.sh -v $(ARGS);; \
		fleet) go test -timeout 2h -count 1 -v $(ARGS) -run '^TestFleet_|^TestClientsAtOnce|^TestRollout' ./integration \
				-fleet.steps=1000,5000,10000,20000,50000 -atonce.clients=5000 -rollout.clients=1000 -rollout.age=20s;; \
		hold) integration/hold.sh -v $(ARGS);; \
		kubernetes) integration/kubernetes/run.sh;; \
		loads) integration/loads.sh -v $(ARGS);; \
		page) integration/page.sh -v $(ARGS);; \
		models) result=0; \
			go test -timeout 24h $(ARGS) $$(grep -rl --include='*_test.go' 'rapid\.Check' . | xargs -n 1 dirname | sort -u) \
				-rapid.checks='$(SEEDS)' || result=1; \
			go test -timeout 24h $(ARGS) -run '^TestReload_storm$$' ./relay -storm.reloads='$(SEEDS)' || result=1; \
			go test -timeout 24h $(ARGS) -run '^Test(Direct)?Convergence|^TestMakeBeforeBreak|^TestReloadUnderLoad' ./integration \
				-reloadload.clients=1000 -convergence.runs='$(SEEDS)' -convergence.rules.runs='$(SEEDS)' -makebeforebreak.schedules='$(SEEDS)' || result=1; \
			exit $$result;; \
		mutate) go tool -modfile=tools/go.mod gremlins unleash --invert-logical --workers 1 --timeout-coefficient 10 $(or $(ARGS),./cache);; \
		simulate) overlay=$$(integration/simulate/exact.sh bin/.simulate); \
			go test -timeout 24h -count 1 -tags exact -ldflags=-checklinkname=0 -overlay "$$overlay" -v -run '^TestSimulate' ./integration/simulate \
				-simulate.from='$(FROM)' -simulate.seeds='$(SEEDS)' -simulate.ops='$(OPS)' $(ARGS);; \
		*) echo "SUITE is \"$(SUITE)\", which is none of: access, attack, compare, envoy, control-planes, fleet, hold, kubernetes, loads, models, mutate, simulate" >&2; exit 2;; \
	esac

##@ Speed

# With QUICK the tables are only shown: they are of sizes that nobody has.
# ARGS="-scenario reconnect" measures one scenario, and replaces its section only.
.PHONY: bench
bench: ## measure the relay beside other servers, into docs/benchmarks.md (QUICK=1: small and short)
	go run ./integration/bench $(if $(QUICK),-quick,-write docs/benchmarks.md) $(ARGS)

.PHONY: microbench
microbench: ## run all Go benchmarks
	go test -run '^$$' -bench . -benchmem $(PACKAGES)

# What it measures says nothing: CI looks whether they work. Packages without any
# would be linked for nothing.
.PHONY: bench-once
bench-once: ## run each Go benchmark once, the largest sizes left out
	@packages=$$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u); \
		out=$$(go test -short -run '^$$' -bench . -benchtime 1x $$packages 2>&1) || { echo "$$out"; exit 1; }; \
		grep '^ok' <<<"$$out"
