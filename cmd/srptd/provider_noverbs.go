//go:build !verbs

package main

import (
	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// newVerbs makes the provider on rdma-core; nil in a build without it.
var newVerbs func(*config.Config, hclog.Logger) rdma.Provider
