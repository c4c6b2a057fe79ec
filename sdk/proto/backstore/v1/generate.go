// Package backstorepb is the generated form of backstore.proto: the control plane of backstore plugins.
package backstorepb

//go:generate ../../generate.sh backstore.proto
