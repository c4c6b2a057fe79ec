package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
)

// makers make the RDMA providers that are built in, by name.
func makers() map[string]func(*config.Config, hclog.Logger) rdma.Provider {
	m := map[string]func(*config.Config, hclog.Logger) rdma.Provider{config.ProviderRoCE: newRoCE}
	if newVerbs != nil {
		m[config.ProviderVerbs] = newVerbs
	}
	return m
}

// newProvider makes the provider that the configuration names.
func newProvider(cfg *config.Config, log hclog.Logger) (rdma.Provider, error) {
	built := makers()
	if f := built[cfg.Provider]; f != nil {
		return f(cfg, log), nil
	}
	return nil, usageError{fmt.Errorf("provider: %s is not built into this srptd, which has %s: build it with the tag %s where the headers of rdma-core are "+
		"(Debian: libibverbs-dev, librdmacm-dev), as in: go build -tags %s ./cmd/srptd", cfg.Provider, providerNames(), cfg.Provider, cfg.Provider)}
}

func newRoCE(cfg *config.Config, log hclog.Logger) rdma.Provider {
	// A silent peer is asked for a sign of life after a third of the time, and has the rest for its answer.
	return roce.New(roce.Config{
		Log: log.Named("roce"), Interfaces: cfg.RoCE.Interfaces, Addrs: cfg.Listen, ReceiveBuffer: int(cfg.RoCE.ReceiveBuffer),
		NoGSO: !cfg.RoCE.Segmentation, AckDelay: uint8(cfg.RoCE.TargetAckDelay), KeepAlive: cfg.Session.DeadPeer / 3,
	})
}

func providerNames() string { return strings.Join(slices.Sorted(maps.Keys(makers())), ", ") }
