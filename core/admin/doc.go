// Package admin serves the control interface on a unix socket (adminpb) and the metrics endpoint (Prometheus). It reads
// the target's snapshots and never touches the I/O path.
package admin

// Version is the version of the build, set by the linker.
var Version = "unreleased"
