#!/bin/sh
# Regenerates the Go code of a .proto file in the working directory, which is its package's under go generate.
# Usage: generate.sh NAME.proto. Needs protoc 3.21 or later (Debian: protobuf-compiler); the two plugins are
# pinned by the tool lines of go.mod.
set -eu
name=${1%.proto}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative "$name.proto"
# The header names the local protoc, which may differ by distribution and changes nothing else.
sed -i '/^\/\/.*protoc  *v[0-9]/d' "$name.pb.go" "${name}_grpc.pb.go"
