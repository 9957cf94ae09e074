.DEFAULT_GOAL := help

BENCH_ARGS ?=
FUZZTIME ?= 30s

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z\/]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: ## Run every test against real services, started for the run and stopped after it
	@scripts/test

.PHONY: test/short
test/short: ## Run the tests that need no service, and say what was left out
	@scripts/test -short

.PHONY: services/up
services/up: ## Start the services, to run single tests: eval "$(scripts/services env)"
	@scripts/services up

.PHONY: services/down
services/down: ## Stop the services that services/up started
	@scripts/services down

.PHONY: bench
bench: ## Run the benchmarks against real services (BENCH_ARGS="...")
	@scripts/bench $(BENCH_ARGS)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: cover
cover: ## Write cover.out and print the coverage of each package, with services
	@scripts/services run go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1

.PHONY: verify
verify: ## Check formatting, vet and tidiness of every module
	@scripts/verify

.PHONY: fmt
fmt: ## Format the Go code
	@gofmt -w .

.PHONY: controls
controls: ## Remove each protection in turn, in a copy, and see a named test fail
	@PAWL_SERVICES="postgres pgbouncer" scripts/services run go run ./scripts/controls

.PHONY: proof
proof: controls ## Run the tests in their long forms, and the controls
	@PAWL_PROOF=long scripts/test

.PHONY: clean
clean: ## Stop the services and remove what the targets above wrote
	@scripts/services down
	@rm -f cover.out
