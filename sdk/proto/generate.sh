#!/bin/sh
# Regenerates the Go code of a .proto file in the working directory, which is its package's under go generate.
# Usage: generate.sh NAME.proto. Needs protoc 3.21 or later (Debian: protobuf-compiler); the two plugins are
# pinned by the tool lines of go.mod.
set -eu
name=${1%.proto}
root=$(cd "$(dirname "$0")" && pwd)
# Files under sdk/proto import each other by their path from there.
case $PWD/ in "$root"/*) ;; *) root=$PWD ;; esac
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH="$bin:$PATH" protoc -I "$root" --go_out="$root" --go_opt=paths=source_relative \
	--go-grpc_out="$root" --go-grpc_opt=paths=source_relative "$PWD/$name.proto"
# The header names the local protoc, which may differ by distribution and changes nothing else.
for f in "$name.pb.go" "${name}_grpc.pb.go"; do
	[ ! -e "$f" ] || sed -i '/^\/\/.*protoc  *v[0-9]/d' "$f"
done
