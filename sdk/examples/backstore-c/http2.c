/* SPDX-License-Identifier: Apache-2.0 */
#include "http2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "grpc.h"

enum {
	MAX_STREAMS = 64,
	MAX_BODY = 1 << 20, /* of a control message */
	MAX_PATH = 128,
};

struct stream {
	struct connection *conn;
	int32_t id;
	char path[MAX_PATH];
	bool is_grpc, begun;
	struct timespec deadline;
	uint8_t *body;
	size_t length;

	/* The answer, from the call's thread by way of the connection's list. */
	int status;
	const uint8_t *answer;
	size_t answer_length, sent;
	struct stream *next;

	struct stream *later, **link; /* in the connection's list of open streams */
	bool open, answered; /* of the connection's thread */
	atomic_bool cancelled;
	void *call;
};

struct connection {
	int fd, wake;
	const struct http2_server *server;
	nghttp2_session *session;
	struct stream *streams; /* the open ones */
	int calls;              /* begun and not answered */

	pthread_mutex_t lock;
	struct stream *done; /* answered, not yet seen by the connection's thread */
};

const uint8_t *stream_body(const struct stream *s, size_t *length)
{
	*length = s->length;
	return s->body;
}

bool stream_cancelled(const struct stream *s)
{
	return atomic_load(&s->cancelled);
}

void stream_answer(struct stream *s, int status, const uint8_t *body, size_t length)
{
	struct connection *c = s->conn;
	s->status = status;
	s->answer = body;
	s->answer_length = length;
	uint64_t one = 1;
	/* Under the lock: afterwards the connection may be gone. */
	pthread_mutex_lock(&c->lock);
	s->next = c->done;
	c->done = s;
	if (write(c->wake, &one, sizeof one) < 0)
		perror("backstore-c: waking a connection");
	pthread_mutex_unlock(&c->lock);
}

/* Frees a stream that is closed and that no call has any more. */
static void drop(struct stream *s)
{
	if (s->open || (s->begun && !s->answered))
		return;
	if (s->call)
		s->conn->server->end(s->call, !atomic_load(&s->cancelled));
	free(s->body);
	free(s);
}

static void enlist(struct connection *c, struct stream *s)
{
	s->conn = c;
	s->open = true;
	s->later = c->streams;
	s->link = &c->streams;
	if (s->later)
		s->later->link = &s->later;
	c->streams = s;
}

/* Ends a stream. Nobody hears an answer that comes after this. */
static void shut(struct stream *s, bool heard)
{
	*s->link = s->later;
	if (s->later)
		s->later->link = s->link;
	s->open = false;
	if (!heard || !s->answered)
		atomic_store(&s->cancelled, true);
	drop(s);
}

/* Headers. */

/* A grpc-timeout, such as 10S or 9999980u: at most eight digits and a unit. */
static bool parse_timeout(const char *v, size_t n, struct timespec *deadline)
{
	static const char names[] = "HMSmun";
	static const uint64_t units[] = {3600000000000, 60000000000, 1000000000, 1000000, 1000, 1};
	if (n < 2 || n > 9)
		return false;
	uint64_t count = 0;
	for (size_t i = 0; i < n - 1; i++) {
		if (v[i] < '0' || v[i] > '9')
			return false;
		count = count * 10 + (v[i] - '0');
	}
	const char *unit = memchr(names, v[n - 1], sizeof names - 1);
	if (!unit)
		return false;
	const uint64_t day = 86400000000000, each = units[unit - names];
	uint64_t ns = count > day / each ? day : count * each;
	clock_gettime(CLOCK_MONOTONIC, deadline);
	ns += deadline->tv_nsec;
	deadline->tv_sec += ns / 1000000000;
	deadline->tv_nsec = ns % 1000000000;
	return true;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
		     const uint8_t *value, size_t length, uint8_t flags, void *arg)
{
	(void)flags, (void)arg;
	struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!s)
		return 0;
	const char *v = (const char *)value;
#define IS(text) (name_length == sizeof(text) - 1 && memcmp(name, text, name_length) == 0)
	if (IS(":path") && length < MAX_PATH) {
		memcpy(s->path, v, length);
		s->path[length] = 0;
	} else if (IS("content-type")) {
		s->is_grpc = length >= 16 && memcmp(v, "application/grpc", 16) == 0;
	} else if (IS("grpc-timeout") && !parse_timeout(v, length, &s->deadline)) {
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
	}
#undef IS
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	struct stream *s = calloc(1, sizeof *s);
	if (!s)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	s->id = frame->hd.stream_id;
	enlist(arg, s);
	(void)parse_timeout("1H", 2, &s->deadline); /* of a caller that sets none */
	return nghttp2_session_set_stream_user_data(session, s->id, s);
}

/* Answers. */

#define HEADER(n, v, l) {(uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, (l), NGHTTP2_NV_FLAG_NO_COPY_NAME}

static int submit_trailers(nghttp2_session *session, struct stream *s)
{
	nghttp2_nv nv[] = {HEADER("grpc-status", "0", 1)};
	return nghttp2_submit_trailer(session, s->id, nv, 1);
}

static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length, uint32_t *flags,
			   nghttp2_data_source *source, void *arg)
{
	(void)id, (void)arg;
	struct stream *s = source->ptr;
	size_t n = s->answer_length - s->sent;
	if (n > length)
		n = length;
	memcpy(buf, s->answer + s->sent, n);
	s->sent += n;
	if (s->sent == s->answer_length) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (submit_trailers(session, s) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return n;
}

/* An answer without a body has its status in the headers. */
static int submit_status(nghttp2_session *session, struct stream *s, int status)
{
	char text[12];
	int n = snprintf(text, sizeof text, "%d", status);
	nghttp2_nv nv[] = {
		HEADER(":status", "200", 3),
		HEADER("content-type", "application/grpc", 16),
		HEADER("grpc-status", text, (size_t)n),
	};
	return nghttp2_submit_response(session, s->id, nv, 3, NULL);
}

static int submit_answer(nghttp2_session *session, struct stream *s)
{
	if (s->status != GRPC_OK || s->answer_length == 0)
		return submit_status(session, s, s->status != GRPC_OK ? s->status : GRPC_INTERNAL);
	nghttp2_nv nv[] = {HEADER(":status", "200", 3), HEADER("content-type", "application/grpc", 16)};
	nghttp2_data_provider data = {.source.ptr = s, .read_callback = read_answer};
	return nghttp2_submit_response(session, s->id, nv, 2, &data);
}

/* Requests. */

/* Serves a request that is complete. */
static int begin(nghttp2_session *session, struct stream *s)
{
	struct connection *c = s->conn;
	s->begun = true;
	s->call = c->server->begin(s, s->path, &s->deadline);
	if (s->call) {
		c->calls++;
		return 0;
	}
	s->begun = false;
	s->answered = true;
	return submit_status(session, s, GRPC_RESOURCE_EXHAUSTED);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	(void)arg;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!s || s->answered || s->begun)
		return 0;
	/* At the headers, not at the end of the request: a stream that is not served has no end. */
	if (!s->is_grpc || !s->conn->server->known(s->path)) {
		s->answered = true;
		return submit_status(session, s, GRPC_UNIMPLEMENTED);
	}
	return frame->hd.flags & NGHTTP2_FLAG_END_STREAM ? begin(session, s) : 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t length, void *arg)
{
	(void)flags, (void)arg;
	struct stream *s = nghttp2_session_get_stream_user_data(session, id);
	if (!s || s->answered || s->begun)
		return 0;
	uint8_t *b = length <= MAX_BODY - s->length ? realloc(s->body, s->length + length) : NULL;
	if (!b) {
		s->answered = true;
		return submit_status(session, s, GRPC_RESOURCE_EXHAUSTED);
	}
	memcpy(b + s->length, data, length);
	s->body = b;
	s->length += length;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	(void)arg;
	struct stream *s = nghttp2_session_get_stream_user_data(session, id);
	if (s)
		shut(s, code == NGHTTP2_NO_ERROR);
	return 0;
}

/* The connection. */

/* Sends what calls have answered. */
static int reap(struct connection *c)
{
	pthread_mutex_lock(&c->lock);
	struct stream *s = c->done;
	c->done = NULL;
	pthread_mutex_unlock(&c->lock);
	int err = 0;
	while (s) {
		struct stream *next = s->next;
		c->calls--;
		s->answered = true;
		if (!s->open)
			drop(s);
		else if (c->session && submit_answer(c->session, s) != 0)
			err = -1;
		s = next;
	}
	return err;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t length, int flags, void *arg)
{
	(void)session, (void)flags;
	ssize_t n = send(((struct connection *)arg)->fd, data, length, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
	return n;
}

static ssize_t on_recv(nghttp2_session *session, uint8_t *buf, size_t length, int flags, void *arg)
{
	(void)session, (void)flags;
	ssize_t n = recv(((struct connection *)arg)->fd, buf, length, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
	return n == 0 ? NGHTTP2_ERR_EOF : n;
}

static bool wait_wake(struct connection *c, bool socket)
{
	struct pollfd p[] = {{.fd = c->wake, .events = POLLIN}, {.fd = socket ? c->fd : -1}};
	if (socket && nghttp2_session_want_read(c->session))
		p[1].events |= POLLIN;
	if (socket && nghttp2_session_want_write(c->session))
		p[1].events |= POLLOUT;
	if (poll(p, 2, -1) < 0)
		return errno == EINTR;
	uint64_t n;
	if (p[0].revents && read(c->wake, &n, sizeof n) < 0)
		return errno == EAGAIN || errno == EINTR;
	return true;
}

static void converse(struct connection *c)
{
	while (nghttp2_session_want_read(c->session) || nghttp2_session_want_write(c->session)) {
		if (nghttp2_session_send(c->session) != 0 || !wait_wake(c, true) || nghttp2_session_recv(c->session) != 0 ||
		    reap(c) != 0)
			return;
	}
}

static nghttp2_session *new_session(struct connection *c)
{
	nghttp2_session_callbacks *on;
	nghttp2_session *session = NULL;
	if (nghttp2_session_callbacks_new(&on) != 0)
		return NULL;
	nghttp2_session_callbacks_set_send_callback(on, on_send);
	nghttp2_session_callbacks_set_recv_callback(on, on_recv);
	nghttp2_session_callbacks_set_on_begin_headers_callback(on, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(on, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(on, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(on, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(on, on_close);
	if (nghttp2_session_server_new(&session, on, c) != 0)
		session = NULL;
	nghttp2_session_callbacks_del(on);
	nghttp2_settings_entry most = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MAX_STREAMS};
	if (session && nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &most, 1) != 0) {
		nghttp2_session_del(session);
		session = NULL;
	}
	return session;
}

static void *run(void *arg)
{
	struct connection *c = arg;
	converse(c);
	while (c->streams)
		shut(c->streams, false);
	nghttp2_session_del(c->session);
	c->session = NULL;
	while (c->calls > 0) { /* a call may not outlive its connection */
		wait_wake(c, false);
		reap(c);
	}
	close(c->fd);
	close(c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

int http2_start(int fd, const struct http2_server *server)
{
	struct connection *c = calloc(1, sizeof *c);
	if (!c)
		return -1;
	c->fd = fd;
	c->server = server;
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&c->lock, NULL);
	c->session = c->wake < 0 ? NULL : new_session(c);
	pthread_t t;
	if (c->session && pthread_create(&t, NULL, run, c) == 0) {
		pthread_detach(t);
		return 0;
	}
	nghttp2_session_del(c->session);
	if (c->wake >= 0)
		close(c->wake);
	free(c);
	return -1;
}
