/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http2.h"

/* A gRPC message is one byte that says whether it is compressed, four of length, big-endian, and the message. */
enum { PREFIX = 5 };

static const struct grpc_method *methods;

struct call {
	struct grpc_call public; /* first: one pointer is both */
	struct stream *stream;
	const struct grpc_method *method;
	uint8_t *answer;
	size_t answer_length;
};

static const struct grpc_method *find(const char *path)
{
	for (const struct grpc_method *m = methods; m->path; m++) {
		if (strcmp(m->path, path) == 0)
			return m;
	}
	return NULL;
}

void grpc_answer(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct call *c = (struct call *)call;
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t *b = malloc(PREFIX + n);
	if (!b) {
		call->status = GRPC_RESOURCE_EXHAUSTED;
		return;
	}
	b[0] = 0;
	for (int i = 0; i < 4; i++)
		b[1 + i] = n >> (24 - 8 * i);
	protobuf_c_message_pack(m, b + PREFIX);
	free(c->answer);
	c->answer = b;
	c->answer_length = PREFIX + n;
}

bool grpc_cancelled(void *arg)
{
	return stream_cancelled(((struct call *)arg)->stream);
}

/* Takes the one message out of a request's body. */
static ProtobufCMessage *unpack(struct call *c)
{
	size_t length;
	const uint8_t *b = stream_body(c->stream, &length);
	if (length < PREFIX) {
		c->public.status = GRPC_INTERNAL;
		return NULL;
	}
	if (b[0] != 0) {
		c->public.status = GRPC_UNIMPLEMENTED; /* compressed, which this server does not offer */
		return NULL;
	}
	size_t n = (size_t)b[1] << 24 | b[2] << 16 | b[3] << 8 | b[4];
	ProtobufCMessage *m = NULL;
	if (n == length - PREFIX)
		m = protobuf_c_message_unpack(c->method->request, NULL, n, b + PREFIX);
	if (!m)
		c->public.status = GRPC_INTERNAL;
	return m;
}

static void *run(void *arg)
{
	struct call *c = arg;
	ProtobufCMessage *request = unpack(c);
	if (request) {
		c->method->serve(&c->public, request);
		protobuf_c_message_free_unpacked(request, NULL);
	}
	stream_answer(c->stream, c->public.status, c->answer, c->answer_length);
	return NULL;
}

/* The callbacks of http2. */

static bool known(const char *path)
{
	return find(path) != NULL;
}

static void *begin(struct stream *s, const char *path, const struct timespec *deadline)
{
	struct call *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	*c = (struct call){.public = {.deadline = *deadline}, .stream = s, .method = find(path)};
	pthread_t t;
	if (pthread_create(&t, NULL, run, c) != 0) {
		free(c);
		return NULL;
	}
	pthread_detach(t);
	return c;
}

static void end(void *call, bool answered)
{
	struct call *c = call;
	if (!answered && c->public.undo)
		c->public.undo(c->public.undo_id);
	free(c->answer);
	free(c);
}

static const struct http2_server server = {.known = known, .begin = begin, .end = end};

static void *accept_all(void *arg)
{
	int listener = (int)(intptr_t)arg;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0 && http2_start(fd, &server) < 0)
			close(fd);
		if (fd < 0)
			usleep(10000); /* out of descriptors, perhaps: do not turn in vain */
	}
	return NULL;
}

int grpc_serve(int listener, const struct grpc_method *m)
{
	methods = m;
	pthread_t t;
	if (pthread_create(&t, NULL, accept_all, (void *)(intptr_t)listener) != 0)
		return -1;
	pthread_detach(t);
	return 0;
}
