# gosrpt: the commands of the README. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/gosrpt/gosrpt/core/admin.Version=$(VERSION)
PLUGINS := backstore-file backstore-nvme auth ioctx
# The verbs provider is built where the headers of rdma-core are, and needs its libraries then; make VERBS= leaves it out, and the
# binaries static. It is asked when it is needed: make deps may have installed them.
VERBS = $(shell pkg-config --exists libibverbs librdmacm libibumad 2>/dev/null && echo verbs)
TAGS = $(if $(VERBS),-tags verbs)
GOFILES := $(shell git ls-files '*.go' 2>/dev/null)

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## build the daemon, the operator's command and the plugins into bin/
	@mkdir -p $(BIN)/plugins
	CGO_ENABLED=$(if $(VERBS),1,0) go build $(TAGS) -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/srptd ./cmd/srptctl
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/srpt-plugin-check
	@for p in $(PLUGINS); do CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(BIN)/plugins/$$p ./plugins/$$p || exit 1; \
	  cp plugins/$$p/$$p.manifest.yaml $(BIN)/plugins/ || exit 1; done

.PHONY: demo
demo: build ## start a target with a file store, log in, verify data, show session and throughput
	@cmd/srptd/demo/demo.sh $(BIN)

.PHONY: lint
lint: ## formatting, vet, staticcheck, scripts, generated code
	@bad=$$(gofmt -l $(GOFILES)); [ -z "$$bad" ] || { echo "gofmt: $$bad"; exit 1; }
	go vet ./...
	go vet -tags e2e ./cmd/srptd/e2e/...
	go tool staticcheck ./...
	@if [ -n "$(VERBS)" ]; then set -x; go vet -tags verbs ./core/rdma/... ./cmd/... && go tool staticcheck -tags verbs ./core/rdma/... ./cmd/...; fi
	@for s in $$(git ls-files '*.sh' .ci/run); do bash -n $$s || exit 1; done

.PHONY: check
check: lint ## the quick tier: no root, no network, under 3 minutes
	go test $(TAGS) -short -count=1 ./...

.PHONY: deps
deps: ## install what the tests need (Debian, root)
	@.ci/deps

.PHONY: test
test: deps ## every tier: unit tests with the race detector, namespaces, the VM
	go test $(TAGS) -race -count=1 -timeout 20m ./...
	go test -v -count=1 -timeout 70m -tags e2e ./cmd/srptd/e2e/

.PHONY: test-blktests
test-blktests: deps ## the SRP tests of the blktests suite, from a checkout: BLKTESTS=folder make test-blktests
	@[ -n "$$BLKTESTS" ] || { echo "say where the suite is: BLKTESTS=folder make test-blktests" >&2; exit 2; }
	go test -v -count=1 -timeout 280m -tags e2e -run TestBlktests ./cmd/srptd/e2e/

.PHONY: generate
generate: ## remake generated code; the tree must be clean afterwards
	go generate ./...

.PHONY: bench
bench: build ## side by side: the target over roce on loopback, the plugin hop, the raw file
	go run ./cmd/srptctl/bench $(BIN)
	go run ./sdk/internal/hopbench

.PHONY: bench-vm
bench-vm: deps ## in the VM, deterministic: the kernel's target and ours, the same fio jobs
	go run ./cmd/srptd/e2e/benchvm

FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s, or a count as 1000x) each
	@go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir pkg; do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | sed 's/func //'); do \
	    echo "$$pkg $$f"; go test $(TAGS) -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$pkg || exit 1; done; done

.PHONY: soak
soak: deps ## the long campaigns: dying, upgraded and lying plugins; a million refused logins; hours of fuzz; changing interfaces; ten minutes of the lossless link
	GOSRPT_SOAK_KILLS=10000 GOSRPT_SOAK_UPGRADES=100 GOSRPT_SOAK_HOSTILE=10m \
	  go test -count=1 -timeout 180m -run 'TestKillsAtRandomMoments|TestUpgradesUnderLoad|TestPluginStopped|TestHostilePlugin' -v ./cmd/srptd
	go test -run '^$$' -bench DeathIsNoticed ./sdk/host
	GOSRPT_SOAK_LOGINS=1000000 go test -count=1 -run TestMemoryDoesNotGrow -v ./core/target
	$(MAKE) fuzz FUZZTIME=10m
	GOSRPT_E2E_SOAK=10m GOSRPT_E2E_KILLS=100 GOSRPT_E2E_CYCLES=200 GOSRPT_E2E_REMOVALS=50 GOSRPT_E2E_PLACES=all GOSRPT_E2E_MATRIX=all \
	  go test -count=1 -timeout 360m -tags e2e \
	  -run 'Lossless|KilledFilePlugins|InterfacesThatChange|Verbs|EveryOption|Resets' ./cmd/srptd/e2e/... -v

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
