// Package authpb is the generated form of auth.proto: the control plane of auth plugins.
package authpb

//go:generate ../../generate.sh auth.proto
