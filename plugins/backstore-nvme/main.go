// Backstore-nvme is the backstore on an NVMe namespace's block device. Its settings are described in internal/nvme.
package main

import (
	"github.com/gosrpt/gosrpt/plugins/backstore-nvme/internal/nvme"
	"github.com/gosrpt/gosrpt/sdk/plugin"
)

func main() { plugin.ServeBackstore(nvme.Backstore{}) }
