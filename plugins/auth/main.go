// Auth is the authoriser that reads an access list. Its settings and the list are described in internal/accesslist.
package main

import (
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/plugins/auth/internal/accesslist"
	"github.com/gosrpt/gosrpt/sdk/plugin"
)

func main() {
	log := hclog.New(&hclog.LoggerOptions{Name: "accesslist", Output: os.Stderr, JSONFormat: true})
	plugin.ServeAuth(accesslist.Opener{Log: log})
}
