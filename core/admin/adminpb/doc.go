// Package adminpb is the wire form of the control interface, generated from admin.proto.
package adminpb

//go:generate ../../../sdk/proto/generate.sh admin.proto
