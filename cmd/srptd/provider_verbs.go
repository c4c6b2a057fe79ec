//go:build verbs

package main

import (
	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/verbs"
)

// newVerbs makes the provider on rdma-core; nil in a build without it.
var newVerbs = func(cfg *config.Config, log hclog.Logger) rdma.Provider {
	return verbs.New(verbs.Config{Log: log.Named("verbs"), Addrs: cfg.Listen})
}
