// Package ioctxpb is the generated form of ioctx.proto: the control plane of ioctx plugins.
package ioctxpb

//go:generate ../../generate.sh ioctx.proto
