// Package plugin is what a plugin's main calls.
//
//	func main() { plugin.ServeBackstore(myBackstore{}) }
//
// ServeAuth and ServeIOCtx are the same for the other two kinds of plugin.
//
// It speaks the protocol of sdk/PROTOCOL.md: gRPC for control, shared-memory rings for data. The host logs every
// line written to stderr; lines in go-hclog's JSON format keep their level. Print nothing to stdout.
package plugin

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
)

// ServeBackstore serves b to the host that started this process, until the host says so or is gone. Then every request
// that has begun is finished, every store is closed, and ServeBackstore returns; main returns after it. If no host started
// the process, it says so on stderr and exits with status 1.
func ServeBackstore(b backstore.Backstore) {
	// A host that died leaves a broken stderr behind. Losing a log line must not lose the writes that are under way.
	// And a service manager that stops the host sends SIGTERM to its plugins too: it is the host who ends them, in order.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGTERM)
	s := newServer(b)
	if err := s.openChannel(hostGone); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	bridge.Serve(s)
	s.shutdown()
}

// hostGone ends the process after an orderly shutdown: the gRPC server has nobody left to tell it to stop.
func hostGone(s *server) {
	s.shutdown()
	os.Exit(0)
}
