/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 for gRPC: connections, streams, headers. nghttp2 does the protocol. */
#ifndef HTTP2_H
#define HTTP2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct stream;

struct http2_server {
	/* Whether a path is served. Called in the connection's thread, as are the others. */
	bool (*known)(const char *path);
	/* Begins to serve a request that is complete; stream_answer must follow, from any thread. Returns what end gets, or NULL if
	 * it cannot be served now. */
	void *(*begin)(struct stream *s, const char *path, const struct timespec *deadline);
	/* Called once, after stream_answer: the stream is closed. answered: its caller has not given up. */
	void (*end)(void *call, bool answered);
};

/* Serves a connection in a thread of its own and takes over fd, which does not block. Returns 0 or -1. */
int http2_start(int fd, const struct http2_server *server);

/* The request's body, which stays the stream's. */
const uint8_t *stream_body(const struct stream *s, size_t *length);

/* Whether the caller has given up. Any thread may ask until it has answered. */
bool stream_cancelled(const struct stream *s);

/* Ends a request with a gRPC status and, if that is 0, a body, which stays the caller's until end. */
void stream_answer(struct stream *s, int status, const uint8_t *body, size_t length);

#endif
