// Ioctx is the planner of I/O contexts. Its settings are described in internal/static.
package main

import (
	"github.com/gosrpt/gosrpt/plugins/ioctx/internal/static"
	"github.com/gosrpt/gosrpt/sdk/plugin"
)

func main() { plugin.ServeIOCtx(static.Opener{}) }
