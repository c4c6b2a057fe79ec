// Backstore-file is the backstore on a file or a block device. Its settings are described in
// internal/file.
package main

import (
	"github.com/gosrpt/gosrpt/plugins/backstore-file/internal/file"
	"github.com/gosrpt/gosrpt/sdk/plugin"
)

func main() { plugin.ServeBackstore(file.Backstore{}) }
