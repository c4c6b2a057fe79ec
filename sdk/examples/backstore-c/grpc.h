/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server of unary calls over HTTP/2 on a unix socket, in plain text: what a plugin's control plane needs, and no more. */
#ifndef GRPC_H
#define GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <protobuf-c/protobuf-c.h>

/* The status codes of gRPC that a plugin uses. What a call of the protocol refuses is in its answer instead. */
enum {
	GRPC_OK = 0,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_NOT_FOUND = 5,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
};

/* One call. It runs in a thread of its own and may wait until the deadline. */
struct grpc_call {
	struct timespec deadline; /* of the monotonic clock */
	int status;               /* GRPC_OK at first */
	/* Set by a call whose success must not outlive a caller that has given up: undo(id) is called if nobody was answered. */
	void (*undo)(uint64_t id);
	uint64_t undo_id;
};

/* A method: its path, what it takes, and who serves it with a request of that kind. */
struct grpc_method {
	const char *path;
	const ProtobufCMessageDescriptor *request;
	void (*serve)(struct grpc_call *call, const ProtobufCMessage *request);
};

/* Serves methods, which end with one without a path, to whoever connects to the listening socket. Returns 0, and goes on in
 * threads of its own until the end of the process, or -1. */
int grpc_serve(int listener, const struct grpc_method *methods);

/* Sets the answer of a call. */
void grpc_answer(struct grpc_call *call, const ProtobufCMessage *m);

/* Whether the caller has given up. arg is the call. */
bool grpc_cancelled(void *arg);

#endif
