package file

import (
	"errors"
	"math"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// config is the plugin's configuration, as settings describes it.
type config struct {
	path      string
	size      int64
	blockSize int64
	direct    string
	engine    descriptor.Engine
	readOnly  bool
}

// The modes of direct.
const (
	auto = "auto"
	on   = "on"
	off  = "off"
)

var settings = schema.Schema{
	{Key: "path", Required: true, Help: "the file or block device"},
	{Key: "size", Kind: schema.KindSize, Min: 1, Max: math.MaxInt64,
		Help: "makes a sparse file of this size if path does not exist; a file that does has at least this size"},
	{Key: "block_size", Kind: schema.KindChoice, Choices: []string{"512", "4096"}, Default: "512", Help: "logical block size in bytes"},
	{Key: "direct", Kind: schema.KindChoice, Choices: []string{auto, on, off}, Default: auto,
		Help: "direct I/O: auto if the file system permits it, on to refuse to open otherwise, off"},
	{Key: "engine", Kind: schema.KindChoice, Default: auto,
		Choices: []string{auto, string(descriptor.IOUring), string(descriptor.Pool)},
		Help:    "auto is plain calls for a file in tmpfs and else io_uring if the kernel has it, io_uring refuses to open otherwise, pool makes calls in threads and can compare and write"},
	{Key: "read_only", Kind: schema.KindBool, Default: "false", Help: "true refuses writes"},
}

// Describe implements schema.Describer.
func (Backstore) Describe() schema.Description {
	return schema.Description{Name: "file", Version: "1.0.0", Summary: "a file or a block device", Settings: settings}
}

func parseConfig(m map[string]string) (config, error) {
	v, err := settings.Read(m)
	if err != nil {
		return config{}, err
	}
	if v.Text("path") == "" {
		return config{}, errors.New("path: is empty; name a file or a block device")
	}
	c := config{
		path: v.Text("path"), size: v.Size("size"), blockSize: 512, direct: v.Text("direct"), engine: descriptor.Engine(v.Text("engine")),
		readOnly: v.Bool("read_only"),
	}
	if v.Text("block_size") == "4096" {
		c.blockSize = 4096
	}
	return c, nil
}
