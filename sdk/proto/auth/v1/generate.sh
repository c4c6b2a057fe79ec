#!/bin/sh
# Regenerates the Go code of auth.proto. Needs protoc 3.21 or later (Debian: protobuf-compiler); the two
# plugins are pinned by the tool lines of go.mod.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative auth.proto
# The header names the local protoc, which may differ by distribution and changes nothing else.
sed -i '/^\/\/.*protoc  *v[0-9]/d' auth.pb.go auth_grpc.pb.go
